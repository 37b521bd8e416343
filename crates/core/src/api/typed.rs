//! The typed calls on host memory: slices in, slices out, and the call returns when the result is there.

use super::communicator::Communicator;
use super::raw::{RawCall, VectorCounts};
use crate::call::{Collective, RedOp};
use crate::error::{Error, ErrorKind, Result};
use infiniccl_reduce::Element;

/// All calls of this block are collective: every rank of the communicator makes the same calls in the same order.
/// They block until the result is there (or the time limit `timeouts.collective` passed), and fail with
/// [`ErrorKind::InvalidArgument`] before anything moves if a slice has the wrong length. What "the same call"
/// means is checked: ranks that differ in collective, type, operator, count or root all get an error.
impl Communicator {
    /// Every rank gets the reduction of all ranks' `send`; `recv` is as long as `send`.
    pub fn all_reduce<T: Element>(&self, send: &[T], recv: &mut [T], op: impl Into<RedOp>) -> Result<()> {
        self.run_built(Collective::AllReduce, || {
            same_length("recv", recv.len(), send.len())?;
            Ok(RawCall::all_reduce(
                bytes(send),
                bytes_mut(recv),
                len(send),
                T::DTYPE,
                op,
            ))
        })
    }

    /// [`Self::all_reduce`] in place.
    pub fn all_reduce_in_place<T: Element>(&self, buffer: &mut [T], op: impl Into<RedOp>) -> Result<()> {
        self.run_built(Collective::AllReduce, || {
            let ptr = bytes_mut(buffer);
            Ok(RawCall::all_reduce(ptr, ptr, len(buffer), T::DTYPE, op))
        })
    }

    /// Every rank's `buffer` becomes that of `root`.
    pub fn broadcast<T: Element>(&self, buffer: &mut [T], root: u32) -> Result<()> {
        self.run_built(Collective::Broadcast, || {
            let ptr = bytes_mut(buffer);
            Ok(RawCall::broadcast(ptr, ptr, len(buffer), T::DTYPE, root))
        })
    }

    /// `root` gets the reduction of all ranks' `send` in `recv`, which the other ranks give as `None`.
    pub fn reduce<T: Element>(
        &self,
        send: &[T],
        recv: Option<&mut [T]>,
        op: impl Into<RedOp>,
        root: u32,
    ) -> Result<()> {
        self.run_built(Collective::Reduce, || {
            let recv = self.root_output(recv, root, send.len())?;
            Ok(RawCall::reduce(bytes(send), recv, len(send), T::DTYPE, op, root))
        })
    }

    /// [`Self::reduce`] in place: the root's `buffer` becomes the result, the others' stay as they are.
    pub fn reduce_in_place<T: Element>(
        &self,
        buffer: &mut [T],
        op: impl Into<RedOp>,
        root: u32,
    ) -> Result<()> {
        self.run_built(Collective::Reduce, || {
            let ptr = bytes_mut(buffer);
            Ok(RawCall::reduce(ptr, ptr, len(buffer), T::DTYPE, op, root))
        })
    }

    /// Every rank gets all ranks' `send`, in rank order; `recv` is `size` times as long.
    pub fn all_gather<T: Element>(&self, send: &[T], recv: &mut [T]) -> Result<()> {
        self.run_built(Collective::AllGather, || {
            same_length("recv", recv.len(), self.times_size(send.len())?)?;
            Ok(RawCall::all_gather(
                bytes(send),
                bytes_mut(recv),
                len(send),
                T::DTYPE,
            ))
        })
    }

    /// [`Self::all_gather`] in place: this rank's part already lies at its place in `buffer`.
    pub fn all_gather_in_place<T: Element>(&self, buffer: &mut [T]) -> Result<()> {
        self.run_built(Collective::AllGather, || {
            let part = self.part("buffer", buffer.len())?;
            let ptr = bytes_mut(buffer);
            let mine = ptr.wrapping_add(self.rank() as usize * part * size_of::<T>());
            Ok(RawCall::all_gather(mine, ptr, part as u64, T::DTYPE))
        })
    }

    /// Rank r gets block r of the reduction; `send` is `size` times as long as `recv`.
    pub fn reduce_scatter<T: Element>(&self, send: &[T], recv: &mut [T], op: impl Into<RedOp>) -> Result<()> {
        self.run_built(Collective::ReduceScatter, || {
            same_length("send", send.len(), self.times_size(recv.len())?)?;
            Ok(RawCall::reduce_scatter(
                bytes(send),
                bytes_mut(recv),
                len(recv),
                T::DTYPE,
                op,
            ))
        })
    }

