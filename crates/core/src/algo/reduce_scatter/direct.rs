//! ReduceScatter in one hop: each member gets its block of every input and combines all at once.

use crate::algo::staging::Slots;
use crate::algo::{Blocks, Buffers, Group, Outcome, Reduction, Tuning};
use crate::schedule::{Builder, Loc};

/// α + (p−1)·o + (p−1)/p·n·(β + γ) (`cost::reduce_scatter_direct`), with one rounding per element; for few members.
/// Scratch: 2(p−1) chunks.
pub(crate) fn direct(
    b: &mut Builder,
    group: Group<'_>,
    tuning: Tuning,
    buffers: Buffers,
    reduction: Reduction,
    blocks: &Blocks,
) {
    let chunk = tuning.chunk_for(blocks.total());
    let mine = blocks[group.me];
    if group.len() == 1 {
        let src = buffers.src.plus(mine.offset);
        return reduction.alone(b, Buffers { src, ..buffers }, mine.bytes, chunk);
    }
    let mut collector = Collector::new(b, group, reduction, blocks, chunk);
    for round in 0..blocks.rounds(chunk) {
        let offset = mine.piece(round, chunk).offset - mine.offset;
        collector.round(b, buffers.src, buffers.dst.plus(offset), round);
    }
}

/// Exchanges pieces of blocks with all other members at once, and combines what came.
pub(in crate::algo) struct Collector<'a> {
    group: Group<'a>,
    reduction: Reduction,
    blocks: &'a Blocks,
    chunk: u64,
    slots: Slots,
}

impl<'a> Collector<'a> {
    pub(in crate::algo) fn new(
        b: &mut Builder,
        group: Group<'a>,
        reduction: Reduction,
        blocks: &'a Blocks,
        chunk: u64,
    ) -> Self {
        // Two rounds at a time: one is received while the other is combined.
        let slots = Slots::new(b, 2 * (group.len() - 1), chunk.min(blocks[group.me].bytes));
        Collector {
            group,
            reduction,
            blocks,
            chunk,
            slots,
        }
    }

    /// Adds the steps for piece `round` of all blocks of `src`; the combined piece of the own block goes to `dst`.
    pub(in crate::algo) fn round(&mut self, b: &mut Builder, src: Loc, dst: Loc, round: u64) {
        let (group, reduction) = (self.group, self.reduction);
        let mine = self.blocks[group.me].piece(round, self.chunk);
        let mut operands = vec![reduction.input(src.plus(mine.offset)); group.len()];
        for step in 1..group.len() {
            let (to, from) = (group.after(step), group.before(step));
            let out = self.blocks[to].piece(round, self.chunk);
            b.send(group.ranks[to], src.plus(out.offset), out.bytes);
            operands[from] = reduction.input(self.slots.take());
            b.recv(group.ranks[from], operands[from].at, mine.bytes);
        }
        reduction.combine(b, dst, &operands, mine.bytes, Outcome::Complete);
    }
}
