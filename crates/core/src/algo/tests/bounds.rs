//! What schedules cost: steps, scratch memory, message sizes, and the bytes that a rank sends.

use super::world::{Random, World};
use crate::algo::{
    Blocks, Buffers, Group, Reduction, Tuning, all_gather, all_to_all, allreduce, barrier, broadcast, gather,
    reduce, reduce_scatter, scatter,
};
use crate::schedule::simulate::{Memory, Order, simulate};
use crate::schedule::{Action, Base, Builder, Loc, Schedule};
use infiniccl_reduce::{DataType, ReduceOp};

/// One rank's part of a collective on `n` bytes: those of the whole buffer that holds all blocks.
type Build = fn(&mut Builder, Group<'_>, Tuning, Buffers, u64);

/// An algorithm and its limits, given p, ⌈log2 p⌉, and the values named.
struct Algorithm {
    name: &'static str,
    build: Build,
    /// The most bytes that a rank sends, of n.
    sent: fn(p: u64, levels: u64, n: u64) -> u64,
    /// The most chunks of scratch memory, of that many slots.
    chunks: fn(p: u64, levels: u64, slots: u64) -> u64,
}

const SUM: Reduction = Reduction {
    dtype: DataType::Uint32,
    op: ReduceOp::Sum,
    raw: false,
    last: false,
};

fn even(group: Group<'_>, n: u64) -> Blocks {
    Blocks::by_rank(group.ranks, n / group.ranks.len() as u64)
}

const ALGORITHMS: &[Algorithm] = &[
    Algorithm {
        name: "allreduce recursive doubling",
        build: |b, g, t, io, n| allreduce::recursive_doubling(b, g, t, io, SUM, n / 4),
        sent: |_, levels, n| (levels + 1) * n,
        chunks: |_, _, slots| slots,
    },
    Algorithm {
        name: "allreduce rabenseifner",
        build: |b, g, t, io, n| allreduce::rabenseifner(b, g, t, io, SUM, n / 4),
        sent: |p, _, n| {
            if p.is_power_of_two() {
                2 * n * (p - 1) / p
            } else {
                3 * n
            }
        },
        chunks: |_, _, slots| slots,
    },
    Algorithm {
        name: "allreduce ring",
        build: |b, g, t, io, n| allreduce::ring(b, g, t, io, SUM, n / 4),
        sent: |p, _, n| 2 * n * (p - 1) / p,
        chunks: |_, _, slots| slots,
    },
    Algorithm {
        name: "allreduce direct",
        build: |b, g, t, io, n| allreduce::direct(b, g, t, io, SUM, n / 4),
        sent: |p, _, n| 2 * n * (p - 1) / p,
        chunks: |p, _, _| 2 * (p - 1),
    },
    Algorithm {
        name: "allreduce double tree",
        build: |b, g, t, io, n| allreduce::double_tree(b, g, t, io, SUM, n / 4),
        sent: |_, _, n| 2 * n,
        chunks: |_, _, slots| 2 * slots,
    },
    Algorithm {
        name: "reduce-scatter ring",
        build: |b, g, t, io, n| reduce_scatter::ring(b, g, t, io, SUM, &even(g, n)),
        sent: |p, _, n| n * (p - 1) / p,
        chunks: |_, _, slots| 2 * slots,
    },
    Algorithm {
        name: "reduce-scatter direct",
        build: |b, g, t, io, n| reduce_scatter::direct(b, g, t, io, SUM, &even(g, n)),
        sent: |p, _, n| n * (p - 1) / p,
        chunks: |p, _, _| 2 * (p - 1),
    },
    Algorithm {
        name: "reduce-scatter recursive halving",
        build: |b, g, t, io, n| reduce_scatter::recursive_halving(b, g, t, io, SUM, &even(g, n)),
        sent: |p, _, n| {
            if p.is_power_of_two() {
                n * (p - 1) / p
            } else {
                n + n / p
            }
        },
        chunks: |p, _, slots| 2 * slots.max(p),
    },
    Algorithm {
        name: "all-gather ring",
        build: |b, g, t, io, n| all_gather::ring(b, g, t, io, &even(g, n)),
        sent: |p, _, n| n * (p - 1) / p,
        chunks: |_, _, _| 0,
    },
    Algorithm {
        name: "all-gather bruck",
        build: |b, g, t, io, n| all_gather::bruck(b, g, t, io, &even(g, n)),
        sent: |p, _, n| n * (p - 1) / p,
        chunks: |p, _, slots| slots.max(p),
    },
    Algorithm {
        name: "all-gather direct",
        build: |b, g, t, io, n| all_gather::direct(b, g, t, io, &even(g, n)),
        sent: |p, _, n| n * (p - 1) / p,
        chunks: |_, _, _| 0,
    },
    Algorithm {
        name: "broadcast binomial",
        build: |b, g, t, io, n| broadcast::binomial(b, g, t, io, n, 0),
        sent: |_, levels, n| levels * n,
        chunks: |_, _, _| 0,
    },
    Algorithm {
        name: "broadcast chain",
        build: |b, g, t, io, n| broadcast::chain(b, g, t, io, n, 0),
        sent: |_, _, n| n,
        chunks: |_, _, _| 0,
    },
    Algorithm {
        name: "broadcast scatter-allgather",
        build: |b, g, t, io, n| broadcast::scatter_allgather(b, g, t, io, n, 0),
        sent: |p, _, n| 2 * n * (p - 1) / p,
        chunks: |_, _, _| 0,
    },
    Algorithm {
        name: "reduce binomial",
        build: |b, g, t, io, n| reduce::binomial(b, g, t, io, SUM, n / 4, 0),
        sent: |_, _, n| n,
        chunks: |_, levels, _| 2 * levels + 2,
    },
    Algorithm {
        name: "reduce chain",
        build: |b, g, t, io, n| reduce::chain(b, g, t, io, SUM, n / 4, 0),
        sent: |_, _, n| n,
        chunks: |_, _, slots| slots,
    },
    Algorithm {
        name: "reduce direct",
        build: |b, g, t, io, n| reduce::direct(b, g, t, io, SUM, n / 4, 0),
        sent: |_, _, n| n,
        chunks: |p, _, _| 2 * (p - 1),
    },
    Algorithm {
        name: "reduce scatter-gather",
        build: |b, g, t, io, n| reduce::scatter_gather(b, g, t, io, SUM, n / 4, 0),
        sent: |_, _, n| n,
        chunks: |_, _, slots| 2 * slots,
    },
    Algorithm {
        name: "gather linear",
        build: |b, g, t, io, n| gather::linear(b, g, t, io, &even(g, n), 0),
        sent: |p, _, n| n / p,
        chunks: |_, _, _| 0,
    },
    Algorithm {
        name: "gather binomial",
        build: |b, g, t, io, n| gather::binomial(b, g, t, io, &even(g, n), 0),
        sent: |_, _, n| n.div_ceil(2),
        chunks: |p, _, slots| slots.max(p),
    },
    Algorithm {
        name: "scatter linear",
        build: |b, g, t, io, n| scatter::linear(b, g, t, io, &even(g, n), 0),
        sent: |p, _, n| n * (p - 1) / p,
        chunks: |_, _, _| 0,
    },
    Algorithm {
        name: "scatter binomial",
        build: |b, g, t, io, n| scatter::binomial(b, g, t, io, &even(g, n), 0),
        sent: |p, _, n| n * (p - 1) / p,
        chunks: |p, _, slots| slots.max(p),
    },
    Algorithm {
        name: "all-to-all pairwise",
        build: |b, g, t, io, n| all_to_all::pairwise(b, g, t, io, &even(g, n), &even(g, n), 4),
        sent: |p, _, n| n * (p - 1) / p,
        chunks: |_, _, _| 1,
    },
    Algorithm {
        name: "all-to-all bruck",
        build: |b, g, t, io, n| all_to_all::bruck(b, g, t, io, &even(g, n)),
        sent: |p, levels, n| levels * (n / p) * p.div_ceil(2),
        chunks: |p, _, slots| 2 * slots.max(p) + 2,
    },
];

fn build(algorithm: &Algorithm, group: Group<'_>, tuning: Tuning, n: u64) -> Schedule {
    let mut b = Builder::new(None, 1);
    let buffers = Buffers {
        src: Loc::new(Base::Send, 0),
        dst: Loc::new(Base::Recv, 0),
    };
    (algorithm.build)(&mut b, group, tuning, buffers, n);
    b.finish()
}

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
