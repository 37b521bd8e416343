//! Where the blocks of a buffer lie, and how they are cut into pieces.

use super::{CHUNK_ALIGN, Tuning};
use std::ops::Index;

/// Bytes `offset..offset + bytes` of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

impl Span {
    pub(crate) const fn new(offset: u64, bytes: u64) -> Self {
        Span { offset, bytes }
    }

    /// All of a buffer of `bytes` bytes.
    pub(super) const fn whole(bytes: u64) -> Self {
        Span { offset: 0, bytes }
    }

    /// Piece `index` of those with `chunk` bytes each; the last one is shorter, and those beyond are empty.
    pub(super) fn piece(self, index: u64, chunk: u64) -> Span {
        let start = index.saturating_mul(chunk).min(self.bytes);
        Span {
            offset: self.offset + start,
            bytes: chunk.min(self.bytes - start),
        }
    }

    /// The pieces that are not empty.
    pub(super) fn pieces(self, chunk: u64) -> impl Iterator<Item = Span> {
        (0..self.bytes.div_ceil(chunk)).map(move |i| self.piece(i, chunk))
    }
}

/// One block for each member of a group, in the order of the group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Blocks(Vec<Span>);

impl Blocks {
    /// `count` elements of `elem` bytes cut into `parts` consecutive blocks, whose lengths differ by one element at
    /// most.
    pub(crate) fn even(elem: u64, count: u64, parts: usize) -> Self {
        let parts = parts as u64;
        let (base, longer) = (count / parts, count % parts);
        let start = |i: u64| (i * base + i.min(longer)) * elem;
        Blocks(
            (0..parts)
                .map(|i| Span::new(start(i), start(i + 1) - start(i)))
                .collect(),
        )
    }

    /// Blocks of `bytes` bytes, that of rank r being block r of the buffer.
    pub(crate) fn by_rank(ranks: &[u32], bytes: u64) -> Self {
        Blocks(
            ranks
                .iter()
                .map(|r| Span::new(u64::from(*r) * bytes, bytes))
                .collect(),
        )
    }

    /// Blocks that lie where `place` says, given a rank.
    pub(crate) fn placed(ranks: &[u32], place: impl Fn(u32) -> Span) -> Self {
        Blocks(ranks.iter().map(|r| place(*r)).collect())
    }

    /// Bytes of the longest block.
    pub(super) fn longest(&self) -> u64 {
        self.0.iter().map(|s| s.bytes).max().unwrap_or(0)
    }

    /// Bytes of all blocks.
    pub(super) fn total(&self) -> u64 {
        self.0.iter().map(|s| s.bytes).sum()
    }

    /// How many pieces of `chunk` bytes the longest block has.
    pub(super) fn rounds(&self, chunk: u64) -> u64 {
        self.longest().div_ceil(chunk)
    }

    /// Bytes of the pieces to cut blocks into where one piece of each is packed into scratch memory: as many as
    /// fit into the slots.
    pub(super) fn packed_piece(&self, tuning: Tuning) -> u64 {
        let budget = tuning
            .chunk_for(self.total())
            .saturating_mul(u64::from(tuning.slots.max(1)));
        let piece = (budget / self.0.len() as u64 / CHUNK_ALIGN).max(1) * CHUNK_ALIGN;
        piece.min(self.longest()).max(1)
    }

    /// The bytes from the start of block `first` to the end of block `last - 1`, of blocks that follow each other.
    pub(super) fn range(&self, first: usize, last: usize) -> Span {
        let start = self.0[first].offset;
        Span::new(start, self.0[last - 1].offset + self.0[last - 1].bytes - start)
    }
}

impl Index<usize> for Blocks {
    type Output = Span;

    fn index(&self, member: usize) -> &Span {
        &self.0[member]
    }
}
