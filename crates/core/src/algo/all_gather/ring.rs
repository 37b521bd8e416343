//! AllGather around a ring: for long messages.

use crate::algo::staging::copy_chunks;
use crate::algo::{Blocks, Buffers, Group, Tuning};
use crate::schedule::Builder;

/// (p−1)α + (p−1)/p·nβ (`cost::all_gather_ring`). No scratch.
pub(crate) fn ring(b: &mut Builder, group: Group<'_>, tuning: Tuning, buffers: Buffers, blocks: &Blocks) {
    let Buffers { src, dst } = buffers;
    let mine = blocks[group.me];
    let chunk = tuning.chunk_for(blocks.total());
    for step in 0..group.len() - 1 {
        let (given, taken) = (blocks[group.before(step)], blocks[group.before(step + 1)]);
        for i in 0..given.bytes.max(taken.bytes).div_ceil(chunk) {
            let (out, piece) = (given.piece(i, chunk), taken.piece(i, chunk));
            let from = if step == 0 {
                src.plus(out.offset - mine.offset)
            } else {
                dst.plus(out.offset)
            };
            b.send(group.next(), from, out.bytes);
            b.recv(group.prev(), dst.plus(piece.offset), piece.bytes);
        }
    }
    copy_chunks(b, dst.plus(mine.offset), src, mine.bytes, chunk);
}
