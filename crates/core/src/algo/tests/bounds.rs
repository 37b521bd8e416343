//! What schedules cost: steps, scratch memory, message sizes, and the bytes that a rank sends.

use super::catalog::{ALGORITHMS, build};
use super::world::{Random, World};
use crate::algo::{Group, Tuning, barrier};
use crate::schedule::{Action, Builder, Schedule};
use crate::simulate::{Memory, Order, simulate};

#[test]
fn steps_scratch_and_messages_are_bounded() {
    for p in [2u64, 3, 8, 13] {
        let levels = u64::from(p.next_power_of_two().ilog2());
        let ranks: Vec<u32> = (0..p as u32).collect();
        // A short message in a single chunk, one of some chunks, and a long one in chunks that are far too small.
        let mut sizes = vec![(p << 12, 1 << 20), (p << 20, 1 << 16)];
        if p == 3 {
            sizes.push((p << 27, 64));
        }
        for (n, chunk) in sizes {
            let tuning = Tuning { chunk, slots: 4 };
            let (chunk, slots) = (tuning.chunk_for(n), u64::from(tuning.slots));
            for algorithm in ALGORITHMS {
                let mut most_sent = 0;
                for me in [0, p - 1].into_iter().take(if n > 1 << 28 { 1 } else { 2 }) {
                    let group = Group {
                        ranks: &ranks,
                        me: me as usize,
                    };
                    let schedule = build(algorithm, group, tuning, n);
                    let (mut sent, mut moved) = (0, 0);
                    for action in &schedule.actions {
                        if let Action::Send { bytes, .. } | Action::Recv { bytes, .. } = *action {
                            assert!(bytes <= chunk, "{}: a message of {bytes} bytes", algorithm.name);
                            moved += bytes;
                            sent += if matches!(action, Action::Send { .. }) {
                                bytes
                            } else {
                                0
                            };
                        }
                    }
                    most_sent = sent.max(most_sent);
                    // A message and a local step for each chunk, and the pieces that do not fill one.
                    let rounds = n.div_ceil(chunk * slots).max(1);
                    let limit = 4 * (moved + n).div_ceil(chunk) + 4 * rounds * p * (levels + 1);
                    let steps = schedule.actions.len() as u64;
                    assert!(
                        steps <= limit,
                        "{} p={p} n={n}: {steps} steps, limit {limit}",
                        algorithm.name
                    );
                    let limit = (algorithm.chunks)(p, levels, slots) * chunk + 1024;
                    let scratch = schedule.scratch_bytes;
                    assert!(
                        scratch <= limit,
                        "{} p={p} n={n}: {scratch} bytes, limit {limit}",
                        algorithm.name
                    );
                }
                let limit = (algorithm.sent)(p, levels, n);
                assert!(
                    most_sent <= limit,
                    "{} p={p}: sends {most_sent}, limit {limit}",
                    algorithm.name
                );
                assert!(
                    most_sent > 0 || n > 1 << 28,
                    "{} p={p} sends nothing",
                    algorithm.name
                );
            }
        }
    }
}

#[test]
fn a_thousand_ranks_get_the_right_result() {
    let p = 1000;
    let mut random = Random(1);
    let world = World::sample(p, 0, &mut random);
    let root = world.ranks[0] as usize;
    let value = |rank: usize| (7 * rank as u32 + 5).to_le_bytes();
    let sum: u32 = (0..p as u32).map(|rank| 7 * rank + 5).sum();
    for algorithm in ALGORITHMS {
        let everywhere = match algorithm.name {
            "allreduce recursive doubling" | "allreduce rabenseifner" | "allreduce double tree" => {
                sum.to_le_bytes()
            }
            "broadcast binomial" | "broadcast chain" => value(root),
            "reduce binomial" | "reduce chain" => [0; 4],
            _ => continue,
        };
        let schedules: Vec<Schedule> = (0..p)
            .map(|rank| build(algorithm, world.group(rank), world.tuning, 4))
            .collect();
        let memory = |rank: usize| Memory::apart(value(rank).to_vec(), vec![0; 4]);
        let mut memories: Vec<Memory> = (0..p).map(memory).collect();
        simulate(&schedules, &mut memories, &[], Order::Rendezvous(1))
            .unwrap_or_else(|e| panic!("{}: {e}", algorithm.name));
        for (rank, memory) in memories.iter().enumerate() {
            let reduced_here = algorithm.name.starts_with("reduce") && rank == root;
            let expected = if reduced_here {
                sum.to_le_bytes()
            } else {
                everywhere
            };
            assert_eq!(memory.output(), expected, "{} on rank {rank}", algorithm.name);
        }
    }
}

#[test]
fn ten_thousand_ranks_are_planned_in_little_memory() {
    let ranks: Vec<u32> = (0..10_000).collect();
    let tuning = Tuning {
        chunk: 1 << 18,
        slots: 4,
    };
    let names = [
        "allreduce ring",
        "broadcast scatter-allgather",
        "gather linear",
        "all-to-all pairwise",
    ];
    for algorithm in ALGORITHMS.iter().filter(|a| names.contains(&a.name)) {
        let schedule = build(
            algorithm,
            Group {
                ranks: &ranks,
                me: 5000,
            },
            tuning,
            4 * 10_000,
        );
        let steps = schedule.actions.len();
        assert!(steps < 60_000, "{}: {steps} steps", algorithm.name);
    }
    let mut b = Builder::new(None, 1);
    barrier::dissemination(
        &mut b,
        Group {
            ranks: &ranks,
            me: 77,
        },
    );
    assert_eq!(b.finish().actions.len(), 28);
}
