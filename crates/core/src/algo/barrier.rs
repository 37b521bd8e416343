//! Barrier by dissemination: ⌈log2 p⌉ rounds of one token, after which each rank has heard of all.

use super::Group;
use crate::schedule::Builder;

/// No member ends before all have begun. ⌈log2 p⌉α (Hensgen, Finkel and Manber).
pub(crate) fn dissemination(b: &mut Builder, group: Group<'_>) {
    let rounds = group.len().next_power_of_two().ilog2();
    let cells = b.alloc(u64::from(rounds));
    for round in 0..rounds {
        let distance = 1usize << round;
        b.send_token(group.ranks[group.after(distance)], cells, u64::from(round));
        b.recv_token(group.ranks[group.before(distance)], cells.plus(u64::from(round)));
    }
}
