//! ReduceScatter by recursive halving: log2 p rounds on packed blocks; for short messages.

use crate::algo::fold::{Fold, Role};
use crate::algo::staging::{Packed, recv_chunks, send_chunks};
use crate::algo::{Blocks, Buffers, Group, Outcome, Reduction, Span, Tuning};
use crate::schedule::{Builder, Loc};

/// log2(q)·α + (q−1)/q·n·(β + γ) for the power of two q ≤ p, and 2α + nβ + nγ + n/p·β more where q < p
/// (`cost::reduce_scatter_recursive_halving`).
///
/// Blocks lie in the order of ranks, parts in the order of members: pieces are packed into scratch memory first, as
/// much at a time as fits into the slots.
pub(crate) fn recursive_halving(
    b: &mut Builder,
    group: Group<'_>,
    tuning: Tuning,
    buffers: Buffers,
    reduction: Reduction,
    blocks: &Blocks,
) {
    let Buffers { src, dst } = buffers;
    let p = group.len();
    let chunk = tuning.chunk_for(blocks.total());
    let mine = blocks[group.me];
    if p == 1 {
        let src = src.plus(mine.offset);
        return reduction.alone(b, Buffers { src, dst }, mine.bytes, chunk);
    }
    let fold = Fold::of(p);
    let size = blocks.packed_piece(tuning);
    let packed = b.alloc(size * p as u64);
    let incoming = b.alloc(size * p as u64);
    for round in 0..blocks.rounds(size) {
        let pieces = Packed::new(blocks, 0..p, round, size);
        let all = pieces.range(0, p);
        pieces.pack(b, packed, src, 0, p);
        let out = dst.plus(mine.piece(round, size).offset - mine.offset);
        let (index, extra) = match fold.role(group.me) {
            Role::Folded { by } => {
                send_chunks(b, group.ranks[by], packed, all.bytes, chunk);
                recv_chunks(
                    b,
                    group.ranks[by],
                    out,
                    pieces.range(group.me, group.me + 1).bytes,
                    chunk,
                );
                continue;
            }
            Role::Kept { index, extra } => (index, extra),
        };
        if let Some(extra) = extra {
            recv_chunks(b, group.ranks[extra], incoming, all.bytes, chunk);
            let operands = [reduction.input(packed), reduction.input(incoming)];
            reduction.combine(b, packed, &operands, all.bytes, Outcome::Partial);
        }
        halve(
            b,
            group,
            (fold, index),
            (packed, incoming),
            reduction,
            &pieces,
            chunk,
        );
        let done = |member: usize| pieces.range(member, member + 1);
        b.copy(out, packed.plus(done(group.me).offset), done(group.me).bytes);
        if let Some(extra) = extra {
            let at = packed.plus(done(extra).offset);
            send_chunks(b, group.ranks[extra], at, done(extra).bytes, chunk);
        }
    }
}

/// Exchanges halves of what is left, the farther member first, until the blocks of `index` are left.
fn halve(
    b: &mut Builder,
    group: Group<'_>,
    (fold, index): (Fold, usize),
    (packed, incoming): (Loc, Loc),
    reduction: Reduction,
    pieces: &Packed,
    chunk: u64,
) {
    // Where the pieces of the members that `first..last` stand for lie.
    let part = |first: usize, last: usize| -> Span {
        let end = if last == fold.size {
            group.len()
        } else {
            fold.member(last)
        };
        pieces.range(fold.member(first), end)
    };
    let (mut first, mut last) = (0, fold.size);
    let mut distance = fold.size / 2;
    while distance > 0 {
        let middle = first + distance;
        let other = index ^ distance;
        let (lower, upper) = (part(first, middle), part(middle, last));
        let (keep, give) = if index < middle {
            last = middle;
            (lower, upper)
        } else {
            first = middle;
            (upper, lower)
        };
        let peer = group.ranks[fold.member(other)];
        send_chunks(b, peer, packed.plus(give.offset), give.bytes, chunk);
        recv_chunks(b, peer, incoming.plus(keep.offset), keep.bytes, chunk);
        let operand = |at: Loc, whose: usize| {
            if 2 * distance == fold.size && !fold.stands_for_two(whose) {
                reduction.input(at)
            } else {
                reduction.partial(at)
            }
        };
        let at = packed.plus(keep.offset);
        let operands = [operand(at, index), operand(incoming.plus(keep.offset), other)];
        let outcome = Outcome::complete_if(distance == 1);
        reduction.combine(b, at, &operands, keep.bytes, outcome);
        distance /= 2;
    }
}
