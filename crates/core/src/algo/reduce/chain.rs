//! Reduce along a chain that ends at the root: for long messages, many chunks of which are under way at once.

use crate::algo::staging::Slots;
use crate::algo::{Buffers, Group, Outcome, Reduction, Span, Tuning};
use crate::schedule::Builder;

/// (p−1)α + ((p−2)c + n)·max(β, γ) for chunks of c bytes (`cost::reduce_chain`).
pub(crate) fn chain(
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
    let (_, node) = group.from(root);
    let first = node + 1 == p;
    let mut slots = Slots::new(b, tuning.slots(), if first { 0 } else { chunk.min(bytes) });
    for piece in Span::whole(bytes).pieces(chunk) {
        let src = buffers.src.plus(piece.offset);
        let mut out = src;
        if !first {
            let slot = slots.take();
            b.recv(group.next(), slot, piece.bytes);
            let theirs = if node + 2 == p {
                reduction.input(slot)
            } else {
                reduction.partial(slot)
            };
            let operands = [theirs, reduction.input(src)];
            if node == 0 {
                let dst = buffers.dst.plus(piece.offset);
                reduction.combine(b, dst, &operands, piece.bytes, Outcome::Complete);
                continue;
            }
            reduction.combine(b, slot, &operands, piece.bytes, Outcome::Partial);
            out = slot;
        }
        b.send(group.prev(), out, piece.bytes);
    }
}
