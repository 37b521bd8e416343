//! Scatter in one hop: the root sends each member its block.

use crate::algo::staging::{copy_chunks, recv_chunks};
use crate::algo::{Blocks, Buffers, Group, Tuning};
use crate::schedule::Builder;

/// α + (p−1)·o + (p−1)/p·nβ for n bytes at the root (`cost::scatter_linear`). No scratch.
pub(crate) fn linear(
    b: &mut Builder,
    group: Group<'_>,
    tuning: Tuning,
    buffers: Buffers,
    blocks: &Blocks,
    root: usize,
) {
    let Buffers { src, dst } = buffers;
    let mine = blocks[group.me];
    let chunk = tuning.chunk_for(blocks.total());
    if group.me != root {
        return recv_chunks(b, group.ranks[root], dst, mine.bytes, chunk);
    }
    for round in 0..blocks.rounds(chunk) {
        for member in (1..group.len()).map(|step| group.after(step)) {
            let piece = blocks[member].piece(round, chunk);
            b.send(group.ranks[member], src.plus(piece.offset), piece.bytes);
        }
    }
    copy_chunks(b, dst, src.plus(mine.offset), mine.bytes, chunk);
}
