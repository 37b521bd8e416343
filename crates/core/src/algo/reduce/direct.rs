//! Reduce in one hop: the root gets every input and combines all at once; for few members.

use crate::algo::staging::{Slots, send_chunks};
use crate::algo::{Buffers, Group, Outcome, Reduction, Span, Tuning};
use crate::schedule::Builder;

/// α + (p−1)(o + nβ + nγ) (`cost::reduce_direct`), with one rounding per element. Scratch of the root: 2(p−1) chunks.
pub(crate) fn direct(
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
    if group.me != root {
        return send_chunks(b, group.ranks[root], buffers.src, bytes, chunk);
    }
    let mut slots = Slots::new(b, 2 * (p - 1), chunk.min(bytes));
    for piece in Span::whole(bytes).pieces(chunk) {
        let mut operands = vec![reduction.input(buffers.src.plus(piece.offset)); p];
        for member in (0..p).filter(|m| *m != root) {
            operands[member] = reduction.input(slots.take());
            b.recv(group.ranks[member], operands[member].at, piece.bytes);
        }
        let dst = buffers.dst.plus(piece.offset);
        reduction.combine(b, dst, &operands, piece.bytes, Outcome::Complete);
    }
}
