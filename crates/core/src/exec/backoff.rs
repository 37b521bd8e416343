//! How long a waiting thread spins and yields before it sleeps.

use std::time::{Duration, Instant};

/// The limits of the two stages before sleep.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitPolicy {
    /// Spinning: good while every rank has a core of its own.
    pub(crate) spin: Duration,
    /// Yielding to other threads, counted from the end of the spinning.
    pub(crate) yield_for: Duration,
}

/// What to do next.
pub(super) enum Pause {
    /// Poll again at once.
    Poll,
    /// Sleep until something happens.
    Sleep,
}

/// A wait under way; reset whenever something moved.
pub(super) struct Backoff {
    policy: WaitPolicy,
    polls: u32,
    since: Option<Instant>,
}

/// Polls between two looks at the clock while spinning.
const POLLS_PER_CLOCK: u32 = 16;

impl Backoff {
    pub(super) fn new(policy: WaitPolicy) -> Self {
        Backoff {
            policy,
            polls: 0,
            since: None,
        }
    }

    pub(super) fn reset(&mut self) {
        (self.polls, self.since) = (0, None);
    }

    /// One fruitless poll: spins, yields, or says that it is time to sleep.
    pub(super) fn pause(&mut self) -> Pause {
        self.polls += 1;
        if !self.polls.is_multiple_of(POLLS_PER_CLOCK) && self.since.is_none() {
            std::hint::spin_loop();
            return Pause::Poll;
        }
        let waited = self.since.get_or_insert_with(Instant::now).elapsed();
        if waited < self.policy.spin {
            std::hint::spin_loop();
            Pause::Poll
        } else if waited < self.policy.spin + self.policy.yield_for {
            rustix::thread::sched_yield();
            Pause::Poll
        } else {
            Pause::Sleep
        }
    }
}
