//! Reduce up a binomial tree: for short messages.

use crate::algo::staging::Slots;
use crate::algo::{Buffers, Group, Outcome, Reduction, Span, Tuning, tree};
use crate::schedule::Builder;

/// ⌈log2 p⌉(α + nβ + nγ) (`cost::reduce_binomial`).
///
/// A member combines what all its children sent in one step, so there is one rounding for each level. Scratch:
/// 2(⌈log2 p⌉ + 1) chunks.
pub(crate) fn binomial(
    b: &mut Builder,
    group: Group<'_>,
    tuning: Tuning,
    buffers: Buffers,
    reduction: Reduction,
    count: u64,
    root: usize,
) {
    let p = group.len();
    let bytes = count * reduction.elem();
    let chunk = tuning.chunk_for(bytes);
    if p == 1 {
        return reduction.alone(b, buffers, bytes, chunk);
    }
    let (member, node) = group.from(root);
    let children: Vec<usize> = tree::children(node, p).rev().collect();
    let slot_bytes = if children.is_empty() { 0 } else { chunk.min(bytes) };
    let mut incoming = Slots::new(b, 2 * children.len().max(1), slot_bytes);
    let mut outgoing = Slots::new(b, 2, if node == 0 { 0 } else { slot_bytes });
    for piece in Span::whole(bytes).pieces(chunk) {
        let src = buffers.src.plus(piece.offset);
        let mut operands = vec![reduction.input(src)];
        for child in &children {
            let slot = incoming.take();
            b.recv(group.ranks[member(*child)], slot, piece.bytes);
            operands.push(if tree::size(*child, p) == 1 {
                reduction.input(slot)
            } else {
                reduction.partial(slot)
            });
        }
        if node == 0 {
            let dst = buffers.dst.plus(piece.offset);
            reduction.combine(b, dst, &operands, piece.bytes, Outcome::Complete);
            continue;
        }
        let mut out = src;
        if !children.is_empty() {
            out = outgoing.take();
            reduction.combine(b, out, &operands, piece.bytes, Outcome::Partial);
        }
        b.send(group.ranks[member(tree::parent(node))], out, piece.bytes);
    }
}
