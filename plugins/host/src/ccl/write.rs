//! Writes into shared memory, around the caches when the rank that reads them is far away.
//!
//! A store to a line that another core has in its cache waits for that core. Within one cache complex this takes so
//! little that plain copies win; between complexes or sockets it makes them about ten times as slow as stores that go
//! to memory and drop the line everywhere. Virtual machines move between the two within seconds, so the writer times
//! its own copies now and then, and switches.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// Shortest copy that may go around the caches: below, a few lines are waited for at most.
const SHORTEST: usize = 512;
/// Plain copies of which one is timed.
const SAMPLE: u32 = 8;
/// What makes a plain copy slow, in ps per byte: near ones take up to 60, far ones 400, copies to memory 40.
const SLOW: u128 = 150;
/// Slow copies in a row that are no accident, such as an interrupt or a page's first use.
const STRIKES: u32 = 2;
/// Copies around the caches before a plain one is tried again: at first, and after many vain tries.
const FIRST_TERM: u32 = 64;
const LONGEST_TERM: u32 = 4096;

/// How a rank writes; shared by its threads, which may lose each other's counts.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    /// Copies around the caches that are left.
    left: AtomicU32,
    /// How many there were last time.
    term: AtomicU32,
    /// Plain copies since the last timed one.
    plain: AtomicU32,
    strikes: AtomicU32,
}

impl Writer {
    /// Copies `len` bytes to shared memory.
    ///
    /// # Safety
    /// `src` is valid for reads and `dst` for writes of `len` bytes, and they do not overlap.
    #[inline]
    pub(crate) unsafe fn copy(&self, dst: *mut u8, src: *const u8, len: usize) {
        if len < SHORTEST || !AROUND {
            // SAFETY: the caller's promise.
            return unsafe { std::ptr::copy_nonoverlapping(src, dst, len) };
        }
        // SAFETY: the caller's promise.
        unsafe { self.choose(dst, src, len) };
    }

    /// Whether the next long copy goes around the caches.
    pub(crate) fn is_around(&self) -> bool {
        self.left.load(Ordering::Relaxed) > 0
    }

    /// # Safety
    /// As for [`Writer::copy`].
    unsafe fn choose(&self, dst: *mut u8, src: *const u8, len: usize) {
        let left = self.left.load(Ordering::Relaxed);
        if left > 0 {
            self.left.store(left - 1, Ordering::Relaxed);
            // SAFETY: the caller's promise.
            return unsafe { copy_around(dst, src, len) };
        }
        let plain = self.plain.load(Ordering::Relaxed);
        if plain > 0 {
            self.plain.store(plain - 1, Ordering::Relaxed);
            // SAFETY: the caller's promise.
            return unsafe { std::ptr::copy_nonoverlapping(src, dst, len) };
        }
        let start = Instant::now();
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(src, dst, len) };
        self.judge(start.elapsed().as_nanos() * 1000 > SLOW * len as u128);
    }

    /// Draws the conclusion from a timed plain copy.
    fn judge(&self, slow: bool) {
        if !slow {
            self.strikes.store(0, Ordering::Relaxed);
            self.term.store(0, Ordering::Relaxed);
            self.plain.store(SAMPLE - 1, Ordering::Relaxed);
            return;
        }
        let term = self.term.load(Ordering::Relaxed);
        let strikes = self.strikes.load(Ordering::Relaxed) + 1;
        // After a term one slow copy is enough: it was known to be far.
        if term == 0 && strikes < STRIKES {
            self.strikes.store(strikes, Ordering::Relaxed);
            return;
        }
        let next = if term == 0 {
            FIRST_TERM
        } else {
            (term * 2).min(LONGEST_TERM)
        };
        self.term.store(next, Ordering::Relaxed);
        self.left.store(next, Ordering::Relaxed);
        self.strikes.store(0, Ordering::Relaxed);
    }
}

/// Whether this processor has stores that go around the caches.
const AROUND: bool = cfg!(target_arch = "x86_64");

/// Copies with stores that go to memory, and waits until they are visible.
///
/// # Safety
/// As for [`Writer::copy`].
#[cfg(target_arch = "x86_64")]
pub(crate) unsafe fn copy_around(dst: *mut u8, src: *const u8, len: usize) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
    const LINE: usize = super::layout::LINE;
    let head = dst.align_offset(LINE).min(len);
    let lines = (len - head) / LINE;
    // SAFETY: the caller's promise; `head` whole lines and the rest add up to `len`, and lines are aligned in `dst`.
    unsafe {
        std::ptr::copy_nonoverlapping(src, dst, head);
        let mut to = dst.add(head).cast::<__m128i>();
        let mut from = src.add(head).cast::<__m128i>();
        for _ in 0..lines {
            // A whole line at once, so that it is never read from memory first.
            let line = [0, 1, 2, 3].map(|part| _mm_loadu_si128(from.add(part)));
            for (part, value) in line.into_iter().enumerate() {
                _mm_stream_si128(to.add(part), value);
            }
            (to, from) = (to.add(4), from.add(4));
        }
        let tail = len - head - lines * LINE;
        std::ptr::copy_nonoverlapping(from.cast::<u8>(), to.cast::<u8>(), tail);
        // These stores are not ordered with the one that publishes them.
        _mm_sfence();
    }
}

/// Plain copies, where there is nothing else.
///
/// # Safety
/// As for [`Writer::copy`].
#[cfg(not(target_arch = "x86_64"))]
pub(crate) unsafe fn copy_around(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(src, dst, len) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_around_the_caches_are_exact_at_every_length_and_alignment() {
        let source: Vec<u8> = (0..1000_u32).map(|i| (i * 7 + i / 256) as u8).collect();
        for len in (0..200).chain([511, 512, 777]) {
            for (from, to) in [(0, 0), (1, 0), (0, 3), (5, 63), (64, 17)] {
                let mut target = vec![0xee; 1000];
                // SAFETY: both slices are long enough.
                unsafe { copy_around(target.as_mut_ptr().add(to), source.as_ptr().add(from), len) };
                assert!(target[to..to + len] == source[from..from + len]);
                assert!(
                    target[..to]
                        .iter()
                        .chain(&target[to + len..])
                        .all(|byte| *byte == 0xee)
                );
            }
        }
    }

    #[test]
    fn slow_copies_in_a_row_switch_for_a_growing_term_and_a_fast_one_switches_back() {
        let writer = Writer::default();
        writer.judge(true);
        assert!(!writer.is_around(), "once may be an accident");
        writer.judge(true);
        assert_eq!(writer.left.load(Ordering::Relaxed), FIRST_TERM);
        let (source, mut target) = (vec![1; SHORTEST], vec![0; SHORTEST]);
        for _ in 0..FIRST_TERM {
            assert!(writer.is_around());
            // SAFETY: both are as long as said.
            unsafe { writer.copy(target.as_mut_ptr(), source.as_ptr(), SHORTEST) };
        }
        assert!(!writer.is_around());
        writer.judge(true);
        assert_eq!(writer.left.load(Ordering::Relaxed), 2 * FIRST_TERM);
        writer.left.store(0, Ordering::Relaxed);
        writer.judge(false);
        assert!(!writer.is_around());
        writer.judge(true);
        assert!(!writer.is_around());
    }
}
