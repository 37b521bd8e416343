//! AllToAll by Bruck's algorithm: ⌈log2 p⌉ rounds on packed blocks; for short messages.

use crate::algo::staging::{recv_chunks, send_chunks};
use crate::algo::{Blocks, Buffers, Group, Tuning};
use crate::schedule::{Builder, Loc};

/// ⌈log2 p⌉(α + nβ/2) for n bytes per member (`cost::all_to_all_bruck`).
///
/// `blocks` says where the blocks for and from the members lie in input and output; all have the same length. A
/// block travels to the member at distance d in those rounds that are one bits of d. Pieces are packed, as much at
/// a time as fits into the slots; scratch is twice that.
pub(crate) fn bruck(b: &mut Builder, group: Group<'_>, tuning: Tuning, buffers: Buffers, blocks: &Blocks) {
    let Buffers { src, dst } = buffers;
    let p = group.len();
    let chunk = tuning.chunk_for(blocks.total());
    let size = blocks.packed_piece(tuning);
    let (travelling, half) = if p > 1 {
        (p as u64, p.div_ceil(2) as u64)
    } else {
        (0, 0)
    };
    let packed = b.alloc(size * travelling);
    let (outgoing, incoming) = (b.alloc(size * half), b.alloc(size * half));
    for round in 0..blocks.rounds(size) {
        let piece = |member: usize| blocks[member].piece(round, size);
        let bytes = piece(group.me).bytes;
        let at = |base: Loc, index: usize| base.plus(index as u64 * bytes);
        for distance in 1..p {
            let from = src.plus(piece(group.after(distance)).offset);
            b.copy(at(packed, distance), from, bytes);
        }
        let mut hop = 1;
        while hop < p {
            let moving = (1..p).filter(|distance| distance & hop != 0);
            let mut count = 0;
            for distance in moving.clone() {
                b.copy(at(outgoing, count), at(packed, distance), bytes);
                count += 1;
            }
            let total = count as u64 * bytes;
            send_chunks(b, group.ranks[group.after(hop)], outgoing, total, chunk);
            recv_chunks(b, group.ranks[group.before(hop)], incoming, total, chunk);
            for (index, distance) in moving.enumerate() {
                b.copy(at(packed, distance), at(incoming, index), bytes);
            }
            hop *= 2;
        }
        for distance in 1..p {
            let to = dst.plus(piece(group.before(distance)).offset);
            b.copy(to, at(packed, distance), bytes);
        }
        let own = piece(group.me).offset;
        b.copy(dst.plus(own), src.plus(own), bytes);
    }
}
