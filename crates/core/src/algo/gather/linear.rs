//! Gather in one hop: each member sends its block to the root.

use crate::algo::staging::{copy_chunks, send_chunks};
use crate::algo::{Blocks, Buffers, Group, Tuning};
use crate::schedule::Builder;

/// α + (p−1)·o + (p−1)/p·nβ for n bytes at the root (`cost::gather_linear`). No scratch.
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
        return send_chunks(b, group.ranks[root], src, mine.bytes, chunk);
    }
    for round in 0..blocks.rounds(chunk) {
        for member in (1..group.len()).map(|step| group.after(step)) {
            let piece = blocks[member].piece(round, chunk);
            b.recv(group.ranks[member], dst.plus(piece.offset), piece.bytes);
        }
    }
    copy_chunks(b, dst.plus(mine.offset), src, mine.bytes, chunk);
}
