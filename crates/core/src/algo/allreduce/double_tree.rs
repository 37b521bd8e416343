//! AllReduce over two binary trees, each for half of the message: for long messages on many members.

use crate::algo::staging::Slots;
use crate::algo::tree::{Node, Side};
use crate::algo::{Blocks, Buffers, Group, Outcome, Reduction, Span, Tuning};
use crate::schedule::Builder;

/// 2L(α + 2cβ) + 2nβ for chunks of c bytes, L = ⌈log2 p⌉ (`cost::allreduce_double_tree`; Sanders, Speck and Träff).
///
/// Who has children in one tree is a leaf of the other, so that all members send and receive the same. Chunks go up
/// to the root, where they are complete, and down again while others are on their way up. Scratch: two chunks for
/// each slot.
pub(crate) fn double_tree(
    b: &mut Builder,
    group: Group<'_>,
    tuning: Tuning,
    buffers: Buffers,
    reduction: Reduction,
    count: u64,
) {
    let p = group.len();
    let bytes = count * reduction.elem();
    let chunk = tuning.chunk_for(bytes);
    if p == 1 {
        return reduction.alone(b, buffers, bytes, chunk);
    }
    let halves = Blocks::even(reduction.elem(), count, 2);
    let mut sides = [Side::Left, Side::Right].map(|side| {
        let node = Node::find(group.me, p, side);
        let children = node.children.iter().flatten().count();
        let slot_bytes = if children > 0 {
            chunk.min(halves.longest())
        } else {
            0
        };
        (node, Slots::new(b, children.max(1) * tuning.slots(), slot_bytes))
    });
    let rounds = halves.rounds(chunk);
    // A pair may be neighbours in both trees. What goes up must not queue behind what comes down, which is on its
    // way for so many chunks longer as the trees are high, twice.
    let lag = 2 * u64::from(p.next_power_of_two().ilog2());
    for round in 0..rounds + lag {
        for (half, (node, slots)) in sides.iter_mut().enumerate() {
            let piece = halves[half].piece(round, chunk);
            up(b, group, node, slots, buffers, reduction, piece);
        }
        for (half, (node, _)) in sides.iter().enumerate() {
            if round >= lag {
                let piece = halves[half].piece(round - lag, chunk);
                down(b, group, node, buffers, piece);
            }
        }
    }
}

fn up(
    b: &mut Builder,
    group: Group<'_>,
    node: &Node,
    slots: &mut Slots,
    buffers: Buffers,
    reduction: Reduction,
    piece: Span,
) {
    let (src, dst) = (buffers.src.plus(piece.offset), buffers.dst.plus(piece.offset));
    let mut operands = vec![reduction.input(src)];
    for child in node.children.iter().flatten() {
        let slot = slots.take();
        b.recv(group.ranks[child.member], slot, piece.bytes);
        operands.push(if child.is_leaf {
            reduction.input(slot)
        } else {
            reduction.partial(slot)
        });
    }
    if operands.len() > 1 {
        let outcome = Outcome::complete_if(node.parent.is_none());
        reduction.combine(b, dst, &operands, piece.bytes, outcome);
    }
    if let Some(parent) = node.parent {
        let from = if operands.len() > 1 { dst } else { src };
        b.send(group.ranks[parent], from, piece.bytes);
    }
}

fn down(b: &mut Builder, group: Group<'_>, node: &Node, buffers: Buffers, piece: Span) {
    let dst = buffers.dst.plus(piece.offset);
    if let Some(parent) = node.parent {
        b.recv(group.ranks[parent], dst, piece.bytes);
    }
    for child in node.children.iter().flatten() {
        b.send(group.ranks[child.member], dst, piece.bytes);
    }
}
