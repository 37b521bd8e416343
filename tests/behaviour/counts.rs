//! Counts that are awkward: none at all, one rank, every remainder of ranks and vectors, more than 2^31.

use crate::world::{Plugins, World, layouts, right};
use infiniccl::{Group, ReduceOp};
use infiniccl_testkit::call::Placement;
use infiniccl_testkit::oracle::{Case, Collective, Dtype, Op, Values};

fn case(collective: Collective, dtype: Dtype, op: Op, count: usize, ranks: u32) -> Case {
    Case {
        collective,
        dtype,
        op: if dtype.supports(op) { op } else { Op::Max },
        count,
        root: count % ranks as usize,
        ranks: ranks as usize,
        values: Values::Exact,
        salt: count as u64,
    }
}

#[test]
fn one_rank_gets_every_element_of_its_own() {
    // Alone from the start, and as a part of four.
    let (alone, four) = (World::new(&[0]), World::new(&[0, 0, 1, 1]));
    let parts = four.run(|comm| comm.split(Some(comm.rank()), 0).expect("it works"));
    let mut comms: Vec<_> = parts.iter().flatten().collect();
    comms.push(&alone.comms[0]);
    for (turn, comm) in comms.into_iter().enumerate() {
        for count in 1..=70 {
            for (i, &dtype) in Dtype::ALL.iter().enumerate() {
                for (k, &collective) in Collective::ALL.iter().enumerate() {
                    let op = Op::ALL[(i + k + turn + count) % Op::ALL.len()];
                    right(comm, case(collective, dtype, op, count, 1), Placement::OutOfPlace);
                }
            }
        }
    }
}

#[test]
fn nothing_is_a_valid_call_of_every_collective_and_keeps_the_order() {
    for ranks in 1..=4 {
        for (_, nodes) in layouts(ranks) {
            let world = World::new(&nodes);
            world.run(|comm| {
                for (i, &collective) in Collective::ALL.iter().enumerate() {
                    for &op in Op::ALL {
                        right(
                            comm,
                            case(collective, Dtype::Float32, op, 0, ranks),
                            Placement::OutOfPlace,
                        );
                        right(
                            comm,
                            case(Collective::AllReduce, Dtype::Int64, op, 5 + i, ranks),
                            Placement::InPlace,
                        );
                    }
                }
                let (mut none, mut some) = ([0u64; 0], [u64::from(comm.rank())]);
                let mut group = Group::new();
                group.all_reduce_in_place(comm, &mut none, ReduceOp::Max);
                group.all_reduce_in_place(comm, &mut some, ReduceOp::Max);
                group.end().expect("both are valid");
                assert_eq!(some, [u64::from(ranks) - 1]);
            });
        }
    }
}

/// Every count from 1 to 257, with types, operators and placements in turn.
fn remainders(ranks: u32) {
    let collectives = [
        Collective::AllReduce,
        Collective::ReduceScatter,
        Collective::AllGather,
        Collective::AllToAll,
    ];
    let spread: Vec<u32> = (0..ranks).map(|r| r % 3).collect();
    for nodes in [vec![0; ranks as usize], spread] {
        let world = World::new(&nodes);
        world.run(|comm| {
            for count in 1..=257 {
                for (i, &collective) in collectives.iter().enumerate() {
                    let dtype = Dtype::ALL[(count * 7 + i * 4) % Dtype::ALL.len()];
                    let op = Op::ALL[(count + i) % Op::ALL.len()];
                    let placement = [Placement::OutOfPlace, Placement::InPlace][count / 3 % 2];
                    right(comm, case(collective, dtype, op, count, ranks), placement);
                }
            }
        });
    }
}

#[test]
fn every_remainder_over_two_ranks() {
    remainders(2);
}

#[test]
fn every_remainder_over_three_ranks() {
    remainders(3);
}

#[test]
fn every_remainder_over_five_ranks() {
    remainders(5);
}

#[test]
fn every_remainder_over_seven_ranks() {
    remainders(7);
}

#[test]
fn a_count_that_nothing_divides() {
    let world = World::new(&[0, 1, 0]);
    world.run(|comm| {
        for (dtype, op) in [(Dtype::Uint8, Op::Sum), (Dtype::BFloat16, Op::Avg)] {
            right(
                comm,
                case(Collective::AllReduce, dtype, op, 10_556_587, 3),
                Placement::InPlace,
            );
        }
    });
}

#[test]
#[ignore = "4.3 GiB of memory and minutes of time; for the night"]
fn more_than_two_to_the_31_elements() {
    const COUNT: usize = (1 << 31) + 5;
    for nodes in [[0, 0], [0, 1]] {
        // Without optimisation this takes minutes.
        let world = World::with(&nodes, Plugins::BuiltIn, &[("timeouts.collective", "600")]);
        world.run(|comm| {
            let places = [
                0,
                1,
                12_345,
                COUNT / 2,
                (1 << 31) - 1,
                1 << 31,
                (1 << 31) + 1,
                COUNT - 1,
            ];
            let mut buffer = vec![1 + comm.rank() as u8; COUNT];
            for (value, place) in (10u8..).zip(places) {
                buffer[place] = value * (1 + comm.rank() as u8);
            }
            comm.all_reduce_in_place(&mut buffer, ReduceOp::Sum)
                .expect("it works");
            for (value, place) in (10u8..).zip(places) {
                assert_eq!(buffer[place], 3 * value, "element {place}");
            }
            let others = buffer.iter().filter(|b| **b == 3).count();
            assert_eq!(others, COUNT - places.len());
        });
    }
}
