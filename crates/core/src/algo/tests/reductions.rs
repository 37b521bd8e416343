//! AllReduce, Reduce and ReduceScatter.

use super::world::{Random, SAME, Trial, Values, World, counts, roots};
use crate::algo::{Blocks, Buffers, Group, Reduction, Span, Tuning, allreduce, reduce, reduce_scatter};
use crate::schedule::{Builder, InPlace};
use crate::simulate::{Memory, Order, Value, combine, decode, encode, simulate};
use infiniccl_reduce::{DataType, ReduceOp};

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
fn allreduce_double_tree() {
    check_allreduce("double tree", allreduce::double_tree);
}

#[test]
fn allreduce_direct() {
    check_allreduce("direct", allreduce::direct);
}

#[test]
fn all_ranks_get_the_same_bytes_of_sums_that_are_not_exact() {
    let algorithms: [AllReduce; 5] = [
        allreduce::recursive_doubling,
        allreduce::rabenseifner,
        allreduce::ring,
        allreduce::direct,
        allreduce::double_tree,
    ];
    let mut random = Random(3);
    let count = 257u64;
    for (dtype, epsilon) in [
        (DataType::Float16, 2f64.powi(-11)),
        (DataType::Float32, 2f64.powi(-24)),
    ] {
        for p in [2, 3, 5, 6, 8, 13] {
            let values = Values {
                dtype,
                op: ReduceOp::Sum,
            };
            let element = |rank: usize, i: u64| {
                let bits = Random((rank as u64) << 20 | i).next();
                encode(dtype, Value::Float((bits % 20_000) as f64 / 1000.0 - 7.0))
            };
            let input = |rank: usize| (0..count).flat_map(|i| element(rank, i)).collect::<Vec<u8>>();
            for algorithm in algorithms {
                let world = World::sample(p, count * dtype.size() as u64, &mut random);
                let trial = Trial {
                    input: &input,
                    output: &|rank| input(rank).len(),
                    in_place: &|_| None,
                    build: &|b, group, tuning, buffers| {
                        algorithm(b, group, tuning, buffers, reduction(values), count);
                    },
                    expected: &|_| vec![],
                    values,
                };
                let mut memories: Vec<Memory> = (0..p)
                    .map(|rank| Memory::apart(input(rank), vec![0; input(rank).len()]))
                    .collect();
                simulate(&trial.schedules(&world), &mut memories, &[], Order::Rendezvous(9)).unwrap();
                assert!(
                    memories.iter().all(|m| m.output() == memories[0].output()),
                    "{dtype} p={p}"
                );
                for (i, got) in (0..count).zip(memories[0].output().chunks(dtype.size())) {
                    let float = |bytes: &[u8]| match decode(dtype, bytes) {
                        Value::Float(v) => v,
                        Value::Integer(_) => unreachable!("a float type"),
                    };
                    let inputs: Vec<f64> = (0..p).map(|rank| float(&element(rank, i))).collect();
                    let exact: f64 = inputs.iter().sum();
                    // At most one rounding for each input, of a partial sum that is not larger than all of them.
                    let bound = p as f64 * epsilon * inputs.iter().map(|v| v.abs()).sum::<f64>();
                    assert!((float(got) - exact).abs() <= bound, "{dtype} p={p} element {i}");
                }
            }
        }
    }
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
