//! Reduce as a reduce-scatter around a ring whose blocks go straight to the root: for long messages.

use crate::algo::reduce_scatter::Ring;
use crate::algo::{Blocks, Buffers, Group, Reduction, Tuning};
use crate::schedule::Builder;

/// pα + (p−1)/p·n·(max(β, γ) + β) (`cost::reduce_scatter_gather`).
pub(crate) fn scatter_gather(
    b: &mut Builder,
    group: Group<'_>,
    tuning: Tuning,
    buffers: Buffers,
    reduction: Reduction,
    count: u64,
    root: usize,
) {
    let Buffers { src, dst } = buffers;
    let p = group.len();
    if p == 1 {
        let bytes = count * reduction.elem();
        return reduction.alone(b, buffers, bytes, tuning.chunk_for(bytes));
    }
    let blocks = Blocks::even(reduction.elem(), count, p);
    let mut ring = Ring::new(b, group, tuning, reduction, &blocks);
    for round in 0..ring.rounds() {
        let mut done = Vec::new();
        ring.round(b, src, round, |piece, slot| {
            if group.me == root {
                return dst.plus(piece.offset);
            }
            done.push((slot, piece.bytes));
            slot
        });
        for (slot, bytes) in done {
            b.send(group.ranks[root], slot, bytes);
        }
        if group.me == root {
            for step in 1..p {
                let member = group.before(step);
                for piece in ring.pieces(member, round) {
                    b.recv(group.ranks[member], dst.plus(piece.offset), piece.bytes);
                }
            }
        }
    }
}
