//! AllToAll by exchanges with one member after the other.

use crate::algo::staging::{Slots, copy_chunks};
use crate::algo::{Blocks, Buffers, Group, Tuning};
use crate::schedule::Builder;

/// (p−1)α/w + (p−1)/p·nβ for n bytes per member and w messages under way (`cost::all_to_all_pairwise`).
///
/// `send` says where the blocks for the members lie in the input, `recv` where those from the members go in the
/// output. Only the lengths that a pair exchanges must agree, so this is AllToAllV too. Up to `window` messages
/// are sent and as many received at a time; with no less than there are, it is the linear algorithm.
///
/// In place, a member's block to and from another one are the same bytes, so what comes in waits in a slot until
/// the own block is out. Partners meet in the same step in both directions, as in a tournament, so that members
/// which work in place and others that do not can be mixed.
pub(crate) fn pairwise(
    b: &mut Builder,
    group: Group<'_>,
    tuning: Tuning,
    buffers: Buffers,
    send: &Blocks,
    recv: &Blocks,
    window: usize,
) {
    let Buffers { src, dst } = buffers;
    let p = group.len();
    let window = window.clamp(1, MOST_IN_FLIGHT) as u64;
    let cells = b.alloc(2 * window);
    let (mut sent, mut received) = (0, 0);
    let in_place = |b: &Builder, j: usize| b.same_place(src.plus(send[j].offset), dst.plus(recv[j].offset));
    // What a pair knows of the total: its own share.
    let chunk = |bytes: u64| tuning.chunk_for(bytes.saturating_mul(p as u64));
    let longest = (0..p)
        .filter(|j| *j != group.me && in_place(b, *j))
        .map(|j| chunk(recv[j].bytes).min(recv[j].bytes))
        .max();
    let mut slots = Slots::new(b, tuning.slots(), longest.unwrap_or(0));
    for partner in partners(group.me, p) {
        let peer = group.ranks[partner];
        let (given, taken) = (send[partner], recv[partner]);
        let (out_chunk, in_chunk) = (chunk(given.bytes), chunk(taken.bytes));
        let staged = in_place(b, partner);
        let rounds = given
            .bytes
            .div_ceil(out_chunk)
            .max(taken.bytes.div_ceil(in_chunk));
        for i in 0..rounds {
            let (out, piece) = (given.piece(i, out_chunk), taken.piece(i, in_chunk));
            b.send_in_turn(peer, src.plus(out.offset), out.bytes, cells.plus(sent % window));
            sent += u64::from(out.bytes > 0);
            let target = dst.plus(piece.offset);
            let into = if staged { slots.take() } else { target };
            let cell = cells.plus(window + received % window);
            b.recv_in_turn(peer, into, piece.bytes, cell);
            received += u64::from(piece.bytes > 0);
            b.copy(target, into, piece.bytes);
        }
    }
    let (given, taken) = (send[group.me], recv[group.me]);
    copy_chunks(
        b,
        dst.plus(taken.offset),
        src.plus(given.offset),
        given.bytes,
        chunk(given.bytes),
    );
}

/// Bounds the scratch memory of the window.
const MOST_IN_FLIGHT: usize = 1 << 16;

/// The partners of `me` in the order of the rounds of a tournament of `p`, in which all meet all, two at a time.
fn partners(me: usize, p: usize) -> impl Iterator<Item = usize> {
    // An odd number sits out one at a time; of an even one the last stands still while the others go around.
    let around = if p.is_multiple_of(2) { p - 1 } else { p };
    (0..around).filter_map(move |round| {
        if me == around {
            // Where 2j is the round, modulo p - 1; p/2 is the inverse of 2.
            return Some(round * (p / 2) % around);
        }
        let partner = (round + around - me) % around;
        if partner != me {
            Some(partner)
        } else {
            (around < p).then_some(around)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_meet_all_in_the_same_round() {
        for p in 1..=33usize {
            for me in 0..p {
                let mine: Vec<usize> = partners(me, p).collect();
                let mut sorted = mine.clone();
                sorted.sort_unstable();
                assert_eq!(sorted, (0..p).filter(|j| *j != me).collect::<Vec<_>>());
                if p.is_multiple_of(2) {
                    for (round, other) in mine.iter().enumerate() {
                        assert_eq!(partners(*other, p).nth(round), Some(me), "p={p} round {round}");
                    }
                }
            }
        }
    }
}
