//! AllGather, Broadcast, Gather, Scatter and Barrier.

use super::world::{Random, SAME, Trial, Values, World, counts, roots};
use crate::algo::{Blocks, Buffers, Group, Span, Tuning, all_gather, barrier, broadcast, gather, scatter};
use crate::schedule::{Action, Builder, InPlace, Schedule};
use crate::simulate::{Memory, Order, simulate};

type AllGather = fn(&mut Builder, Group<'_>, Tuning, Buffers, &Blocks);
type Broadcast = fn(&mut Builder, Group<'_>, Tuning, Buffers, u64, usize);
type Rooted = fn(&mut Builder, Group<'_>, Tuning, Buffers, &Blocks, usize);

/// Blocks of the ranks in a buffer: equal ones side by side, or uneven ones with gaps, in any order.
struct Layout {
    spans: Vec<Span>,
    bytes: usize,
}

impl Layout {
    fn sample(p: usize, count: u64, random: &mut Random) -> Self {
        let mut spans = vec![Span::new(0, 0); p];
        let mut at = 0;
        let even = random.below(2) == 0;
        let mut order: Vec<usize> = (0..p).collect();
        if !even {
            (1..p).for_each(|i| order.swap(i, random.below(i + 1)));
        }
        for rank in order {
            let bytes = if even {
                count
            } else {
                random.next() % (2 * count + 1)
            };
            spans[rank] = Span::new(at, bytes);
            at += bytes + if even { 0 } else { random.next() % 3 };
        }
        Layout {
            spans,
            bytes: at as usize,
        }
    }

    fn blocks(&self, group: Group<'_>) -> Blocks {
        Blocks::placed(group.ranks, |rank| self.spans[rank as usize])
    }

    fn input(&self, rank: usize) -> Vec<u8> {
        Values::BYTES.input(rank, self.spans[rank].bytes)
    }

    /// All ranks' blocks, where they belong.
    fn gathered(&self) -> Vec<(u64, Vec<u8>)> {
        (0..self.spans.len())
            .map(|r| (self.spans[r].offset, self.input(r)))
            .collect()
    }
}

fn check_all_gather(name: &str, algorithm: AllGather) {
    let mut random = Random(name.len() as u64);
    for p in 1..=17 {
        for count in counts(p, &mut random) {
            for in_place in [false, true] {
                let layout = Layout::sample(p, count / p as u64 + count % 2, &mut random);
                let world = World::sample(p, layout.bytes as u64, &mut random);
                let place = |rank: usize| InPlace {
                    send_offset: layout.spans[rank].offset,
                    recv_offset: 0,
                };
                Trial {
                    input: &|rank| layout.input(rank),
                    output: &|_| layout.bytes,
                    in_place: &|rank| in_place.then(|| place(rank)),
                    build: &|b, group, tuning, buffers| {
                        algorithm(b, group, tuning, buffers, &layout.blocks(group));
                    },
                    expected: &|_| layout.gathered(),
                    values: Values::BYTES,
                }
                .check(&world, &|| {
                    format!("{name} of {:?} in place: {in_place}", layout.spans)
                });
            }
        }
    }
}

#[test]
fn all_gather_ring() {
    check_all_gather("ring", all_gather::ring);
}

#[test]
fn all_gather_bruck() {
    check_all_gather("bruck", all_gather::bruck);
}

#[test]
fn all_gather_direct() {
    check_all_gather("direct", all_gather::direct);
}

fn check_broadcast(name: &str, algorithm: Broadcast) {
    let mut random = Random(name.len() as u64);
    for p in 1..=17 {
        for count in counts(p, &mut random) {
            for root in roots(p, &mut random) {
                let world = World::sample(p, count, &mut random);
                let root_rank = world.ranks[root] as usize;
                let in_place = random.pick(&[None, SAME]);
                Trial {
                    // Only the root has an input.
                    input: &|rank| {
                        if rank == root_rank {
                            Values::BYTES.input(rank, count)
                        } else {
                            vec![]
                        }
                    },
                    output: &|_| count as usize,
                    in_place: &|_| in_place,
                    build: &|b, group, tuning, buffers| algorithm(b, group, tuning, buffers, count, root),
                    expected: &|_| vec![(0, Values::BYTES.input(root_rank, count))],
                    values: Values::BYTES,
                }
                .check(&world, &|| {
                    format!("{name} of {count} from {root_rank} {in_place:?}")
                });
            }
        }
    }
}

#[test]
fn broadcast_binomial() {
    check_broadcast("binomial", broadcast::binomial);
}

#[test]
fn broadcast_chain() {
    check_broadcast("chain", broadcast::chain);
}

#[test]
fn broadcast_scatter_allgather() {
    check_broadcast("scatter and allgather", broadcast::scatter_allgather);
}

fn check_gather(name: &str, algorithm: Rooted) {
    let mut random = Random(name.len() as u64);
    for p in 1..=17 {
        for count in counts(p, &mut random) {
            for root in roots(p, &mut random) {
                let layout = Layout::sample(p, count / p as u64 + count % 2, &mut random);
                let world = World::sample(p, layout.bytes as u64, &mut random);
                let root_rank = world.ranks[root] as usize;
                let in_place = random.below(2) == 0;
                let place = InPlace {
                    send_offset: layout.spans[root_rank].offset,
                    recv_offset: 0,
                };
                Trial {
                    input: &|rank| layout.input(rank),
                    output: &|rank| if rank == root_rank { layout.bytes } else { 0 },
                    in_place: &|rank| (in_place && rank == root_rank).then_some(place),
                    build: &|b, group, tuning, buffers| {
                        algorithm(b, group, tuning, buffers, &layout.blocks(group), root);
                    },
                    expected: &|rank| {
                        if rank == root_rank {
                            layout.gathered()
                        } else {
                            vec![]
                        }
                    },
                    values: Values::BYTES,
                }
                .check(&world, &|| {
                    format!("{name} of {:?} to {root_rank} in place: {in_place}", layout.spans)
                });
            }
        }
    }
}

#[test]
fn gather_linear() {
    check_gather("linear", gather::linear);
}

#[test]
fn gather_binomial() {
    check_gather("binomial", gather::binomial);
}

fn check_scatter(name: &str, algorithm: Rooted) {
    let mut random = Random(name.len() as u64);
    for p in 1..=17 {
        for count in counts(p, &mut random) {
            for root in roots(p, &mut random) {
                let layout = Layout::sample(p, count / p as u64 + count % 2, &mut random);
                let world = World::sample(p, layout.bytes as u64, &mut random);
                let root_rank = world.ranks[root] as usize;
                let in_place = random.below(2) == 0;
                let place = InPlace {
                    send_offset: 0,
                    recv_offset: layout.spans[root_rank].offset,
                };
                let all = Values::BYTES.input(root_rank, layout.bytes as u64);
                let block = |rank: usize| {
                    let span = layout.spans[rank];
                    all[span.offset as usize..(span.offset + span.bytes) as usize].to_vec()
                };
                Trial {
                    input: &|rank| if rank == root_rank { all.clone() } else { vec![] },
                    output: &|rank| layout.spans[rank].bytes as usize,
                    in_place: &|rank| (in_place && rank == root_rank).then_some(place),
                    build: &|b, group, tuning, buffers| {
                        algorithm(b, group, tuning, buffers, &layout.blocks(group), root);
                    },
                    expected: &|rank| vec![(0, block(rank))],
                    values: Values::BYTES,
                }
                .check(&world, &|| {
                    format!(
                        "{name} of {:?} from {root_rank} in place: {in_place}",
                        layout.spans
                    )
                });
            }
        }
    }
}

#[test]
fn scatter_linear() {
    check_scatter("linear", scatter::linear);
}

#[test]
fn scatter_binomial() {
    check_scatter("binomial", scatter::binomial);
}

/// Whose start each rank knows of when all its steps are done, by dependencies and messages alone.
fn known(schedules: &[Schedule]) -> Vec<u64> {
    let mut knows: Vec<Vec<u64>> = schedules
        .iter()
        .enumerate()
        .map(|(r, s)| vec![1u64 << r; s.actions.len()])
        .collect();
    let messages = |rank: usize, sends: bool, other: usize| -> Vec<usize> {
        let fits = |action: &Action| match action {
            Action::Send { peer, .. } => sends && *peer as usize == other,
            Action::Recv { peer, .. } => !sends && *peer as usize == other,
            _ => false,
        };
        let steps = schedules[rank].actions.iter().enumerate();
        steps.filter(|(_, a)| fits(a)).map(|(step, _)| step).collect()
    };
    let mut changed = true;
    while changed {
        changed = false;
        let mut learn = |knows: &mut Vec<Vec<u64>>, to: (usize, usize), from: (usize, usize)| {
            let all = knows[to.0][to.1] | knows[from.0][from.1];
            changed |= all != knows[to.0][to.1];
            knows[to.0][to.1] = all;
        };
        for rank in 0..schedules.len() {
            for step in 0..schedules[rank].actions.len() {
                for next in schedules[rank].dependents_of(step) {
                    learn(&mut knows, (rank, *next as usize), (rank, step));
                }
            }
            for other in (0..schedules.len()).filter(|o| *o != rank) {
                for (send, recv) in messages(rank, true, other)
                    .iter()
                    .zip(messages(other, false, rank))
                {
                    learn(&mut knows, (other, recv), (rank, *send));
                }
            }
        }
    }
    let of_rank = |(rank, steps): (usize, &Vec<u64>)| steps.iter().fold(1 << rank, |all, k| all | k);
    knows.iter().enumerate().map(of_rank).collect()
}

#[test]
fn nobody_leaves_a_barrier_before_all_have_entered() {
    let mut random = Random(7);
    for p in 1..=33 {
        let world = World::sample(p, 0, &mut random);
        let build = |rank: usize| {
            let mut b = Builder::new(None, 1);
            barrier::dissemination(&mut b, world.group(rank));
            b.finish()
        };
        let schedules: Vec<Schedule> = (0..p).map(build).collect();
        assert_eq!(known(&schedules), vec![(1u64 << p) - 1; p]);
        for order in [
            Order::Program,
            Order::Rendezvous(p as u64),
            Order::Buffered(p as u64),
        ] {
            let mut memories = vec![Memory::apart(vec![], vec![]); p];
            simulate(&schedules, &mut memories, &[], order).unwrap();
        }
    }
}
