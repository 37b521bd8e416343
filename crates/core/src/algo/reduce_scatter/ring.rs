//! ReduceScatter around a ring: for long messages.

use crate::algo::staging::Slots;
use crate::algo::{Blocks, Buffers, Group, Outcome, Reduction, Span, Tuning};
use crate::schedule::{Builder, Loc};

/// (p−1)α + (p−1)/p·n·max(β, γ) (`cost::reduce_scatter_ring`).
pub(crate) fn ring(
    b: &mut Builder,
    group: Group<'_>,
    tuning: Tuning,
    buffers: Buffers,
    reduction: Reduction,
    blocks: &Blocks,
) {
    let mine = blocks[group.me];
    if group.len() == 1 {
        let src = buffers.src.plus(mine.offset);
        let chunk = tuning.chunk_for(blocks.total());
        return reduction.alone(b, Buffers { src, ..buffers }, mine.bytes, chunk);
    }
    let mut ring = Ring::new(b, group, tuning, reduction, blocks);
    for round in 0..ring.rounds() {
        ring.round(b, buffers.src, round, |piece, _| {
            buffers.dst.plus(piece.offset - mine.offset)
        });
    }
}

/// A reduce-scatter in rounds of a few chunks of each block.
///
/// A chunk that came in is combined with the own input where it lies, and sent on from there in the next step. Two
/// banks of slots alternate between the steps: with one, a receive would wait for a send of the same step, and a
/// whole ring of those for itself.
pub(in crate::algo) struct Ring<'a> {
    group: Group<'a>,
    reduction: Reduction,
    blocks: &'a Blocks,
    chunk: u64,
    width: usize,
    slots: Slots,
    bank: usize,
}

impl<'a> Ring<'a> {
    /// For two members or more.
    pub(in crate::algo) fn new(
        b: &mut Builder,
        group: Group<'a>,
        tuning: Tuning,
        reduction: Reduction,
        blocks: &'a Blocks,
    ) -> Self {
        let chunk = tuning.chunk_for(blocks.total());
        let width = tuning.slots();
        Ring {
            group,
            reduction,
            blocks,
            chunk,
            width,
            slots: Slots::new(b, 2 * width, chunk.min(blocks.longest())),
            bank: 0,
        }
    }

    pub(in crate::algo) fn rounds(&self) -> u64 {
        self.blocks.rounds(self.chunk).div_ceil(self.width as u64)
    }

    /// Where the pieces of a round lie in the block of `member`.
    pub(in crate::algo) fn pieces(&self, member: usize, round: u64) -> impl Iterator<Item = Span> + use<> {
        let (block, chunk, width) = (self.blocks[member], self.chunk, self.width as u64);
        (round * width..(round + 1) * width).map(move |i| block.piece(i, chunk))
    }

    /// Adds the steps of `round`. `target` says where a piece of the own block goes, given the piece and the slot
    /// that it may stay in until the round after the next.
    pub(in crate::algo) fn round(
        &mut self,
        b: &mut Builder,
        src: Loc,
        round: u64,
        mut target: impl FnMut(Span, Loc) -> Loc,
    ) {
        let (group, reduction, p) = (self.group, self.reduction, self.group.len());
        for step in 0..p - 1 {
            let given = self.pieces(group.before(step + 1), round);
            let taken = self.pieces(group.before(step + 2), round);
            let (held, free) = (self.bank * self.width, (1 - self.bank) * self.width);
            for (i, (out, piece)) in given.zip(taken).enumerate() {
                let from = if step == 0 {
                    src.plus(out.offset)
                } else {
                    self.slots.at(held + i)
                };
                b.send(group.next(), from, out.bytes);
                let slot = self.slots.at(free + i);
                b.recv(group.prev(), slot, piece.bytes);
                let theirs = if step == 0 {
                    reduction.input(slot)
                } else {
                    reduction.partial(slot)
                };
                let operands = [theirs, reduction.input(src.plus(piece.offset))];
                if step + 2 < p {
                    reduction.combine(b, slot, &operands, piece.bytes, Outcome::Partial);
                } else {
                    let dst = target(piece, slot);
                    reduction.combine(b, dst, &operands, piece.bytes, Outcome::Complete);
                }
            }
            self.bank = 1 - self.bank;
        }
    }
}
