//! A case of the oracle on a real communicator: buffers, the call, and the check of what came back.

use std::ptr;

use crate::oracle::{Case, Collective, Dtype, Mismatches, Op};
use crate::pages::Pages;
use infiniccl::{Communicator, DataType, Group, RawCall, ReduceOp, VectorCounts};

/// Bytes in front of each buffer that nobody may write; behind it is a page that nobody may touch.
const GUARD: usize = 64;
const GUARD_BYTE: u8 = 0xc5;

/// What an output holds before the call.
const POISON: u8 = 0x5a;

/// Memory that ends where the process may not go on, with a guard in front.
struct Buffer {
    pages: Pages,
}

impl Buffer {
    fn new(len: usize) -> Self {
        let mut pages = Pages::new(GUARD + len);
        pages.bytes_mut()[..GUARD].fill(GUARD_BYTE);
        Buffer { pages }
    }

    fn bytes(&self) -> &[u8] {
        &self.pages.bytes()[GUARD..]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.pages.bytes_mut()[GUARD..]
    }

    fn guard_is_intact(&self) -> bool {
        self.pages.bytes()[..GUARD].iter().all(|&b| b == GUARD_BYTE)
    }
}

/// Whether input and output are the same memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// Two buffers.
    OutOfPlace,
    /// One, as NCCL's rules have it.
    InPlace,
}

/// A case as one rank calls it, with its memory.
pub struct Call {
    case: Case,
    rank: usize,
    /// The input, or input and output.
    first: Buffer,
    /// The output, where it is another one.
    second: Option<Buffer>,
    send_at: usize,
    recv_at: usize,
}

impl Call {
    /// Memory for `case` on `rank`, filled; `None` if it cannot be called in place.
    pub fn new(case: Case, rank: usize, placement: Placement) -> Option<Self> {
        let size = case.dtype.size();
        let mut call = match placement {
            Placement::OutOfPlace => Call {
                first: Buffer::new(case.send_elements(rank) * size),
                second: Some(Buffer::new(case.recv_elements(rank) * size)),
                send_at: 0,
                recv_at: 0,
                case,
                rank,
            },
            Placement::InPlace => {
                let place = case.in_place(rank)?;
                Call {
                    first: Buffer::new(place.elements * size),
                    second: None,
                    send_at: place.send_at * size,
                    recv_at: place.recv_at * size,
                    case,
                    rank,
                }
            }
        };
        call.refill();
        Some(call)
    }

    /// Writes the input again, and spoils the output.
    pub fn refill(&mut self) {
        self.first.bytes_mut().fill(POISON);
        let input = self.case.send(self.rank);
        self.first.bytes_mut()[self.send_at..self.send_at + input.len()].copy_from_slice(&input);
        if let Some(second) = &mut self.second {
            second.bytes_mut().fill(POISON);
        }
    }

    /// Calls it; blocks until the result is there.
    pub fn run(&mut self, comm: &Communicator) -> infiniccl::Result<()> {
        let case = self.case;
        let (send, recv) = self.pointers();
        let (dtype, op) = (dtype(case.dtype), op(case.op));
        let (count, root) = (case.count as u64, case.root as u32);
        let call = match case.collective {
            Collective::AllReduce => RawCall::all_reduce(send, recv, count, dtype, op),
            Collective::Broadcast => RawCall::broadcast(send, recv, count, dtype, root),
            Collective::Reduce => RawCall::reduce(send, recv, count, dtype, op, root),
            Collective::AllGather => RawCall::all_gather(send, recv, count, dtype),
            Collective::ReduceScatter => RawCall::reduce_scatter(send, recv, count, dtype, op),
            Collective::Gather => RawCall::gather(send, recv, count, dtype, root),
            Collective::Scatter => RawCall::scatter(send, recv, count, dtype, root),
            Collective::AllToAll => RawCall::all_to_all(send, recv, count, dtype),
            Collective::AllToAllV => {
                let (send_counts, send_displs) = packed(case.pair_counts_sent(self.rank));
                let (recv_counts, recv_displs) = packed(case.pair_counts_received(self.rank));
                let counts = VectorCounts {
                    send_counts,
                    send_displs,
                    recv_counts,
                    recv_displs,
                };
                RawCall::all_to_all_v(send, recv, counts, dtype)
            }
            Collective::AllGatherV => {
                let (recv_counts, recv_displs) = packed(case.block_counts());
                let counts = VectorCounts {
                    recv_counts,
                    recv_displs,
                    ..Default::default()
                };
                RawCall::all_gather_v(send, recv, counts, dtype)
            }
            Collective::ReduceScatterV => {
                let (send_counts, _) = packed(case.block_counts());
                let counts = VectorCounts {
                    send_counts,
                    ..Default::default()
                };
                RawCall::reduce_scatter_v(send, recv, counts, dtype, op)
            }
            Collective::SendRecv => {
                let (rank, size) = (comm.rank(), comm.size());
                let mut group = Group::new();
                // SAFETY: the buffers are as long as the oracle says the call reads and writes, and live in `self`.
                unsafe {
                    group.raw(comm, RawCall::send(send, count, dtype, (rank + 1) % size));
                    group.raw(comm, RawCall::recv(recv, count, dtype, (rank + size - 1) % size));
                }
                return group.end();
            }
        };
        // SAFETY: as above, and the call has ended when this returns.
        unsafe { comm.run_raw(call) }
    }

