//! AllReduce by recursive doubling: whole inputs, exchanged in log2 p rounds; for short messages.

use crate::algo::fold::{Fold, Role};
use crate::algo::staging::Slots;
use crate::algo::{Buffers, Group, Outcome, Reduction, Span, Tuning};
use crate::schedule::Builder;

/// ⌊log2 p⌋(α + nβ + nγ), and 2α + 2nβ + nγ more where p is no power of two (`cost::allreduce_recursive_doubling`).
///
/// Both ends of an exchange combine the same two values in the same order, so all members get the same bytes.
pub(crate) fn recursive_doubling(
    b: &mut Builder,
    group: Group<'_>,
    tuning: Tuning,
    buffers: Buffers,
    reduction: Reduction,
    count: u64,
) {
    let bytes = count * reduction.elem();
    let chunk = tuning.chunk_for(bytes);
    if group.len() == 1 {
        return reduction.alone(b, buffers, bytes, chunk);
    }
    let fold = Fold::of(group.len());
    let mut slots = Slots::new(b, tuning.slots(), chunk.min(bytes));
    for piece in Span::whole(bytes).pieces(chunk) {
        let (src, dst) = (buffers.src.plus(piece.offset), buffers.dst.plus(piece.offset));
        match fold.role(group.me) {
            Role::Folded { by } => {
                b.send(group.ranks[by], src, piece.bytes);
                b.recv(group.ranks[by], dst, piece.bytes);
            }
            Role::Kept { index, extra } => {
                let mut mine = reduction.input(src);
                if let Some(extra) = extra {
                    let theirs = slots.take();
                    b.recv(group.ranks[extra], theirs, piece.bytes);
                    let operands = [mine, reduction.input(theirs)];
                    reduction.combine(b, dst, &operands, piece.bytes, Outcome::Partial);
                    mine = reduction.partial(dst);
                }
                for round in 0..fold.size.ilog2() {
                    let other = index ^ (1 << round);
                    let (peer, slot) = (group.ranks[fold.member(other)], slots.take());
                    b.send(peer, mine.at, piece.bytes);
                    b.recv(peer, slot, piece.bytes);
                    let theirs = if round == 0 && !fold.stands_for_two(other) {
                        reduction.input(slot)
                    } else {
                        reduction.partial(slot)
                    };
                    let operands = if index < other {
                        [mine, theirs]
                    } else {
                        [theirs, mine]
                    };
                    let outcome = Outcome::complete_if(2 << round == fold.size);
                    reduction.combine(b, dst, &operands, piece.bytes, outcome);
                    mine = reduction.partial(dst);
                }
                if let Some(extra) = extra {
                    b.send(group.ranks[extra], dst, piece.bytes);
                }
            }
        }
    }
}
