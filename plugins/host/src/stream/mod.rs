//! Streams of CPU work: in order, on a thread of their own, or inside the calls of whoever polls them.

mod api;
mod work;

pub(crate) use api::{
    event_create, event_destroy, event_query, event_record, event_synchronize, event_wait, stream_adopt,
    stream_create, stream_destroy, stream_hold, stream_notify, stream_release,
};
pub(crate) use work::{Gate, Work};

use crate::ccl::{Patience, Poll, Waiter};
use infiniccl_plugin_api::{Failure, Status};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use work::pause;

/// Failures that a stream remembers for events.
const REMEMBERED: usize = 64;

/// A stream.
#[derive(Debug)]
pub(crate) struct Stream {
    inner: Mutex<Inner>,
    changed: Condvar,
    /// Pieces of work that were given to it, and that have ended. Both only grow.
    issued: AtomicU64,
    ended: AtomicU64,
    polled: bool,
    /// Held by the one thread that drives a polled stream.
    driver: Mutex<()>,
}

#[derive(Debug, Default)]
struct Inner {
    queue: VecDeque<Work>,
    failures: VecDeque<(u64, Failure)>,
    /// Where the last event was recorded: the next one tells of failures after that.
    recorded: u64,
    closing: bool,
    worker: Option<JoinHandle<()>>,
    /// Threads that wait for `changed`: notifying costs a system call even when there are none.
    sleepers: usize,
}

/// A place in a stream's work: all that was given to it before.
#[derive(Debug, Clone)]
pub(crate) struct Mark {
    stream: Arc<Stream>,
    since: u64,
    position: u64,
}

