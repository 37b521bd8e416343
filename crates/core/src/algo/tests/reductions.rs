//! AllReduce, Reduce and ReduceScatter.

use super::world::{Random, SAME, Trial, Values, World, counts, roots};
use crate::algo::{Blocks, Buffers, Group, Reduction, Span, Tuning, allreduce, reduce, reduce_scatter};
use crate::schedule::simulate::combine;
use crate::schedule::{Builder, InPlace};
use infiniccl_reduce::ReduceOp;

type AllReduce = fn(&mut Builder, Group<'_>, Tuning, Buffers, Reduction, u64);
type Reduce = fn(&mut Builder, Group<'_>, Tuning, Buffers, Reduction, u64, usize);
type ReduceScatter = fn(&mut Builder, Group<'_>, Tuning, Buffers, Reduction, &Blocks);

fn reduction(values: Values) -> Reduction {
    let mean = values.op == ReduceOp::Avg;
    let op = if mean { ReduceOp::Sum } else { values.op };
    Reduction {
        dtype: values.dtype,
        op,
        raw: mean,
        last: mean,
    }
}

/// What all ranks' inputs make together.
fn combined(values: Values, p: usize, count: u64) -> Vec<u8> {
    let inputs: Vec<Vec<u8>> = (0..p).map(|r| values.input(r, count)).collect();
    let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    combine(values.dtype, values.red_op(), &inputs, &[]).unwrap()
}

fn check_allreduce(name: &str, algorithm: AllReduce) {
    let mut random = Random(name.len() as u64);
    for p in 1..=17 {
        for count in counts(p, &mut random) {
            for in_place in [None, SAME] {
                let values = Values::sample(&mut random);
                let world = World::sample(p, count * values.dtype.size() as u64, &mut random);
                let expected = combined(values, p, count);
                Trial {
                    input: &|rank| values.input(rank, count),
                    output: &|_| expected.len(),
                    in_place: &|_| in_place,
                    build: &|b, group, tuning, buffers| {
                        algorithm(b, group, tuning, buffers, reduction(values), count);
                    },
                    expected: &|_| vec![(0, expected.clone())],
                    values,
                }
                .check(&world, &|| format!("{name} of {count} {values:?} {in_place:?}"));
            }
        }
    }
}

#[test]
fn allreduce_recursive_doubling() {
    check_allreduce("recursive doubling", allreduce::recursive_doubling);
}

#[test]
fn allreduce_rabenseifner() {
    check_allreduce("rabenseifner", allreduce::rabenseifner);
}

#[test]
fn allreduce_ring() {
    check_allreduce("ring", allreduce::ring);
}

#[test]
fn allreduce_direct() {
    check_allreduce("direct", allreduce::direct);
}

fn check_reduce(name: &str, algorithm: Reduce) {
    let mut random = Random(name.len() as u64);
    for p in 1..=17 {
        for count in counts(p, &mut random) {
            for root in roots(p, &mut random) {
                let values = Values::sample(&mut random);
                let world = World::sample(p, count * values.dtype.size() as u64, &mut random);
                let root_rank = world.ranks[root] as usize;
                let expected = combined(values, p, count);
                let in_place = random.pick(&[None, SAME]);
                Trial {
                    input: &|rank| values.input(rank, count),
                    // Others have no output at all.
                    output: &|rank| if rank == root_rank { expected.len() } else { 0 },
                    in_place: &|rank| in_place.filter(|_| rank == root_rank),
                    build: &|b, group, tuning, buffers| {
                        algorithm(b, group, tuning, buffers, reduction(values), count, root);
                    },
                    expected: &|rank| {
                        if rank == root_rank {
                            vec![(0, expected.clone())]
                        } else {
                            vec![]
                        }
                    },
                    values,
                }
                .check(&world, &|| {
                    format!("{name} of {count} {values:?} to {root_rank} {in_place:?}")
                });
            }
        }
    }
}

#[test]
fn reduce_binomial() {
    check_reduce("binomial", reduce::binomial);
}

#[test]
fn reduce_chain() {
    check_reduce("chain", reduce::chain);
}

#[test]
fn reduce_direct() {
    check_reduce("direct", reduce::direct);
}

#[test]
fn reduce_scatter_gather() {
    check_reduce("scatter and gather", reduce::scatter_gather);
}

fn check_reduce_scatter(name: &str, algorithm: ReduceScatter) {
    let mut random = Random(name.len() as u64);
    for p in 1..=17 {
        for count in counts(p, &mut random) {
            // Half of the cases with counts that differ by rank, and in all of them some that are zero.
            let uneven = random.below(2) == 0;
            let lengths: Vec<u64> = (0..p)
                .map(|_| {
                    if uneven {
                        random.next() % (2 * count / p as u64 + 2)
                    } else {
                        count / p as u64
                    }
                })
                .collect();
            let total: u64 = lengths.iter().sum();
            let start = |rank: usize| lengths[..rank].iter().sum::<u64>();
            for in_place in [false, true] {
                let values = Values::sample(&mut random);
                let size = values.dtype.size() as u64;
                let world = World::sample(p, total * size, &mut random);
                let expected = combined(values, p, total);
                let span = |rank: usize| Span::new(start(rank) * size, lengths[rank] * size);
                let block = |rank: usize| {
                    let s = span(rank);
                    expected[s.offset as usize..(s.offset + s.bytes) as usize].to_vec()
                };
                Trial {
                    input: &|rank| values.input(rank, total),
                    output: &|rank| span(rank).bytes as usize,
                    in_place: &|rank| {
                        let recv_offset = span(rank).offset;
                        in_place.then_some(InPlace {
                            send_offset: 0,
                            recv_offset,
                        })
                    },
                    build: &|b, group, tuning, buffers| {
                        let blocks = Blocks::placed(group.ranks, |rank| span(rank as usize));
                        algorithm(b, group, tuning, buffers, reduction(values), &blocks);
                    },
                    expected: &|rank| vec![(0, block(rank))],
                    values,
                }
                .check(&world, &|| {
                    format!("{name} of {lengths:?} {values:?} in place: {in_place}")
                });
            }
        }
    }
}

#[test]
fn reduce_scatter_ring() {
    check_reduce_scatter("ring", reduce_scatter::ring);
}

#[test]
fn reduce_scatter_direct() {
    check_reduce_scatter("direct", reduce_scatter::direct);
}

#[test]
fn reduce_scatter_recursive_halving() {
    check_reduce_scatter("recursive halving", reduce_scatter::recursive_halving);
}