    /// [`Self::reduce_scatter`] in place: block r of rank r's `buffer` becomes its result.
    pub fn reduce_scatter_in_place<T: Element>(&self, buffer: &mut [T], op: impl Into<RedOp>) -> Result<()> {
        self.run_built(Collective::ReduceScatter, || {
            let part = self.part("buffer", buffer.len())?;
            let ptr = bytes_mut(buffer);
            let mine = ptr.wrapping_add(self.rank() as usize * part * size_of::<T>());
            Ok(RawCall::reduce_scatter(ptr, mine, part as u64, T::DTYPE, op))
        })
    }

    /// `root` gets all ranks' `send` in `recv`, in rank order; the other ranks give `None`.
    pub fn gather<T: Element>(&self, send: &[T], recv: Option<&mut [T]>, root: u32) -> Result<()> {
        self.run_built(Collective::Gather, || {
            let recv = self.root_output(recv, root, self.times_size(send.len())?)?;
            Ok(RawCall::gather(bytes(send), recv, len(send), T::DTYPE, root))
        })
    }

    /// Rank r gets block r of the root's `send`, which the other ranks give as `None`.
    pub fn scatter<T: Element>(&self, send: Option<&[T]>, recv: &mut [T], root: u32) -> Result<()> {
        self.run_built(Collective::Scatter, || {
            let send = match send {
                Some(send) if self.rank() == root => {
                    same_length("send", send.len(), self.times_size(recv.len())?)?;
                    bytes(send)
                }
                None if self.rank() == root && !recv.is_empty() => return Err(missing("send")),
                _ => std::ptr::null(),
            };
            Ok(RawCall::scatter(send, bytes_mut(recv), len(recv), T::DTYPE, root))
        })
    }

    /// Block s of rank r's `send` becomes block r of rank s's `recv`.
    pub fn all_to_all<T: Element>(&self, send: &[T], recv: &mut [T]) -> Result<()> {
        self.run_built(Collective::AllToAll, || {
            same_length("recv", recv.len(), send.len())?;
            let part = self.part("send", send.len())?;
            Ok(RawCall::all_to_all(
                bytes(send),
                bytes_mut(recv),
                part as u64,
                T::DTYPE,
            ))
        })
    }

    /// [`Self::all_to_all`] with blocks of any size, described in elements by `counts`.
    pub fn all_to_all_v<T: Element>(&self, send: &[T], recv: &mut [T], counts: &VectorCounts) -> Result<()> {
        self.run_built(Collective::AllToAllV, || {
            within("send", send.len(), &counts.send_counts, &counts.send_displs)?;
            within("recv", recv.len(), &counts.recv_counts, &counts.recv_displs)?;
            Ok(RawCall::all_to_all_v(
                bytes(send),
                bytes_mut(recv),
                counts.clone(),
                T::DTYPE,
            ))
        })
    }

    /// [`Self::all_gather`] with blocks of any size: `counts[r]` elements of rank r land at `displs[r]`.
    pub fn all_gather_v<T: Element>(
        &self,
        send: &[T],
        recv: &mut [T],
        counts: &[u64],
        displs: &[u64],
    ) -> Result<()> {
        self.run_built(Collective::AllGatherV, || {
            within("recv", recv.len(), counts, displs)?;
            let mine = counts.get(self.rank() as usize).copied().unwrap_or(0);
            same_length("send", send.len(), usize::try_from(mine).unwrap_or(usize::MAX))?;
            let counts = VectorCounts {
                recv_counts: counts.to_vec(),
                recv_displs: displs.to_vec(),
                ..VectorCounts::default()
            };
            Ok(RawCall::all_gather_v(
                bytes(send),
                bytes_mut(recv),
                counts,
                T::DTYPE,
            ))
        })
    }

