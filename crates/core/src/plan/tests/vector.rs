//! Blocks of any size at any place: some empty, with gaps between them, in any order.

use super::worlds::{Layout, Random, world};
use crate::call::{Collective, RedOp, Request};
use crate::plan::choose::choose;
use crate::plan::{Vector, build};
use crate::schedule::Schedule;
use crate::simulate::{Memory, Order, simulate};
use infiniccl_reduce::{DataType, ReduceOp};

const POISON: u8 = 0x5A;

/// Places for blocks of these lengths, in a random order and with gaps; and where the last one ends.
fn places(counts: &[u64], random: &mut Random) -> (Vec<u64>, u64) {
    let mut order: Vec<usize> = (0..counts.len()).collect();
    (1..order.len()).for_each(|i| order.swap(i, random.below(i + 1)));
    let (mut displs, mut next) = (vec![0; counts.len()], 0);
    for i in order {
        next += random.below(4) as u64;
        displs[i] = next;
        next += counts[i];
    }
    (displs, next)
}

fn lengths(ranks: usize, random: &mut Random) -> Vec<u64> {
    (0..ranks)
        .map(|_| random.pick(&[0, 0, 1, 3, 17, 64, 200]))
        .collect()
}

fn element(from: usize, to: usize, index: u64) -> u8 {
    ((from * 31 + to * 7) as u64 + index * 3 + 1) as u8
}

struct Rank {
    vector: Vector,
    input: Vec<u8>,
    expected: Vec<u8>,
}

/// Ranks that send `counts[from][to]` bytes each.
fn all_to_all(counts: &[Vec<u64>], random: &mut Random) -> Vec<Rank> {
    let ranks = counts.len();
    let one = |me: usize| {
        let send_counts = counts[me].clone();
        let recv_counts: Vec<u64> = counts.iter().map(|row| row[me]).collect();
        let (send_displs, send_end) = places(&send_counts, random);
        let (recv_displs, recv_end) = places(&recv_counts, random);
        let (mut input, mut expected) = (vec![POISON; send_end as usize], vec![POISON; recv_end as usize]);
        for other in 0..ranks {
            (0..send_counts[other])
                .for_each(|i| input[(send_displs[other] + i) as usize] = element(me, other, i));
            (0..recv_counts[other])
                .for_each(|i| expected[(recv_displs[other] + i) as usize] = element(other, me, i));
        }
        Rank {
            vector: Vector {
                send_counts,
                send_displs,
                recv_counts,
                recv_displs,
            },
            input,
            expected,
        }
    };
    (0..ranks).map(one).collect()
}

/// Ranks that give `counts[rank]` bytes each to all.
fn all_gather(counts: &[u64], random: &mut Random) -> Vec<Rank> {
    let (displs, end) = places(counts, random);
    let mut expected = vec![POISON; end as usize];
    for (rank, count) in counts.iter().enumerate() {
        (0..*count).for_each(|i| expected[(displs[rank] + i) as usize] = element(rank, 0, i));
    }
    let one = |rank: usize| Rank {
        vector: Vector {
            recv_counts: counts.to_vec(),
            recv_displs: displs.clone(),
            ..Vector::default()
        },
        input: (0..counts[rank]).map(|i| element(rank, 0, i)).collect(),
        expected: expected.clone(),
    };
    (0..counts.len()).map(one).collect()
}

#[test]
fn blocks_land_where_the_caller_wants_them_and_nowhere_else() {
    let mut random = Random(0xb10c);
    for layout in Layout::ALL {
        for ranks in [1usize, 2, 3, 5, 8, 11] {
            let world = world(layout.topology(ranks, &mut random), random.pick(&[64, 128, 4096]));
            for collective in [Collective::AllToAllV, Collective::AllGatherV] {
                let all = if collective == Collective::AllToAllV {
                    let counts: Vec<Vec<u64>> = (0..ranks).map(|_| lengths(ranks, &mut random)).collect();
                    all_to_all(&counts, &mut random)
                } else {
                    all_gather(&lengths(ranks, &mut random), &mut random)
                };
                let request = Request {
                    collective,
                    dtype: DataType::Uint8,
                    op: RedOp::Fixed(ReduceOp::Sum),
                    count: 0,
                    root: 0,
                };
                let choice = choose(&world, &request, Some(&all[0].vector)).unwrap();
                for candidate in choice.candidates.iter().filter(|c| c.cost.is_ok()) {
                    let build = |(rank, one): (u32, &Rank)| {
                        build::build(
                            &world,
                            rank,
                            &request,
                            Some(&one.vector),
                            None,
                            candidate.algorithm,
                        )
                    };
                    let schedules: Vec<Schedule> = (0..).zip(&all).map(build).collect();
                    let memory =
                        |one: &Rank| Memory::apart(one.input.clone(), vec![POISON; one.expected.len()]);
                    let mut memories: Vec<Memory> = all.iter().map(memory).collect();
                    let context =
                        || format!("{} of {collective} on {layout:?} of {ranks}", candidate.algorithm);
                    let order = Order::Rendezvous(random.next());
                    simulate(&schedules, &mut memories, &world.topology.islands, order)
                        .unwrap_or_else(|wrong| panic!("{wrong}\n{}", context()));
                    for (rank, (memory, one)) in memories.iter().zip(&all).enumerate() {
                        assert!(memory.output() == one.expected, "rank {rank}: {}", context());
                    }
                }
            }
        }
    }
}
