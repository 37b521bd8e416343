//! AllReduce around a ring: reduce-scatter, then allgather; for long messages.

use crate::algo::staging::Slots;
use crate::algo::{Blocks, Buffers, Group, Outcome, Reduction, Tuning};
use crate::schedule::Builder;

/// 2(p−1)α + (p−1)/p·n·(max(β, γ) + β) (`cost::allreduce_ring`). With two members it is the exchange of halves.
///
/// The message goes around in rounds of a few chunks of each block, so that a chunk is sent on while it is in
/// cache. Within a round the chunks of a step follow each other through receive, reduce and send.
pub(crate) fn ring(
    b: &mut Builder,
    group: Group<'_>,
    tuning: Tuning,
    buffers: Buffers,
    reduction: Reduction,
    count: u64,
) {
    let Buffers { src, dst } = buffers;
    let p = group.len();
    let bytes = count * reduction.elem();
    let chunk = tuning.chunk_for(bytes);
    if p == 1 {
        return reduction.alone(b, buffers, bytes, chunk);
    }
    let blocks = Blocks::even(reduction.elem(), count, p);
    let mut slots = Slots::new(b, tuning.slots(), chunk.min(blocks.longest()));
    let width = u64::from(tuning.slots.max(1));
    for round in 0..blocks.rounds(chunk).div_ceil(width) {
        let pieces = round * width..(round + 1) * width;
        for step in 0..p - 1 {
            let (given, taken) = (blocks[group.before(step)], blocks[group.before(step + 1)]);
            for i in pieces.clone() {
                let (out, piece) = (given.piece(i, chunk), taken.piece(i, chunk));
                let from = if step == 0 { src } else { dst };
                b.send(group.next(), from.plus(out.offset), out.bytes);
                let slot = slots.take();
                b.recv(group.prev(), slot, piece.bytes);
                let theirs = if step == 0 {
                    reduction.input(slot)
                } else {
                    reduction.partial(slot)
                };
                let operands = [theirs, reduction.input(src.plus(piece.offset))];
                let outcome = Outcome::complete_if(step + 2 == p);
                reduction.combine(b, dst.plus(piece.offset), &operands, piece.bytes, outcome);
            }
        }
        for step in 0..p - 1 {
            let (given, taken) = (blocks[group.after(p + 1 - step)], blocks[group.before(step)]);
            for i in pieces.clone() {
                let (out, piece) = (given.piece(i, chunk), taken.piece(i, chunk));
                b.send(group.next(), dst.plus(out.offset), out.bytes);
                b.recv(group.prev(), dst.plus(piece.offset), piece.bytes);
            }
        }
    }
}
