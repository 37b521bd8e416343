//! AllGather in one hop: each member sends its block to all others; for few members.

use crate::algo::staging::copy_chunks;
use crate::algo::{Blocks, Buffers, Group, Tuning};
use crate::schedule::Builder;

/// α + (p−1)·o + (p−1)/p·nβ (`cost::all_gather_direct`). No scratch.
pub(crate) fn direct(b: &mut Builder, group: Group<'_>, tuning: Tuning, buffers: Buffers, blocks: &Blocks) {
    let Buffers { src, dst } = buffers;
    let mine = blocks[group.me];
    let chunk = tuning.chunk_for(blocks.total());
    for round in 0..blocks.rounds(chunk) {
        let out = mine.piece(round, chunk);
        for step in 1..group.len() {
            let (to, from) = (group.after(step), group.before(step));
            b.send(group.ranks[to], src.plus(out.offset - mine.offset), out.bytes);
            let piece = blocks[from].piece(round, chunk);
            b.recv(group.ranks[from], dst.plus(piece.offset), piece.bytes);
        }
    }
    copy_chunks(b, dst.plus(mine.offset), src, mine.bytes, chunk);
}
