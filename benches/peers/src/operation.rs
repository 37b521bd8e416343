//! The operations: their buffers, one call, and whether the result is right.

use infiniccl::{Communicator, DataType, RawCall, ReduceOp};

use crate::AnyError;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    AllReduce,
    AllGather,
    PingPong,
    AllReduceBf16,
}

impl Operation {
    const ALL: [Operation; 4] = [
        Operation::AllReduce,
        Operation::AllGather,
        Operation::PingPong,
        Operation::AllReduceBf16,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Operation::AllReduce => "allreduce",
            Operation::AllGather => "allgather",
            Operation::PingPong => "pingpong",
            Operation::AllReduceBf16 => "allreduce_bf16",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|op| op.name() == name)
    }

    /// Whole elements only, and no output of more than 256 MiB.
    pub(crate) fn can_have(self, bytes: usize, ranks: usize) -> bool {
        bytes >= 8 && bytes.is_multiple_of(4) && (self != Operation::AllGather || bytes * ranks <= 256 << 20)
    }
}

/// Bytes of a page; buffers start at one.
const PAGE: usize = 4096;

/// Memory that starts at a page.
struct Pages {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl Pages {
    fn new(len: usize) -> Self {
        let memory = vec![0; len + PAGE];
        let start = memory.as_ptr().align_offset(PAGE);
        Pages { memory, start, len }
    }

    fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }
}

/// One operation at one size, with its memory.
pub(crate) struct Buffers {
    operation: Operation,
    input: Pages,
    output: Pages,
    rank: u32,
    ranks: u32,
}

/// A whole number that differs by rank and index; sums of them are exact in the element type.
fn value(bf16: bool, index: usize, rank: u32) -> f32 {
    let rank = rank as usize;
    let number = if bf16 {
        (index + 3 * rank) % 5
    } else {
        (7 * index + 13 * rank) % 101
    };
    // Below 101.
    number as f32
}

/// The bits of a whole number that bfloat16 holds exactly.
fn bf16(number: f32) -> [u8; 2] {
    let [_, _, low, high] = number.to_le_bytes();
    [low, high]
}

impl Buffers {
    pub(crate) fn new(operation: Operation, bytes: usize, rank: u32, ranks: u32) -> Self {
        let out = if operation == Operation::AllGather {
            bytes * ranks as usize
        } else {
            bytes
        };
        let mut input = Pages::new(bytes);
        match operation {
            Operation::AllReduceBf16 => {
                for (i, element) in input.bytes_mut().chunks_exact_mut(2).enumerate() {
                    element.copy_from_slice(&bf16(value(true, i, rank)));
                }
            }
            _ => {
                for (i, element) in input.bytes_mut().chunks_exact_mut(4).enumerate() {
                    element.copy_from_slice(&value(false, i, rank).to_le_bytes());
                }
            }
        }
        Buffers {
            operation,
            input,
            output: Pages::new(out),
            rank,
            ranks,
        }
    }

    /// Fills the output with something that is no result.
    pub(crate) fn spoil(&mut self) {
        self.output.bytes_mut().fill(0xff);
    }

    /// One call; of a ping-pong, there and back.
    pub(crate) fn call(&mut self, comm: &Communicator) -> Result<(), AnyError> {
        let bytes = self.input.len as u64;
        let send = self.input.bytes().as_ptr();
        let recv = self.output.bytes_mut().as_mut_ptr();
        let run = |call: RawCall| -> Result<(), AnyError> {
            // SAFETY: both buffers are as long as the counts below say, live in `self`, and are not touched until
            // the call has ended, which it has when this returns.
            Ok(unsafe { comm.run_raw(call) }?)
        };
        match self.operation {
            Operation::AllReduce => run(RawCall::all_reduce(
                send,
                recv,
                bytes / 4,
                DataType::Float32,
                ReduceOp::Sum,
            )),
            Operation::AllReduceBf16 => run(RawCall::all_reduce(
                send,
                recv,
                bytes / 2,
                DataType::BFloat16,
                ReduceOp::Sum,
            )),
            Operation::AllGather => run(RawCall::all_gather(send, recv, bytes, DataType::Uint8)),
            Operation::PingPong => {
                let peer = 1 - self.rank;
                let ping = RawCall::send(send, bytes, DataType::Uint8, peer);
                let pong = RawCall::recv(recv, bytes, DataType::Uint8, peer);
                let (first, second) = if self.rank == 0 {
                    (ping, pong)
                } else {
                    (pong, ping)
                };
                run(first)?;
                run(second)
            }
        }
    }

    /// Whether every element of the output is right.
    pub(crate) fn is_right(&self) -> bool {
        let sum = |bf16: bool, i: usize| (0..self.ranks).map(|r| value(bf16, i, r)).sum::<f32>();
        let output = self.output.bytes();
        match self.operation {
            Operation::AllReduce => output
                .chunks_exact(4)
                .enumerate()
                .all(|(i, e)| e == sum(false, i).to_le_bytes()),
            Operation::AllReduceBf16 => output
                .chunks_exact(2)
                .enumerate()
                .all(|(i, e)| e == bf16(sum(true, i))),
            Operation::AllGather => output.chunks_exact(self.input.len).zip(0..).all(|(block, rank)| {
                block
                    .chunks_exact(4)
                    .enumerate()
                    .all(|(i, e)| e == value(false, i, rank).to_le_bytes())
            }),
            Operation::PingPong => output
                .chunks_exact(4)
                .enumerate()
                .all(|(i, e)| e == value(false, i, 1 - self.rank).to_le_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bf16_bits_of_whole_numbers_are_those_of_the_upper_half() {
        assert_eq!(bf16(1.0), [0x80, 0x3f]);
        assert_eq!(bf16(16.0), [0x80, 0x41]);
    }

    #[test]
    fn a_result_of_one_rank_is_its_input() {
        for operation in [
            Operation::AllReduce,
            Operation::AllGather,
            Operation::AllReduceBf16,
        ] {
            let mut buffers = Buffers::new(operation, 400, 0, 1);
            buffers.spoil();
            assert!(!buffers.is_right(), "{operation:?}");
            let input = buffers.input.bytes().to_vec();
            buffers.output.bytes_mut().copy_from_slice(&input);
            assert!(buffers.is_right(), "{operation:?}");
        }
    }
}
