//! AllReduce in two hops: each member combines one block of all inputs at once and sends it to all.

use crate::algo::reduce_scatter::Collector;
use crate::algo::{Blocks, Buffers, Group, Reduction, Tuning};
use crate::schedule::Builder;

/// 2α + 2(p−1)·o + 2(p−1)/p·nβ + (p−1)/p·nγ (`cost::allreduce_direct`), with one rounding per element; for few
/// members. Scratch: 2(p−1) chunks.
pub(crate) fn direct(
    b: &mut Builder,
    group: Group<'_>,
    tuning: Tuning,
    buffers: Buffers,
    reduction: Reduction,
    count: u64,
) {
    let Buffers { src, dst } = buffers;
    let p = group.len();
    let bytes = count * reduction.elem();
    let chunk = tuning.chunk_for(bytes);
    if p == 1 {
        return reduction.alone(b, buffers, bytes, chunk);
    }
    let blocks = Blocks::even(reduction.elem(), count, p);
    let mut collector = Collector::new(b, group, reduction, &blocks, chunk);
    let rounds = blocks.rounds(chunk);
    // Inputs of the next round are under way while results of this one are sent.
    for round in 0..=rounds {
        if round < rounds {
            let mine = blocks[group.me].piece(round, chunk);
            collector.round(b, src, dst.plus(mine.offset), round);
        }
        if round > 0 {
            let mine = blocks[group.me].piece(round - 1, chunk);
            for step in 1..p {
                let (to, from) = (group.after(step), group.before(step));
                b.send(group.ranks[to], dst.plus(mine.offset), mine.bytes);
                let theirs = blocks[from].piece(round - 1, chunk);
                b.recv(group.ranks[from], dst.plus(theirs.offset), theirs.bytes);
            }
        }
    }
}
