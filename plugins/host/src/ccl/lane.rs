//! A lane: operations of one communicator that run one after another in the order of their issue.
//!
//! All collectives are one lane; the messages to each peer and those from each peer are a lane each. An operation is
//! issued when it is given to a stream and becomes ready when the stream gets there; whichever thread looks at a lane
//! drives its first operation, if that is ready and no other thread is at it.

use super::bell::bit;
use super::segment::Segment;
use super::wait::{Poll, Waiter};
use infiniccl_plugin_api::Failure;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A resumable operation, and what its lane remembers from one to the next.
pub(crate) trait Operation {
    /// Kept by the lane.
    type State: Default + std::fmt::Debug;

    /// Goes on as far as possible without waiting. A failure is the communicator's.
    fn step(&mut self, segment: &Segment, state: &mut Self::State) -> Result<Poll, Failure>;
}

/// Operations in order.
#[derive(Debug)]
pub(crate) struct Lane<O: Operation> {
    inner: Mutex<Inner<O>>,
    /// Operations that have finished well.
    done: AtomicU64,
}

#[derive(Debug)]
struct Inner<O: Operation> {
    queue: VecDeque<Entry<O>>,
    /// None while a thread drives an operation.
    state: Option<O::State>,
    issued: u64,
}

#[derive(Debug)]
struct Entry<O> {
    ticket: u64,
    ready: bool,
    /// None while a thread drives it.
    operation: Option<O>,
}

impl<O: Operation> Default for Lane<O> {
    fn default() -> Self {
        let inner = Inner {
            queue: VecDeque::new(),
            state: Some(O::State::default()),
            issued: 0,
        };
        Lane {
            inner: Mutex::new(inner),
            done: AtomicU64::new(0),
        }
    }
}

impl<O: Operation> Lane<O> {
    fn lock(&self) -> MutexGuard<'_, Inner<O>> {
        // A panic poisons the whole plugin; the lock has nothing to add.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues an operation; its ticket.
    pub(crate) fn issue(&self, operation: O, ready: bool) -> u64 {
        let mut inner = self.lock();
        inner.issued += 1;
        let ticket = inner.issued;
        inner.queue.push_back(Entry {
            ticket,
            ready,
            operation: Some(operation),
        });
        ticket
    }

    /// Lets an operation run: its stream has got there.
    pub(crate) fn set_ready(&self, ticket: u64) {
        let mut inner = self.lock();
        if let Some(entry) = inner.queue.iter_mut().find(|entry| entry.ticket == ticket) {
            entry.ready = true;
        }
    }

    /// Whether an operation has finished well.
    pub(crate) fn is_done(&self, ticket: u64) -> bool {
        self.done.load(Ordering::SeqCst) >= ticket
    }

    /// Whether nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        let inner = self.lock();
        inner.queue.is_empty() && inner.state.is_some()
    }

    /// Drives the lane as far as possible without waiting.
    pub(crate) fn drive(&self, segment: &Segment) -> Result<Poll, Failure> {
        let elsewhere = Poll::Pending {
            mask: bit(segment.me()),
            moved: false,
        };
        let mut moved_before = false;
        loop {
            let (mut operation, mut state) = {
                let mut inner = self.lock();
                let Inner { queue, state, .. } = &mut *inner;
                let Some(first) = queue.front_mut() else {
                    return Ok(if state.is_some() { Poll::Done } else { elsewhere });
                };
                if !first.ready {
                    return Ok(elsewhere);
                }
                match (state.take(), first.operation.take()) {
                    (Some(state), Some(operation)) => (operation, state),
                    (taken, _) => {
                        *state = taken;
                        return Ok(elsewhere);
                    }
                }
            };
            let step = operation.step(segment, &mut state);
            let mut inner = self.lock();
            inner.state = Some(state);
            match step {
                Ok(Poll::Pending { mask, moved }) => {
                    if let Some(first) = inner.queue.front_mut() {
                        first.operation = Some(operation);
                    }
                    return Ok(Poll::Pending {
                        mask,
                        moved: moved || moved_before,
                    });
                }
                Ok(Poll::Done) => {
                    inner.queue.pop_front();
                    self.finish(inner, segment);
                    moved_before = true;
                }
                Err(failure) => {
                    // The communicator has failed: what is queued never runs.
                    inner.queue.clear();
                    return Err(failure);
                }
            }
        }
    }

    /// Runs an operation on this thread after all issued before; returns when it has finished.
    pub(crate) fn run(&self, segment: &Segment, mut operation: O) -> Result<(), Failure> {
        let mut state = {
            let mut inner = self.lock();
            let idle = inner.queue.is_empty();
            match inner.state.take() {
                Some(state) if idle => {
                    inner.issued += 1;
                    state
                }
                taken => {
                    inner.state = taken;
                    drop(inner);
                    let ticket = self.issue(operation, true);
                    return self.finish_ticket(segment, ticket);
                }
            }
        };
        let mut waiter = Waiter::new(segment.crowded());
        let outcome = loop {
            match operation.step(segment, &mut state) {
                Ok(Poll::Done) => break Ok(()),
                Ok(Poll::Pending { mask, moved }) => waiter.step(segment, mask, moved, None),
                Err(failure) => break Err(failure),
            }
        };
        let mut inner = self.lock();
        inner.state = Some(state);
        if outcome.is_ok() {
            self.finish(inner, segment);
        }
        outcome
    }

    fn finish_ticket(&self, segment: &Segment, ticket: u64) -> Result<(), Failure> {
        let mut waiter = Waiter::new(segment.crowded());
        while !self.is_done(ticket) {
            match self.drive(segment)? {
                Poll::Done => segment.stopped()?,
                Poll::Pending { mask, moved } => {
                    segment.stopped()?;
                    waiter.step(segment, mask | bit(segment.me()), moved, None);
                }
            }
        }
        Ok(())
    }

    /// Counts a finished operation and wakes threads of this rank that wait for it.
    fn finish(&self, inner: MutexGuard<'_, Inner<O>>, segment: &Segment) {
        let done = self.done.load(Ordering::Relaxed) + 1;
        self.done.store(done, Ordering::SeqCst);
        drop(inner);
        segment.announce_to(segment.me());
    }
}