impl Stream {
    /// A stream; a polled one has no thread and advances inside [`Mark::query`] and [`Mark::wait`].
    pub(crate) fn new(polled: bool) -> Arc<Stream> {
        Arc::new(Stream {
            inner: Mutex::default(),
            changed: Condvar::new(),
            issued: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            polled,
            driver: Mutex::new(()),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic poisons the whole plugin; the lock has nothing to add.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends work.
    pub(crate) fn push(self: &Arc<Self>, work: Work) -> Result<(), Failure> {
        let mut inner = self.lock();
        if !self.polled && inner.worker.is_none() {
            let stream = Arc::clone(self);
            let worker = std::thread::Builder::new()
                .name("infiniccl-host".into())
                .spawn(move || stream.work())
                .map_err(|e| Failure::new(Status::SYSTEM, format!("starting the thread of a stream: {e}")))?;
            inner.worker = Some(worker);
        }
        inner.queue.push_back(work);
        self.issued.fetch_add(1, Ordering::SeqCst);
        self.notify(inner);
        Ok(())
    }

    /// Marks all work given to the stream until now.
    pub(crate) fn mark(self: &Arc<Self>) -> Mark {
        let mut inner = self.lock();
        let position = self.issued.load(Ordering::SeqCst);
        let since = std::mem::replace(&mut inner.recorded, position);
        Mark {
            stream: Arc::clone(self),
            since,
            position,
        }
    }

    /// Ends the stream: USAGE if work is left, else its thread is joined.
    pub(crate) fn close(&self) -> Result<(), Failure> {
        let worker = {
            let mut inner = self.lock();
            if !self.has_ended(self.issued.load(Ordering::SeqCst)) {
                return Err(crate::error::usage(
                    "the stream still has work; synchronize it first",
                ));
            }
            inner.closing = true;
            inner.worker.take()
        };
        self.changed.notify_all();
        if let Some(worker) = worker {
            // A panic in it has poisoned the plugin already.
            let _ = worker.join();
        }
        Ok(())
    }

    fn has_ended(&self, position: u64) -> bool {
        self.ended.load(Ordering::SeqCst) >= position
    }

    /// The thread of an ordinary stream.
    fn work(&self) {
        infiniccl_plugin_api::guard(&crate::PLUGIN_POISON, "the thread of a stream", || {
            while let Some(mut work) = self.next() {
                let mut waiter = Waiter::new(false);
                let outcome = loop {
                    match work.step() {
                        Ok(Poll::Done) => break Ok(()),
                        Ok(Poll::Pending { mask, moved }) => {
                            pause(&mut waiter, work.waits_for(), mask, moved, None);
                        }
                        Err(failure) => break Err(failure),
                    }
                };
                drop(work);
                self.end(outcome);
            }
            Status::OK
        });
    }

    /// Waits for the next piece of work; none when the stream is closed.
    fn next(&self) -> Option<Work> {
        let mut patience = Patience::new(false);
        while self.has_ended(self.issued.load(Ordering::SeqCst)) && !patience.is_over() {}
        let mut inner = self.lock();
        loop {
            if let Some(work) = inner.queue.pop_front() {
                return Some(work);
            }
            if inner.closing {
                return None;
            }
            inner.sleepers += 1;
            inner = self.changed.wait(inner).unwrap_or_else(PoisonError::into_inner);
            inner.sleepers -= 1;
        }
    }

    fn end(&self, outcome: Result<(), Failure>) {
        let mut inner = self.lock();
        let position = self.ended.load(Ordering::SeqCst) + 1;
        if let Err(failure) = outcome {
            if inner.failures.len() == REMEMBERED {
                inner.failures.pop_front();
            }
            inner.failures.push_back((position, failure));
        }
        self.ended.store(position, Ordering::SeqCst);
        self.notify(inner);
    }

    /// Wakes whoever sleeps on the stream; the lock is held until it is known whether anybody does.
    fn notify(&self, inner: MutexGuard<'_, Inner>) {
        let asleep = inner.sleepers > 0;
        drop(inner);
        if asleep {
            self.changed.notify_all();
        }
    }

    /// Drives a polled stream as far as possible without waiting.
    ///
    /// What it waits for, if it does, comes with the ranks' bits.
    fn drive(&self) -> Option<(work::Wait, u64, bool)> {
        let mut moved_before = false;
        loop {
            let mut work = self.lock().queue.pop_front()?;
            match work.step() {
                Ok(Poll::Done) => self.end(Ok(())),
                Err(failure) => self.end(Err(failure)),
                Ok(Poll::Pending { mask, moved }) => {
                    let wait = work.waits_for();
                    self.lock().queue.push_front(work);
                    return Some((wait, mask, moved || moved_before));
                }
            }
            moved_before = true;
        }
    }

    /// Sleeps until the stream has got to a place, or `limit` passed.
    fn sleep(&self, position: u64, limit: Duration) {
        let mut inner = self.lock();
        if !self.has_ended(position) {
            inner.sleepers += 1;
            // Woken, timed out or neither: the caller looks again.
            let (mut inner, _) = self
                .changed
                .wait_timeout(inner, limit)
                .unwrap_or_else(PoisonError::into_inner);
            inner.sleepers -= 1;
        }
    }
}

impl Mark {
    /// Whether the work before the mark has ended; drives a polled stream. Never blocks.
    pub(crate) fn query(&self) -> Result<bool, Failure> {
        if self.is_behind() {
            return Ok(false);
        }
        let inner = self.stream.lock();
        let failed = inner
            .failures
            .iter()
            .find(|(at, _)| (self.since + 1..=self.position).contains(at));
        failed.map_or(Ok(true), |(_, failure)| Err(failure.clone()))
    }

    /// Sleeps until the work before the mark has ended, or `limit` passed.
    fn sleep(&self, limit: Duration) {
        self.stream.sleep(self.position, limit);
    }

    /// Whether work before the mark is left, after a polled stream was driven.
    pub(crate) fn is_behind(&self) -> bool {
        if self.stream.has_ended(self.position) {
            return false;
        }
        if self.stream.polled
            && let Ok(_driver) = self.stream.driver.try_lock()
        {
            self.stream.drive();
        }
        !self.stream.has_ended(self.position)
    }

    /// Blocks until the work before the mark has ended, or `deadline`; whether it has.
    pub(crate) fn wait(&self, deadline: Option<Instant>) -> Result<bool, Failure> {
        let expired = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
        if self.stream.polled {
            let mut waiter = Waiter::new(false);
            while !self.stream.has_ended(self.position) {
                let pending = match self.stream.driver.try_lock() {
                    Ok(_driver) => self.stream.drive(),
                    Err(_) => None,
                };
                match pending {
                    _ if self.stream.has_ended(self.position) => break,
                    Some((wait, mask, moved)) => pause(&mut waiter, wait, mask, moved, deadline),
                    None => self.stream.sleep(self.position, Duration::from_millis(1)),
                }
                if expired() {
                    break;
                }
            }
        } else {
            let mut patience = Patience::new(false);
            while !self.stream.has_ended(self.position) && !expired() {
                if patience.is_over() {
                    let rest = deadline.map_or(crate::ccl::SLICE, |at| {
                        at.saturating_duration_since(Instant::now())
                    });
                    self.stream.sleep(self.position, rest);
                }
            }
        }
        self.query()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    fn note(counter: &'static AtomicU32) -> Work {
        extern "C" fn count(argument: *mut std::ffi::c_void) {
            // SAFETY: the tests pass static counters.
            unsafe { &*argument.cast::<AtomicU32>() }.fetch_add(1, Ordering::SeqCst);
        }
        let argument = std::ptr::from_ref(counter).cast_mut().cast();
        Work::notify(infiniccl_plugin_api::Callback {
            argument,
            function: count,
        })
    }

    fn soon() -> Option<Instant> {
        Some(Instant::now() + Duration::from_secs(20))
    }

    #[test]
    fn a_held_stream_waits_and_goes_on_in_order() {
        static SEEN: AtomicU32 = AtomicU32::new(0);
        for polled in [false, true] {
            let start = SEEN.load(Ordering::SeqCst);
            let stream = Stream::new(polled);
            let gate = Arc::new(Gate::default());
            stream.push(note(&SEEN)).expect("pushed");
            let before = stream.mark();
            stream.push(Work::hold(Arc::clone(&gate))).expect("pushed");
            stream.push(note(&SEEN)).expect("pushed");
            let after = stream.mark();
            assert_eq!(before.wait(soon()), Ok(true));
            assert_eq!(
                after.wait(Some(Instant::now() + Duration::from_millis(20))),
                Ok(false)
            );
            assert_eq!(SEEN.load(Ordering::SeqCst), start + 1);
            assert_eq!(stream.close().expect_err("busy").status, Status::USAGE);
            gate.open();
            assert_eq!(after.wait(soon()), Ok(true));
            assert_eq!(SEEN.load(Ordering::SeqCst), start + 2);
            stream.close().expect("idle");
        }
    }

    #[test]
    fn a_stream_waits_for_an_event_of_another() {
        static SEEN: AtomicU32 = AtomicU32::new(0);
        for (first_polled, second_polled) in [(false, false), (false, true), (true, false), (true, true)] {
            let start = SEEN.load(Ordering::SeqCst);
            let (first, second) = (Stream::new(first_polled), Stream::new(second_polled));
            let gate = Arc::new(Gate::default());
            first.push(Work::hold(Arc::clone(&gate))).expect("pushed");
            second.push(Work::wait(first.mark())).expect("pushed");
            second.push(note(&SEEN)).expect("pushed");
            assert_eq!(second.mark().query(), Ok(false));
            gate.open();
            assert_eq!(second.mark().wait(soon()), Ok(true));
            assert_eq!(SEEN.load(Ordering::SeqCst), start + 1);
            first.close().expect("idle");
            second.close().expect("idle");
        }
    }
}
