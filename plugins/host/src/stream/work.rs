//! A piece of a stream's work, and what it waits for.

use super::Mark;
use crate::ccl::{Comm, Poll, SLICE, Ticket, Waiter};
use crate::reduce::{Reduction, Scaling};
use infiniccl_plugin_api::{Callback, CopyDesc, Failure};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A piece of work. Memory it works on is lent by the caller until it has ended.
#[derive(Debug)]
pub(crate) struct Work(Kind);

enum Kind {
    Copy(Vec<CopyDesc>),
    Reduce(Vec<Reduction>),
    Scale(Vec<Scaling>),
    Notify(Option<Callback>),
    Hold(Arc<Gate>),
    Wait(Mark),
    Collectives {
        comm: Arc<Comm>,
        tickets: Vec<Ticket>,
        ready: bool,
    },
}

// SAFETY: the raw pointers inside are buffers and arguments that the caller lends to whichever thread runs the work.
unsafe impl Send for Kind {}

impl std::fmt::Debug for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Kind::Copy(_) => "Copy",
            Kind::Reduce(_) => "Reduce",
            Kind::Scale(_) => "Scale",
            Kind::Notify(_) => "Notify",
            Kind::Hold(_) => "Hold",
            Kind::Wait(_) => "Wait",
            Kind::Collectives { .. } => "Collectives",
        })
    }
}

/// Keeps a stream from going on until it is opened.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    /// Lets the stream go on.
    pub(crate) fn open(&self) {
        *self.is_open.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.opened.notify_all();
    }

    fn is_open(&self) -> bool {
        *self.is_open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sleep(&self, limit: Duration) {
        let is_open = self.is_open.lock().unwrap_or_else(PoisonError::into_inner);
        if !*is_open {
            // Opened, timed out or neither: the caller looks again.
            drop(self.opened.wait_timeout(is_open, limit));
        }
    }
}

/// What pending work waits for.
#[derive(Debug)]
pub(crate) enum Wait {
    Ranks(Arc<Comm>),
    Mark(Mark),
    Gate(Arc<Gate>),
    Nothing,
}

impl Work {
    pub(crate) fn copy(copies: Vec<CopyDesc>) -> Work {
        Work(Kind::Copy(copies))
    }

    pub(crate) fn reduce(reductions: Vec<Reduction>) -> Work {
        Work(Kind::Reduce(reductions))
    }

    pub(crate) fn scale(scalings: Vec<Scaling>) -> Work {
        Work(Kind::Scale(scalings))
    }

    pub(crate) fn notify(callback: Callback) -> Work {
        Work(Kind::Notify(Some(callback)))
    }

    pub(crate) fn hold(gate: Arc<Gate>) -> Work {
        Work(Kind::Hold(gate))
    }

    pub(crate) fn wait(mark: Mark) -> Work {
        Work(Kind::Wait(mark))
    }

    /// Operations that were issued to the communicator's lanes.
    pub(crate) fn collectives(comm: Arc<Comm>, tickets: Vec<Ticket>) -> Work {
        Work(Kind::Collectives {
            comm,
            tickets,
            ready: false,
        })
    }

    /// Goes on as far as possible without waiting.
    pub(crate) fn step(&mut self) -> Result<Poll, Failure> {
        let pending = Poll::Pending {
            mask: 0,
            moved: false,
        };
        Ok(match &mut self.0 {
            Kind::Copy(copies) => {
                for copy in copies.drain(..) {
                    // SAFETY: whoever gave the work to the stream lent both ranges.
                    unsafe { crate::memory::run_copy(&copy) };
                }
                Poll::Done
            }
            Kind::Reduce(reductions) => {
                for reduction in reductions.drain(..) {
                    // SAFETY: as above.
                    unsafe { reduction.run() }?;
                }
                Poll::Done
            }
            Kind::Scale(scalings) => {
                for scaling in scalings.drain(..) {
                    // SAFETY: as above.
                    unsafe { scaling.run() }?;
                }
                Poll::Done
            }
            Kind::Notify(callback) => {
                if let Some(callback) = callback.take() {
                    (callback.function)(callback.argument);
                }
                Poll::Done
            }
            Kind::Hold(gate) if gate.is_open() => Poll::Done,
            Kind::Hold(_) => pending,
            Kind::Wait(mark) if mark.is_behind() => pending,
            Kind::Wait(_) => Poll::Done,
            Kind::Collectives { comm, tickets, ready } => {
                if !*ready {
                    comm.set_ready(tickets);
                    *ready = true;
                }
                comm.drive(tickets)?
            }
        })
    }

    /// What it waits for, after [`Work::step`] said that it does.
    pub(crate) fn waits_for(&self) -> Wait {
        match &self.0 {
            Kind::Hold(gate) => Wait::Gate(Arc::clone(gate)),
            Kind::Wait(mark) => Wait::Mark(mark.clone()),
            Kind::Collectives { comm, .. } => Wait::Ranks(Arc::clone(comm)),
            Kind::Copy(_) | Kind::Reduce(_) | Kind::Scale(_) | Kind::Notify(_) => Wait::Nothing,
        }
    }
}

/// Lets some time pass, until `deadline` at most.
pub(crate) fn pause(waiter: &mut Waiter, wait: Wait, mask: u64, moved: bool, deadline: Option<Instant>) {
    let rest = || {
        deadline
            .map_or(SLICE, |at| at.saturating_duration_since(Instant::now()))
            .min(SLICE)
    };
    match wait {
        Wait::Ranks(comm) => waiter.step(comm.segment(), mask, moved, deadline),
        Wait::Gate(gate) => gate.sleep(rest()),
        // A polled stream has nobody but this thread to drive it, so it is looked at often.
        Wait::Mark(mark) => mark.sleep(rest().min(Duration::from_millis(1))),
        Wait::Nothing => std::thread::yield_now(),
    }
}
