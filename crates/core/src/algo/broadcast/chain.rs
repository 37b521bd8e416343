//! Broadcast along a chain of members: for long messages, many chunks of which are under way at once.

use crate::algo::{Buffers, Group, Span, Tuning};
use crate::schedule::Builder;

/// (p−1)α + (p−2)cβ + nβ for chunks of c bytes (`cost::broadcast_chain`). No scratch.
pub(crate) fn chain(
    b: &mut Builder,
    group: Group<'_>,
    tuning: Tuning,
    buffers: Buffers,
    bytes: u64,
    root: usize,
) {
    let (_, node) = group.from(root);
    for piece in Span::whole(bytes).pieces(tuning.chunk_for(bytes)) {
        let (src, dst) = (buffers.src.plus(piece.offset), buffers.dst.plus(piece.offset));
        if node != 0 {
            b.recv(group.prev(), dst, piece.bytes);
        }
        if node + 1 < group.len() {
            b.send(group.next(), if node == 0 { src } else { dst }, piece.bytes);
        }
        if node == 0 {
            b.copy(dst, src, piece.bytes);
        }
    }
}
