//! How a call is cut into chunks, and which part of the slots its chunks go through.

use super::call::{Call, Route};
use super::layout::{DEPTH, LINE, Layout};
use super::segment::INLINE;
use std::ops::Range;

/// Largest reduction in which more than two ranks reduce everything by themselves: a step fewer, but more to read.
const ONE_SHOT: usize = 16 << 10;

/// How a call is cut up; a function of what all ranks know, so that it is equal on all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Contributions travel in the lines of the arrivals.
    pub(crate) inline: bool,
    /// Each rank reduces its share of each chunk before results are taken out.
    pub(crate) shares: bool,
    /// Bytes of a block that one chunk carries.
    pub(crate) unit: usize,
    /// Bytes of a slot that one chunk takes: a unit, or one for each rank.
    pub(crate) stride: usize,
    /// Chunks that a slot holds at once.
    pub(crate) depth: usize,
    /// Chunks; for private lengths only the first, in which the ranks tell each other the lengths.
    pub(crate) chunks: u64,
}

impl Cut {
    /// Cuts a call.
    pub(crate) fn new(call: &Call, layout: &Layout) -> Cut {
        let longest = call.longest();
        let parts = if matches!(call.route, Route::Spread { .. }) {
            layout.ranks
        } else {
            1
        };
        if !call.is_private() && longest.saturating_mul(parts) <= INLINE {
            let (unit, stride) = (longest, longest * parts);
            return Cut {
                inline: true,
                shares: false,
                unit,
                stride,
                depth: 1,
                chunks: 0,
            };
        }
        let most = layout.slot / DEPTH / parts / LINE * LINE;
        let unit = if call.is_private() {
            most
        } else {
            longest.next_multiple_of(LINE).min(most)
        };
        let stride = unit * parts;
        // Between two ranks shares save no reading, only reducing, which costs less than another step.
        let folds = matches!(call.route, Route::Fold { .. }) && layout.ranks > 2;
        Cut {
            inline: false,
            shares: folds && longest > ONE_SHOT.min(most),
            unit,
            stride,
            depth: layout.slot / stride,
            chunks: if call.is_private() {
                1
            } else {
                chunks(longest, unit)
            },
        }
    }
}

/// Chunks of `unit` bytes that `longest` bytes take.
pub(crate) fn chunks(longest: usize, unit: usize) -> u64 {
    longest.div_ceil(unit) as u64
}

/// Where in the slots the next call's chunks go: on from where the last one's ended, round and round.
///
/// Writing to lines that a peer still has in its cache costs a round between the caches for each. Going through the
/// whole slot gives these lines time to leave it, which makes calls of tens of KiB up to twice as fast.
#[derive(Debug, Default)]
pub(crate) struct Rotation {
    /// Offset after the last chunk.
    next: usize,
    /// What the last call used and some rank may still read.
    used: Range<usize>,
}

impl Rotation {
    /// The buffer of a call's first chunk, and whether it may be written before all ranks have arrived.
    pub(crate) fn start(&self, cut: &Cut) -> (usize, bool) {
        let buffer = self.next.div_ceil(cut.stride.max(1)) % cut.depth;
        let (start, end) = (buffer * cut.stride, (buffer + 1) * cut.stride);
        (buffer, end <= self.used.start || start >= self.used.end)
    }

    /// Notes that a call has used `chunks` buffers from `buffer` on.
    pub(crate) fn advance(&mut self, cut: &Cut, buffer: usize, chunks: u64) {
        let used = usize::try_from(chunks).map_or(cut.depth, |chunks| chunks.min(cut.depth));
        let end = buffer + used;
        self.next = end % cut.depth * cut.stride;
        self.used = if used == 0 {
            0..0
        } else if end <= cut.depth {
            buffer * cut.stride..end * cut.stride
        } else {
            0..cut.depth * cut.stride
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(unit: usize, slot: usize, chunks: u64) -> Cut {
        Cut {
            inline: false,
            shares: false,
            unit,
            stride: unit,
            depth: slot / unit,
            chunks,
        }
    }

    #[test]
    fn single_chunks_go_round_and_are_always_early() {
        let (mut rotation, cut) = (Rotation::default(), cut(64, 640, 1));
        for call in 0..25 {
            assert_eq!(rotation.start(&cut), (call % 10, true));
            rotation.advance(&cut, call % 10, 1);
        }
    }

    #[test]
    fn buffers_of_the_last_call_are_not_written_early() {
        let mut rotation = Rotation::default();
        let (small, large) = (cut(64, 1024, 1), cut(256, 1024, 9));
        rotation.advance(&small, 15, 1);
        assert_eq!(rotation.start(&large), (0, true), "the other end of the slot");
        rotation.advance(&large, 0, 9);
        assert!(!rotation.start(&small).1, "all of the slot was used");
        rotation.advance(&small, 4, 2);
        // Bytes 256..384 are used; the next large buffer that begins after them is at 512.
        assert_eq!(rotation.start(&large), (2, true));
        let huge = cut(512, 1024, 1);
        rotation.advance(&small, 8, 1);
        assert_eq!(rotation.start(&huge), (0, true));
        rotation.advance(&small, 3, 1);
        assert_eq!(rotation.start(&huge), (1, true));
    }
}
