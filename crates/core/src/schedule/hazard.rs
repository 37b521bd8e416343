//! Finds which earlier steps a step must wait for, from the bytes that it reads and writes.
//!
//! A step that reads bytes waits for the last writer of each of them; one that writes waits for the last writer
//! and for all readers since. With that, any order that respects the waits gives what program order gives.

use std::collections::BTreeMap;

/// Who touched a range of bytes last.
#[derive(Debug, Clone, Default)]
struct Touch {
    end: u64,
    writer: Option<u32>,
    readers: Vec<u32>,
}

/// The history of one address space.
#[derive(Debug, Default)]
pub(super) struct History {
    /// Disjoint ranges by their start.
    ranges: BTreeMap<u64, Touch>,
}

impl History {
    /// Notes that `step` reads `start..end`, and adds the steps it must wait for to `waits`.
    pub(super) fn read(&mut self, step: u32, start: u64, end: u64, waits: &mut Vec<u32>) {
        self.for_each(start, end, |touch| {
            waits.extend(touch.writer);
            if touch.readers.last() != Some(&step) {
                touch.readers.push(step);
            }
        });
    }

    /// Notes that `step` writes `start..end`, and adds the steps it must wait for to `waits`.
    pub(super) fn write(&mut self, step: u32, start: u64, end: u64, waits: &mut Vec<u32>) {
        if start == end {
            return;
        }
        self.for_each(start, end, |touch| {
            waits.extend(touch.writer);
            waits.append(&mut touch.readers);
        });
        let covered: Vec<u64> = self.ranges.range(start..end).map(|(s, _)| *s).collect();
        for s in covered {
            self.ranges.remove(&s);
        }
        self.ranges.insert(
            start,
            Touch {
                end,
                writer: Some(step),
                readers: Vec::new(),
            },
        );
    }

    /// Splits the known ranges at `start` and `end`, fills the gaps, and visits all ranges between.
    fn for_each(&mut self, start: u64, end: u64, mut visit: impl FnMut(&mut Touch)) {
        if start == end {
            return;
        }
        self.split(start);
        self.split(end);
        let mut at = start;
        let mut gaps = Vec::new();
        for (s, touch) in self.ranges.range(start..end) {
            if at < *s {
                gaps.push((at, *s));
            }
            at = touch.end;
        }
        if at < end {
            gaps.push((at, end));
        }
        for (s, e) in gaps {
            self.ranges.insert(
                s,
                Touch {
                    end: e,
                    ..Touch::default()
                },
            );
        }
        self.ranges
            .range_mut(start..end)
            .for_each(|(_, touch)| visit(touch));
    }

    fn split(&mut self, at: u64) {
        let Some((_, touch)) = self.ranges.range_mut(..at).next_back() else {
            return;
        };
        if touch.end > at {
            let tail = touch.clone();
            touch.end = at;
            self.ranges.insert(at, tail);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(f: impl FnOnce(&mut Vec<u32>)) -> Vec<u32> {
        let mut w = Vec::new();
        f(&mut w);
        w.sort_unstable();
        w.dedup();
        w
    }

    #[test]
    fn readers_wait_for_writers_and_writers_for_both() {
        let mut h = History::default();
        assert!(waits(|w| h.write(0, 0, 100, w)).is_empty());
        assert_eq!(waits(|w| h.read(1, 50, 150, w)), [0]);
        assert_eq!(waits(|w| h.read(2, 90, 95, w)), [0]);
        assert_eq!(waits(|w| h.write(3, 92, 93, w)), [0, 1, 2]);
        assert_eq!(waits(|w| h.read(4, 0, 200, w)), [0, 3]);
        assert_eq!(waits(|w| h.write(5, 149, 151, w)), [1, 4]);
        assert_eq!(waits(|w| h.write(6, 0, 40, w)), [0, 4]);
    }

    #[test]
    fn empty_ranges_touch_nothing() {
        let mut h = History::default();
        assert!(waits(|w| h.write(0, 7, 7, w)).is_empty());
        assert!(waits(|w| h.read(1, 0, 20, w)).is_empty());
    }

    #[test]
    fn brute_force_agrees() {
        // bytewise model: last writer and readers of each byte
        let mut h = History::default();
        let mut model: Vec<(Option<u32>, Vec<u32>)> = vec![(None, Vec::new()); 64];
        let mut x = 12345u64;
        for step in 0..400u32 {
            x = x
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let (a, b) = ((x >> 33) % 64, (x >> 43) % 65);
            let (start, end) = (a.min(b), a.max(b));
            let mut expected: Vec<u32> = Vec::new();
            let write = (x >> 60) & 1 == 0;
            for byte in &mut model[start as usize..end as usize] {
                expected.extend(byte.0);
                if write {
                    expected.extend(&byte.1);
                    *byte = (Some(step), Vec::new());
                } else {
                    byte.1.push(step);
                }
            }
            expected.sort_unstable();
            expected.dedup();
            let got = waits(|w| {
                if write {
                    h.write(step, start, end, w)
                } else {
                    h.read(step, start, end, w)
                }
            });
            assert_eq!(got, expected, "step {step} {start}..{end} write={write}");
        }
    }
}
