//! AllReduce by recursive halving and doubling (Rabenseifner): for messages of middle length.

use crate::algo::fold::{Fold, Role};
use crate::algo::staging::{Slots, recv_chunks, send_chunks};
use crate::algo::{Blocks, Buffers, Group, Outcome, Reduction, Span, Tuning};
use crate::schedule::{Builder, Loc};

/// 2·log2(q)·α + 2(q−1)/q·nβ + (q−1)/q·nγ for the power of two q ≤ p, and 2α + 2nβ + nγ more where q < p
/// (`cost::allreduce_rabenseifner`).
///
/// Neighbours exchange first, while the parts are largest. A part is halved in every round, so each member ends
/// with one block, whose number is the bit-reversed index of the member, and parts are contiguous all the time.
pub(crate) fn rabenseifner(
    b: &mut Builder,
    group: Group<'_>,
    tuning: Tuning,
    buffers: Buffers,
    reduction: Reduction,
    count: u64,
) {
    let Buffers { src, dst } = buffers;
    let bytes = count * reduction.elem();
    let chunk = tuning.chunk_for(bytes);
    if group.len() == 1 {
        return reduction.alone(b, buffers, bytes, chunk);
    }
    let fold = Fold::of(group.len());
    let (index, extra) = match fold.role(group.me) {
        Role::Folded { by } => {
            send_chunks(b, group.ranks[by], src, bytes, chunk);
            return recv_chunks(b, group.ranks[by], dst, bytes, chunk);
        }
        Role::Kept { index, extra } => (index, extra),
    };
    let mut slots = Slots::new(b, tuning.slots(), chunk.min(bytes));
    if let Some(extra) = extra {
        for piece in Span::whole(bytes).pieces(chunk) {
            let theirs = slots.take();
            b.recv(group.ranks[extra], theirs, piece.bytes);
            let operands = [reduction.input(src.plus(piece.offset)), reduction.input(theirs)];
            reduction.combine(
                b,
                dst.plus(piece.offset),
                &operands,
                piece.bytes,
                Outcome::Partial,
            );
        }
    }
    let blocks = Blocks::even(reduction.elem(), count, fold.size);
    let rounds = fold.size.ilog2();
    let (mut first, mut last) = (0, fold.size);
    // The parts that were kept and given away in each round.
    let mut parts: Vec<(Span, Span)> = Vec::new();
    for round in 0..rounds {
        let middle = (first + last) / 2;
        let (lower, upper) = (blocks.range(first, middle), blocks.range(middle, last));
        let (keep, give) = if index & (1 << round) == 0 {
            last = middle;
            (lower, upper)
        } else {
            first = middle;
            (upper, lower)
        };
        parts.push((keep, give));
        let other = index ^ (1 << round);
        let peer = group.ranks[fold.member(other)];
        let fresh = round == 0 && extra.is_none();
        let mine = |at: Span| {
            if fresh {
                reduction.input(src.plus(at.offset))
            } else {
                reduction.partial(dst.plus(at.offset))
            }
        };
        let theirs = |slot: Loc| {
            if round == 0 && !fold.stands_for_two(other) {
                reduction.input(slot)
            } else {
                reduction.partial(slot)
            }
        };
        for i in 0..keep.bytes.max(give.bytes).div_ceil(chunk) {
            let (out, piece) = (give.piece(i, chunk), keep.piece(i, chunk));
            b.send(peer, mine(out).at, out.bytes);
            let slot = slots.take();
            b.recv(peer, slot, piece.bytes);
            let operands = [mine(piece), theirs(slot)];
            let outcome = Outcome::complete_if(round + 1 == rounds);
            reduction.combine(b, dst.plus(piece.offset), &operands, piece.bytes, outcome);
        }
    }
    for round in (0..rounds).rev() {
        let (kept, given) = parts[round as usize];
        let peer = group.ranks[fold.member(index ^ (1 << round))];
        for i in 0..kept.bytes.max(given.bytes).div_ceil(chunk) {
            let (out, piece) = (kept.piece(i, chunk), given.piece(i, chunk));
            b.send(peer, dst.plus(out.offset), out.bytes);
            b.recv(peer, dst.plus(piece.offset), piece.bytes);
        }
    }
    if let Some(extra) = extra {
        send_chunks(b, group.ranks[extra], dst, bytes, chunk);
    }
}
