//! The bell of a rank: where its threads sleep, and what peers ring after they have published something.
//!
//! A sleeper first says which peers it waits for, looks once more, and sleeps on a futex of the shared segment. A
//! peer that published rings only if its bit is set, so that publishing costs no system call while all are awake.

use rustix::io::Errno;
use rustix::thread::futex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::time::Duration;

/// One line of shared memory, written by its owner when it sleeps and by whoever rings.
#[repr(C, align(64))]
pub(crate) struct Bell {
    /// Grows with each ring; what sleepers sleep on.
    rings: AtomicU32,
    /// Bit of each rank whose publications a sleeper waits for.
    awaited: AtomicU64,
}

/// The bit of a rank; ranks above 63 share, which costs at most a needless ring.
pub(crate) fn bit(rank: usize) -> u64 {
    1 << (rank % 64)
}

impl Bell {
    /// Announces a sleeper that waits for any of the ranks in `mask`. It must look once more before it sleeps.
    pub(crate) fn arm(&self, mask: u64) -> u32 {
        let seen = self.rings.load(Ordering::SeqCst);
        self.awaited.fetch_or(mask, Ordering::SeqCst);
        // Pairs with the sequentially consistent store of a publisher: one of the two sees the other.
        fence(Ordering::SeqCst);
        seen
    }

    /// Sleeps until the bell was rung after [`Bell::arm`] returned `seen`, or `limit` passed.
    pub(crate) fn sleep(&self, seen: u32, limit: Duration) {
        let limit = rustix::thread::Timespec {
            tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: limit.subsec_nanos().into(),
        };
        // Any return is a reason to look again: rung, a signal, the limit. Not private: peers are other processes.
        match futex::wait(&self.rings, futex::Flags::empty(), seen, Some(&limit)) {
            Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT) => {}
            // A kernel or a filter without futexes: no busy loop.
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }

    /// Wakes the sleepers that wait for the rank of `bit`; call after a sequentially consistent store.
    #[inline]
    pub(crate) fn ring(&self, bit: u64) {
        if self.awaited.load(Ordering::SeqCst) & bit != 0 {
            self.wake(bit);
        }
    }

    #[cold]
    fn wake(&self, bit: u64) {
        self.awaited.fetch_and(!bit, Ordering::SeqCst);
        self.rings.fetch_add(1, Ordering::SeqCst);
        // It fails only if nobody can be asleep there.
        let _ = futex::wake(&self.rings, futex::Flags::empty(), i32::MAX.unsigned_abs());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn bell() -> Bell {
        Bell {
            rings: AtomicU32::new(0),
            awaited: AtomicU64::new(0),
        }
    }

    #[test]
    fn a_ring_between_arming_and_sleeping_is_not_lost() {
        let bell = bell();
        let seen = bell.arm(bit(3));
        bell.ring(bit(3));
        let start = Instant::now();
        bell.sleep(seen, Duration::from_secs(20));
        assert!(start.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn sleepers_wake_for_the_rank_they_wait_for_and_only_for_it() {
        let bell = bell();
        let seen = bell.arm(bit(1) | bit(2));
        bell.ring(bit(0));
        assert_eq!(bell.rings.load(Ordering::Relaxed), seen);
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| bell.sleep(seen, Duration::from_secs(20)));
            bell.ring(bit(2));
            sleeper.join().expect("sleeper");
        });
        assert_eq!(bell.awaited.load(Ordering::Relaxed), bit(1));
    }
}