    /// [`Self::reduce_scatter`] with blocks of any size: rank r gets `counts[r]` elements.
    pub fn reduce_scatter_v<T: Element>(
        &self,
        send: &[T],
        recv: &mut [T],
        counts: &[u64],
        op: impl Into<RedOp>,
    ) -> Result<()> {
        self.run_built(Collective::ReduceScatterV, || {
            let total = counts.iter().fold(0u64, |a, c| a.saturating_add(*c));
            same_length("send", send.len(), usize::try_from(total).unwrap_or(usize::MAX))?;
            let mine = counts.get(self.rank() as usize).copied().unwrap_or(0);
            same_length("recv", recv.len(), usize::try_from(mine).unwrap_or(usize::MAX))?;
            let counts = VectorCounts {
                send_counts: counts.to_vec(),
                ..VectorCounts::default()
            };
            Ok(RawCall::reduce_scatter_v(
                bytes(send),
                bytes_mut(recv),
                counts,
                T::DTYPE,
                op,
            ))
        })
    }

    /// Sends `data` to rank `peer`, which receives it with [`Self::recv`] of the same length.
    ///
    /// Messages between two ranks match in order. A message to this rank itself needs a [`super::Group`].
    pub fn send<T: Element>(&self, data: &[T], peer: u32) -> Result<()> {
        self.run(RawCall::send(bytes(data), len(data), T::DTYPE, peer))
    }

    /// Receives what rank `peer` sends with [`Self::send`].
    pub fn recv<T: Element>(&self, data: &mut [T], peer: u32) -> Result<()> {
        self.run(RawCall::recv(bytes_mut(data), len(data), T::DTYPE, peer))
    }

    /// Returns when every rank has entered.
    pub fn barrier(&self) -> Result<()> {
        self.run(RawCall::barrier())
    }

    /// A sum of inputs, each multiplied by its rank's own `scalar` first.
    pub fn premul_sum<T: Element>(&self, scalar: T) -> RedOp {
        let mut bits = [0u8; 8];
        // SAFETY: an element is plain data of at most eight bytes.
        unsafe {
            std::ptr::copy_nonoverlapping(
                (&raw const scalar).cast::<u8>(),
                bits.as_mut_ptr(),
                size_of::<T>(),
            );
        }
        RedOp::PreMulSum {
            scalar_bits: u64::from_le_bytes(bits),
        }
    }

    fn times_size(&self, len: usize) -> Result<usize> {
        len.checked_mul(self.size() as usize).ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidArgument,
                "count does not fit into the address space",
            )
        })
    }

    fn part(&self, argument: &'static str, len: usize) -> Result<usize> {
        let size = self.size() as usize;
        if !len.is_multiple_of(size) {
            let text = format!("{argument} has {len} elements, which {size} ranks cannot share evenly");
            return Err(Error::new(ErrorKind::InvalidArgument, text).with("argument", argument));
        }
        Ok(len / size)
    }

    fn root_output<T: Element>(&self, recv: Option<&mut [T]>, root: u32, wanted: usize) -> Result<*mut u8> {
        match recv {
            Some(recv) if self.rank() == root => {
                same_length("recv", recv.len(), wanted)?;
                Ok(bytes_mut(recv))
            }
            None if self.rank() == root && wanted > 0 => Err(missing("recv")),
            _ => Ok(std::ptr::null_mut()),
        }
    }
}

pub(super) fn bytes<T>(slice: &[T]) -> *const u8 {
    slice.as_ptr().cast()
}

pub(super) fn bytes_mut<T>(slice: &mut [T]) -> *mut u8 {
    slice.as_mut_ptr().cast()
}

pub(super) fn len<T>(slice: &[T]) -> u64 {
    slice.len() as u64
}

fn missing(argument: &'static str) -> Error {
    Error::new(
        ErrorKind::InvalidArgument,
        format!("{argument} is needed on the root"),
    )
    .with("argument", argument)
}

fn same_length(argument: &'static str, got: usize, wanted: usize) -> Result<()> {
    if got == wanted {
        return Ok(());
    }
    let text = format!("{argument} has {got} elements and needs {wanted}");
    Err(Error::new(ErrorKind::InvalidArgument, text).with("argument", argument))
}

/// Every block lies within a slice of `len` elements.
fn within(argument: &'static str, len: usize, counts: &[u64], displs: &[u64]) -> Result<()> {
    let outside = counts.iter().zip(displs).position(|(count, displ)| {
        displ.checked_add(*count).is_none_or(|end| end > len as u64) && *count > 0
    });
    match outside {
        None => Ok(()),
        Some(rank) => {
            let text =
                format!("{argument} has {len} elements, and the block of rank {rank} ends behind them");
            Err(Error::new(ErrorKind::InvalidArgument, text).with("argument", argument))
        }
    }
}
