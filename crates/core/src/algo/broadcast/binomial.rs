//! Broadcast down a binomial tree: for short messages.

use crate::algo::{Buffers, Group, Span, Tuning, tree};
use crate::schedule::Builder;

/// ⌈log2 p⌉(α + nβ) (`cost::broadcast_binomial`). No scratch.
pub(crate) fn binomial(
    b: &mut Builder,
    group: Group<'_>,
    tuning: Tuning,
    buffers: Buffers,
    bytes: u64,
    root: usize,
) {
    let (member, node) = group.from(root);
    for piece in Span::whole(bytes).pieces(tuning.chunk_for(bytes)) {
        let (src, dst) = (buffers.src.plus(piece.offset), buffers.dst.plus(piece.offset));
        if node != 0 {
            b.recv(group.ranks[member(tree::parent(node))], dst, piece.bytes);
        }
        for child in tree::children(node, group.len()) {
            let from = if node == 0 { src } else { dst };
            b.send(group.ranks[member(child)], from, piece.bytes);
        }
        if node == 0 {
            b.copy(dst, src, piece.bytes);
        }
    }
}
