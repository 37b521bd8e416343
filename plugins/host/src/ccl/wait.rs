//! How threads wait: they spin for microseconds, then yield, then sleep.

use super::segment::Segment;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// What a step of an operation came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Poll {
    /// Finished.
    Done,
    /// Waiting for the ranks whose bits are set.
    Pending {
        /// As [`super::bell::bit`] gives them.
        mask: u64,
        /// Whether this step did something.
        moved: bool,
    },
}

/// How long a thread spins while every rank can have a processor.
const SPIN: Duration = Duration::from_micros(5);
/// Looks while threads outnumber processors: another one needs this one's.
const CROWDED_LOOKS: u32 = 8;
/// How long it yields after that; a sleeping thread takes tens of microseconds to wake.
const YIELD: Duration = Duration::from_micros(50);
/// Longest sleep: a rank that died without a word is noticed by others, who set the flags that are looked at then.
pub(crate) const SLICE: Duration = Duration::from_millis(100);
/// Looks between two glances at the clock.
const GLANCE: u32 = 16;

/// A yield that took this long gave the processor to a thread that is none of ours.
const COSTLY: Duration = Duration::from_micros(200);
/// Waits that sleep at once after a costly yield, before yielding is tried again: at first, and at most.
const FIRST_TERM: u32 = 64;
const LONGEST_TERM: u32 = 1024;

/// Waits of this process that are left to sleep at once. On a busy machine a yield may cost a slice of milliseconds
/// and the thread's fair share, where a sleeper is woken within microseconds.
static HASTY: AtomicU32 = AtomicU32::new(0);
/// How many there will be after the next costly yield: it doubles with each and shrinks with every cheap one.
static TERM: AtomicU32 = AtomicU32::new(FIRST_TERM);

/// How much longer a thread stays awake.
#[derive(Debug)]
pub(crate) struct Patience {
    crowded: bool,
    looks: u32,
    since: Option<Instant>,
    /// When it yielded last.
    yielded: Option<Instant>,
    hasty: bool,
}

impl Patience {
    /// Fresh patience; `crowded` when other threads need the processor.
    pub(crate) fn new(crowded: bool) -> Patience {
        Patience {
            crowded,
            looks: 0,
            since: None,
            yielded: None,
            hasty: false,
        }
    }

    /// Lets a moment pass after a look that found nothing; true when it is time to sleep.
    #[inline]
    pub(crate) fn is_over(&mut self) -> bool {
        self.looks += 1;
        let short = if self.crowded {
            self.looks <= CROWDED_LOOKS
        } else {
            !self.looks.is_multiple_of(GLANCE)
        };
        if short {
            std::hint::spin_loop();
            return false;
        }
        self.glance()
    }

    fn glance(&mut self) -> bool {
        let now = Instant::now();
        let waited = now - *self.since.get_or_insert(now);
        let spin = if self.crowded { Duration::ZERO } else { SPIN };
        if waited < spin {
            return false;
        }
        // From here on every look is worth a glance.
        self.looks = if self.crowded { CROWDED_LOOKS } else { GLANCE - 1 };
        match self.yielded {
            None => self.hasty = is_hasty(),
            Some(before) => judge_yield(now - before > COSTLY),
        }
        if self.hasty || waited >= spin + YIELD {
            return true;
        }
        self.yielded = Some(now);
        rustix::thread::sched_yield();
        false
    }
}

fn judge_yield(costly: bool) {
    // Threads may lose each other's counts; nothing depends on them but speed.
    let term = TERM.load(Ordering::Relaxed);
    if costly {
        HASTY.store(term, Ordering::Relaxed);
        TERM.store((term * 2).min(LONGEST_TERM), Ordering::Relaxed);
    } else if term > FIRST_TERM {
        TERM.store(term - 1, Ordering::Relaxed);
    }
}

fn is_hasty() -> bool {
    let left = HASTY.load(Ordering::Relaxed);
    HASTY.store(left.saturating_sub(1), Ordering::Relaxed);
    left > 0
}

/// A thread that waits for other ranks.
#[derive(Debug)]
pub(crate) struct Waiter {
    patience: Patience,
    armed: Option<(u64, u32)>,
}

impl Waiter {
    /// Fresh patience; `crowded` when ranks outnumber processors.
    pub(crate) fn new(crowded: bool) -> Waiter {
        Waiter {
            patience: Patience::new(crowded),
            armed: None,
        }
    }

    /// Lets some time pass after a look that found an operation of the segment pending; the caller looks again
    /// afterwards, in any case before it sleeps. Returns by `deadline`. `moved`: the look did something, or was at
    /// something else than the one before.
    #[inline]
    pub(crate) fn step(&mut self, segment: &Segment, mask: u64, moved: bool, deadline: Option<Instant>) {
        if moved {
            *self = Waiter::new(segment.crowded());
        }
        if self.patience.is_over() {
            self.sleep(segment, mask, deadline);
        }
    }

    fn sleep(&mut self, segment: &Segment, mask: u64, deadline: Option<Instant>) {
        let bell = &segment.board(segment.me()).bell;
        match self.armed.take() {
            Some((armed, seen)) if armed & mask == mask => {
                let rest = deadline.map_or(SLICE, |deadline| {
                    deadline.saturating_duration_since(Instant::now())
                });
                bell.sleep(seen, rest.min(SLICE));
            }
            _ => self.armed = Some((mask, bell.arm(mask))),
        }
    }
}
