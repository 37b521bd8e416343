//! Where everything lies in a communicator's shared segment: pure arithmetic, equal on every rank.

/// Bytes of a cache line; what different ranks write never shares one.
pub(crate) const LINE: usize = 64;
/// Most ranks of a communicator: the pairs' rings grow with the square.
pub(crate) const MAX_RANKS: usize = 128;
/// Buffers that a slot has for the largest chunks: one may be filled while the three before it are being read.
pub(crate) const DEPTH: usize = 4;
/// Header cells of a pair's ring: messages that may be under way before the sender waits.
pub(crate) const CELLS: usize = 8;

const PAGE: usize = 4096;
/// Bytes of the control lines of one rank.
const BOARD: usize = 8 * LINE;
/// Bytes of the control lines of one ordered pair: the sender's, the receiver's, and the cells.
const PAIR: usize = (2 + CELLS) * LINE;
/// Slots of all ranks together, unless the configuration says otherwise.
const ALL_SLOTS: usize = 8 << 20;
/// Rings of all pairs together.
const ALL_RINGS: usize = 4 << 20;
const LARGEST_SLOT: usize = 1 << 20;
const LARGEST_RING: usize = 64 << 10;
const SMALLEST_RING: usize = 1 << 10;

/// The sizes that rank 0 chose; the others read them from the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Ranks of the communicator.
    pub(crate) ranks: usize,
    /// Bytes of one rank's slot, a multiple of the page.
    pub(crate) slot: usize,
    /// Data bytes of one pair's ring, a power of two.
    pub(crate) ring: usize,
}

impl Layout {
    /// The layout for `ranks` ranks; `slot` is the wish of the configuration for the bytes of one rank's slot.
    pub(crate) fn new(ranks: usize, slot: Option<usize>) -> Layout {
        let slot = slot.unwrap_or((ALL_SLOTS / ranks).min(LARGEST_SLOT));
        let ring = (ALL_RINGS / (ranks * ranks)).clamp(SMALLEST_RING, LARGEST_RING);
        Layout {
            ranks,
            slot: (slot / PAGE * PAGE).max(Layout::smallest_slot(ranks)),
            ring: 1 << ring.ilog2(),
        }
    }

    /// Half of it, for a file system that has no more room; `None` when it cannot become smaller.
    pub(crate) fn halved(self) -> Option<Layout> {
        let slot = (self.slot / 2 / PAGE * PAGE).max(Layout::smallest_slot(self.ranks));
        let ring = (self.ring / 2).max(SMALLEST_RING);
        let half = Layout { slot, ring, ..self };
        (half != self).then_some(half)
    }

    /// Whether numbers read from a header could have come from [`Layout::new`].
    pub(crate) fn is_sound(&self) -> bool {
        (1..=MAX_RANKS).contains(&self.ranks)
            && self.slot >= Layout::smallest_slot(self.ranks)
            && self.slot.is_multiple_of(PAGE)
            && self.slot <= 1 << 30
            && self.ring.is_power_of_two()
            && (SMALLEST_RING..=LARGEST_RING).contains(&self.ring)
    }

    /// A chunk needs a line for each rank: collectives that send different bytes to each rank share it out.
    fn smallest_slot(ranks: usize) -> usize {
        (ranks * LINE).next_multiple_of(PAGE) * DEPTH
    }

    /// Offset of a rank's control lines.
    pub(crate) fn board(&self, rank: usize) -> usize {
        PAGE + rank * BOARD
    }

    /// Offset of the control lines of messages from one rank to another.
    pub(crate) fn pair(&self, from: usize, to: usize) -> usize {
        self.board(self.ranks) + (from * self.ranks + to) * PAIR
    }

    /// Offset of a rank's slot.
    pub(crate) fn slot(&self, rank: usize) -> usize {
        self.pair(self.ranks, 0).next_multiple_of(PAGE) + rank * self.slot
    }

    /// Offset of the data of messages from one rank to another.
    pub(crate) fn ring(&self, from: usize, to: usize) -> usize {
        self.slot(self.ranks) + (from * self.ranks + to) * self.ring
    }

    /// Bytes of the segment.
    pub(crate) fn total(&self) -> usize {
        self.ring(self.ranks, 0).next_multiple_of(PAGE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_stay_within_the_budget() {
        for ranks in 1..=MAX_RANKS {
            let layout = Layout::new(ranks, None);
            assert!(layout.is_sound(), "{layout:?}");
            let limit = if ranks <= 8 { 16 << 20 } else { 48 << 20 };
            assert!(layout.total() <= limit, "{ranks} ranks take {}", layout.total());
        }
        assert_eq!(Layout::new(8, None).slot, 1 << 20);
    }

    #[test]
    fn parts_do_not_overlap_and_lines_are_aligned() {
        for ranks in [1, 2, 3, 7, 64, 128] {
            let layout = Layout::new(ranks, Some(1));
            let mut parts = vec![(0, PAGE)];
            for a in 0..ranks {
                parts.push((layout.board(a), BOARD));
                parts.push((layout.slot(a), layout.slot));
                for b in 0..ranks {
                    parts.push((layout.pair(a, b), PAIR));
                    parts.push((layout.ring(a, b), layout.ring));
                }
            }
            parts.sort_unstable();
            for pair in parts.windows(2) {
                assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{ranks} ranks: {pair:?}");
                assert_eq!(pair[1].0 % LINE, 0);
            }
            let last = parts[parts.len() - 1];
            assert!(last.0 + last.1 <= layout.total());
        }
    }

    #[test]
    fn halving_ends_at_the_smallest_sound_layout() {
        for ranks in [1, 8, 128] {
            let (mut layout, mut steps) = (Layout::new(ranks, None), 0);
            while let Some(half) = layout.halved() {
                assert!(half.is_sound() && half.total() < layout.total());
                (layout, steps) = (half, steps + 1);
            }
            assert!((1..20).contains(&steps));
            assert!(layout.total() < Layout::new(ranks, None).total());
        }
    }
}
