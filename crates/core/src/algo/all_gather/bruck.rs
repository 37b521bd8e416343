//! AllGather by Bruck's algorithm: ⌈log2 p⌉ rounds on packed blocks; for short messages.

use crate::algo::staging::{Packed, recv_chunks, send_chunks};
use crate::algo::{Blocks, Buffers, Group, Tuning};
use crate::schedule::Builder;

/// ⌈log2 p⌉α + (p−1)/p·nβ, and copies of n bytes (`cost::all_gather_bruck`).
///
/// Blocks are packed in the order of the ring from this member on, as much at a time as fits into the slots.
pub(crate) fn bruck(b: &mut Builder, group: Group<'_>, tuning: Tuning, buffers: Buffers, blocks: &Blocks) {
    let Buffers { src, dst } = buffers;
    let p = group.len();
    let mine = blocks[group.me];
    let chunk = tuning.chunk_for(blocks.total());
    let size = blocks.packed_piece(tuning);
    let packed = b.alloc(if p > 1 { size * p as u64 } else { 0 });
    for round in 0..blocks.rounds(size) {
        let own = mine.piece(round, size);
        let from = src.plus(own.offset - mine.offset);
        if p > 1 {
            let pieces = Packed::new(blocks, (0..p).map(|i| group.after(i)), round, size);
            b.copy(packed, from, own.bytes);
            let mut have = 1;
            while have < p {
                let more = have.min(p - have);
                let (out, into) = (pieces.range(0, more), pieces.range(have, have + more));
                let to = group.ranks[group.before(have)];
                send_chunks(b, to, packed.plus(out.offset), out.bytes, chunk);
                let source = group.ranks[group.after(have)];
                recv_chunks(b, source, packed.plus(into.offset), into.bytes, chunk);
                have += more;
            }
            pieces.unpack(b, dst, packed, 1, p);
        }
        b.copy(dst.plus(own.offset), from, own.bytes);
    }
}
