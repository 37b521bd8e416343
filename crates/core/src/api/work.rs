//! Calls that run beside the caller: the handle owns the buffers until the result is there.

use super::communicator::Communicator;
use super::inner::{BoolOutput, Inner};
use super::raw::RawCall;
use super::typed::{bytes, bytes_mut, len};
use crate::call::RedOp;
use crate::error::Result;
use infiniccl_reduce::Element;
use std::fmt;
use std::sync::Arc;

/// A call under way, with the buffers that it works on.
///
/// The buffers come back from [`Work::wait`]. Dropping the handle neither cancels the call nor frees the buffers
/// early: they live until the call has ended, and forgetting the handle only leaks them.
#[must_use = "the result is there after `wait`"]
pub struct Work<B: Send + 'static> {
    inner: Arc<Inner>,
    ticket: u64,
    buffers: Option<B>,
    output: Option<BoolOutput>,
}

impl<B: Send + 'static> Work<B> {
    pub(super) fn new(inner: Arc<Inner>, ticket: u64, buffers: B, output: Option<BoolOutput>) -> Self {
        Work {
            inner,
            ticket,
            buffers: Some(buffers),
            output,
        }
    }

    /// Whether the call has ended, well or badly; never blocks.
    pub fn is_done(&self) -> bool {
        self.inner.has_ended(self.ticket)
    }

    /// Blocks until the call has ended, helping it along, and gives the buffers back.
    ///
    /// Fails with the communicator's error; the buffers are then dropped.
    pub fn wait(mut self) -> Result<B> {
        self.inner.wait(self.ticket)?;
        self.output.take().map_or(Ok(()), |output| output.normalise())?;
        Ok(self.buffers.take().expect("taken once only"))
    }
}

impl<B: Send + 'static> Drop for Work<B> {
    fn drop(&mut self) {
        if let Some(buffers) = self.buffers.take()
            && !self.is_done()
        {
            self.inner.keep_until(self.ticket, Box::new(buffers));
        }
    }
}

impl<B: Send + 'static> fmt::Debug for Work<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work")
            .field("ticket", &self.ticket)
            .field("done", &self.is_done())
            .finish()
    }
}

/// Calls that return at once; the rules of [`Communicator::all_reduce`] and its siblings hold.
impl Communicator {
    /// Starts [`Communicator::all_reduce_in_place`] on a buffer that the work owns meanwhile.
    pub fn start_all_reduce<T: Element>(
        &self,
        mut buffer: Vec<T>,
        op: impl Into<RedOp>,
    ) -> Result<Work<Vec<T>>> {
        let ptr = bytes_mut(&mut buffer);
        let call = RawCall::all_reduce(ptr, ptr, len(&buffer), T::DTYPE, op);
        self.start(call, buffer)
    }

    /// Starts [`Communicator::broadcast`].
    pub fn start_broadcast<T: Element>(&self, mut buffer: Vec<T>, root: u32) -> Result<Work<Vec<T>>> {
        let ptr = bytes_mut(&mut buffer);
        let call = RawCall::broadcast(ptr, ptr, len(&buffer), T::DTYPE, root);
        self.start(call, buffer)
    }

    /// Starts [`Communicator::all_gather`]; gives back `send` and the gathered elements.
    pub fn start_all_gather<T: Element + Default>(&self, send: Vec<T>) -> Result<Work<(Vec<T>, Vec<T>)>> {
        let mut recv = vec![T::default(); send.len() * self.size() as usize];
        let call = RawCall::all_gather(bytes(&send), bytes_mut(&mut recv), len(&send), T::DTYPE);
        self.start(call, (send, recv))
    }

    /// Starts [`Communicator::send`].
    pub fn start_send<T: Element>(&self, data: Vec<T>, peer: u32) -> Result<Work<Vec<T>>> {
        let call = RawCall::send(bytes(&data), len(&data), T::DTYPE, peer);
        self.start(call, data)
    }

    /// Starts [`Communicator::recv`].
    pub fn start_recv<T: Element>(&self, mut data: Vec<T>, peer: u32) -> Result<Work<Vec<T>>> {
        let call = RawCall::recv(bytes_mut(&mut data), len(&data), T::DTYPE, peer);
        self.start(call, data)
    }

    /// Starts any call.
    ///
    /// # Safety
    /// The pointers of `call` must be valid for what the call reads and writes, not be used otherwise until the
    /// work has ended, and belong to memory that `owner` keeps alive.
    pub unsafe fn enqueue<B: Send + 'static>(&self, call: RawCall, owner: B) -> Result<Work<B>> {
        self.start(call, owner)
    }
}
