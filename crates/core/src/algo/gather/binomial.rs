//! Gather up a binomial tree: ⌈log2 p⌉ rounds on packed blocks; for short messages.

use crate::algo::staging::{Packed, recv_chunks, send_chunks};
use crate::algo::{Blocks, Buffers, Group, Tuning, tree};
use crate::schedule::Builder;

/// ⌈log2 p⌉α + (p−1)/p·nβ for n bytes at the root (`cost::gather_binomial`).
///
/// The blocks of a subtree travel in one message, in the order of the ring from the root on; as much at a time as
/// fits into the slots.
pub(crate) fn binomial(
    b: &mut Builder,
    group: Group<'_>,
    tuning: Tuning,
    buffers: Buffers,
    blocks: &Blocks,
    root: usize,
) {
    let Buffers { src, dst } = buffers;
    let p = group.len();
    let (member, node) = group.from(root);
    let chunk = tuning.chunk_for(blocks.total());
    let (piece, subtree) = (blocks.packed_piece(tuning), tree::size(node, p));
    let packed = b.alloc(if subtree > 1 { piece * subtree as u64 } else { 0 });
    for round in 0..blocks.rounds(piece) {
        let order = (node..node + subtree).map(&member);
        let pieces = Packed::new(blocks, order, round, piece);
        let own = blocks[group.me].piece(round, piece);
        let from = src.plus(own.offset - blocks[group.me].offset);
        if node != 0 && subtree > 1 {
            b.copy(packed, from, own.bytes);
        }
        // The smallest subtree is complete first.
        for child in tree::children(node, p).rev() {
            let (first, last) = (child - node, child - node + tree::size(child, p));
            let part = pieces.range(first, last);
            recv_chunks(
                b,
                group.ranks[member(child)],
                packed.plus(part.offset),
                part.bytes,
                chunk,
            );
            if node == 0 {
                pieces.unpack(b, dst, packed, first, last);
            }
        }
        if node == 0 {
            b.copy(dst.plus(own.offset), from, own.bytes);
        } else {
            let out = if subtree > 1 { packed } else { from };
            let parent = group.ranks[member(tree::parent(node))];
            send_chunks(b, parent, out, pieces.range(0, subtree).bytes, chunk);
        }
    }
}
