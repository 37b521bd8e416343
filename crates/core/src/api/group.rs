//! Groups: calls that are given together and run as one, so that messages in both directions do not wait for
//! each other and one thread can drive several communicators.

use super::communicator::Communicator;
use super::inner::Inner;
use super::raw::RawCall;
use super::typed::{bytes, bytes_mut, len};
use crate::call::RedOp;
use crate::error::{Error, Result};
use infiniccl_reduce::Element;
use std::marker::PhantomData;
use std::sync::Arc;

/// Calls collected for one start. Nothing moves before [`Group::end`]; a group that is dropped does nothing.
///
/// Messages of a group run at once, before its collectives; the collectives run in the order they were added,
/// which must be the same on all ranks. A group belongs to the thread that made it.
///
/// ```
/// use infiniccl::{Communicator, Context, Group};
///
/// # fn main() -> infiniccl::Result<()> {
/// let context = Context::load()?;
/// let ranks = Communicator::local(&context, 3)?;
/// std::thread::scope(|scope| {
///     for comm in &ranks {
///         scope.spawn(move || -> infiniccl::Result<()> {
///             let (rank, size) = (comm.rank(), comm.size());
///             let (mine, mut theirs) = ([rank], [0u32]);
///             let mut group = Group::new();
///             group.send(comm, &mine, (rank + 1) % size);
///             group.recv(comm, &mut theirs, (rank + size - 1) % size);
///             group.end()?;
///             assert_eq!(theirs, [(rank + size - 1) % size]);
///             Ok(())
///         });
///     }
/// });
/// # Ok(()) }
/// ```
#[derive(Default)]
pub struct Group<'a> {
    calls: Vec<(Arc<Inner>, RawCall)>,
    /// Borrows the buffers, and keeps the group on its thread.
    buffers: PhantomData<(&'a mut [u8], *const ())>,
}

impl<'a> Group<'a> {
    /// An empty group.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds [`Communicator::send`].
    pub fn send<T: Element>(&mut self, comm: &Communicator, data: &'a [T], peer: u32) {
        self.add(comm, RawCall::send(bytes(data), len(data), T::DTYPE, peer));
    }

    /// Adds [`Communicator::recv`].
    pub fn recv<T: Element>(&mut self, comm: &Communicator, data: &'a mut [T], peer: u32) {
        self.add(comm, RawCall::recv(bytes_mut(data), len(data), T::DTYPE, peer));
    }

    /// Adds [`Communicator::all_reduce_in_place`].
    pub fn all_reduce_in_place<T: Element>(
        &mut self,
        comm: &Communicator,
        buffer: &'a mut [T],
        op: impl Into<RedOp>,
    ) {
        let ptr = bytes_mut(buffer);
        self.add(comm, RawCall::all_reduce(ptr, ptr, len(buffer), T::DTYPE, op));
    }

    /// Adds [`Communicator::broadcast`].
    pub fn broadcast<T: Element>(&mut self, comm: &Communicator, buffer: &'a mut [T], root: u32) {
        let ptr = bytes_mut(buffer);
        self.add(comm, RawCall::broadcast(ptr, ptr, len(buffer), T::DTYPE, root));
    }

    /// Adds any call.
    ///
    /// # Safety
    /// The pointers of `call` must be valid for what the call reads and writes until [`Group::end`] returns.
    pub unsafe fn raw(&mut self, comm: &Communicator, call: RawCall) {
        self.add(comm, call);
    }

    /// Runs the calls, and returns when all have ended.
    ///
    /// The first error is returned after the calls of every communicator have ended or failed, so that no buffer
    /// is in use any more.
    pub fn end(self) -> Result<()> {
        let mut comms: Vec<Arc<Inner>> = Vec::new();
        for (comm, _) in &self.calls {
            if !comms.iter().any(|c| Arc::ptr_eq(c, comm)) {
                comms.push(comm.clone());
            }
        }
        let mut first: Option<Error> = None;
        let mut tickets = Vec::new();
        for comm in &comms {
            let calls: Vec<RawCall> = self
                .calls
                .iter()
                .filter(|(c, _)| Arc::ptr_eq(c, comm))
                .map(|(_, call)| call.clone())
                .collect();
            match comm.submit_group(calls) {
                Ok(ticket) => tickets.push((comm.clone(), ticket)),
                Err(error) => {
                    first.get_or_insert(error);
                }
            }
        }
        match Inner::wait_all(&tickets) {
            Err(error) => Err(first.unwrap_or(error)),
            Ok(()) => first.map_or(Ok(()), Err),
        }
    }

    fn add(&mut self, comm: &Communicator, call: RawCall) {
        self.calls.push((comm.inner().clone(), call));
    }
}