    fn pointers(&mut self) -> (*const u8, *mut u8) {
        // A rank without input or output passes none.
        let sends = self.case.send_elements(self.rank) > 0;
        let receives = self.case.recv_elements(self.rank) > 0;
        let first = self.first.bytes_mut().as_mut_ptr();
        let second = self.second.as_mut().map_or(first, |b| b.bytes_mut().as_mut_ptr());
        let send = if sends {
            first.wrapping_add(self.send_at).cast_const()
        } else {
            ptr::null()
        };
        let recv = if receives {
            second.wrapping_add(self.recv_at)
        } else {
            ptr::null_mut()
        };
        (send, recv)
    }

    /// Compares the output with the oracle's, and looks at what must not have changed.
    pub fn check(&self) -> Mismatches {
        let size = self.case.dtype.size();
        let output = self.second.as_ref().unwrap_or(&self.first);
        let bytes = self.case.recv_elements(self.rank) * size;
        let mut found = self
            .case
            .check(self.rank, &output.bytes()[self.recv_at..self.recv_at + bytes]);
        let mut also = |fine: bool, what: &str| {
            if !fine {
                found.wrong += 1;
                found.first.get_or_insert_with(|| what.to_string());
            }
        };
        also(
            self.first.guard_is_intact() && output.guard_is_intact(),
            "bytes in front of the buffer were written",
        );
        if self.second.is_some() {
            let input = self.first.bytes();
            also(input == self.case.send(self.rank), "the input was written");
        }
        found
    }
}

/// Counts with the places of blocks that lie one after the other.
fn packed(counts: Vec<usize>) -> (Vec<u64>, Vec<u64>) {
    let mut next = 0;
    let counts: Vec<u64> = counts.into_iter().map(|c| c as u64).collect();
    let places = counts.iter().map(|c| {
        next += c;
        next - c
    });
    let places = places.collect();
    (counts, places)
}

/// The library's name for a type of the oracle.
pub fn dtype(dtype: Dtype) -> DataType {
    dtype.name().parse().expect("both name the same types")
}

/// The library's name for an operator of the oracle.
pub fn op(op: Op) -> ReduceOp {
    op.name().parse().expect("both name the same operators")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oracle_and_the_library_name_the_same_things() {
        let types: Vec<_> = Dtype::ALL.iter().map(|&d| dtype(d)).collect();
        assert_eq!(types, DataType::ALL);
        let ops: Vec<_> = Op::ALL.iter().map(|&o| op(o)).collect();
        assert_eq!(ops, ReduceOp::ALL);
        for &d in Dtype::ALL {
            assert_eq!(d.size(), dtype(d).size());
            assert!(Op::ALL.iter().all(|&o| d.supports(o) == dtype(d).supports(op(o))));
        }
        for &collective in Collective::ALL.iter().filter(|&&c| c != Collective::SendRecv) {
            let named: infiniccl::Collective = collective.name().parse().unwrap();
            assert_eq!(
                (named.reduces(), named.has_root()),
                (collective.reduces(), collective.has_root())
            );
        }
    }

    #[test]
    fn a_written_guard_or_input_is_found() {
        let case = Case {
            collective: Collective::AllReduce,
            dtype: Dtype::Int32,
            op: Op::Max,
            count: 5,
            root: 0,
            ranks: 1,
            values: crate::oracle::Values::Exact,
            salt: 1,
        };
        let mut call = Call::new(case, 0, Placement::OutOfPlace).unwrap();
        let result = case.send(0);
        call.second.as_mut().unwrap().bytes_mut().copy_from_slice(&result);
        assert!(call.check().is_ok());
        call.first.bytes_mut()[3] ^= 1;
        assert_eq!(call.check().first.as_deref(), Some("the input was written"));
        call.refill();
        call.second.as_mut().unwrap().bytes_mut().copy_from_slice(&result);
        call.second.as_mut().unwrap().pages.bytes_mut()[GUARD - 1] = 0;
        assert_eq!(
            call.check().first.as_deref(),
            Some("bytes in front of the buffer were written")
        );
    }
}
