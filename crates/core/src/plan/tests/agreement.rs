//! All ranks plan the same: their choices are equal, and their messages meet.

use super::data::{Combine, Data, oracle_name};
use super::messages::Messages;
use super::worlds::{Layout, Random, world};
use crate::call::{Collective, RedOp};
use crate::plan::choose::choose;
use crate::plan::{build, plan};
use infiniccl_testkit::oracle::{Case, Dtype, Op, Values};

const SEED: u64 = 0xa9;

fn data(collective: Collective, ranks: usize, random: &mut Random) -> Data {
    let combine = match (collective.reduces(), random.below(3)) {
        (true, 0) => Combine::Premul,
        (true, 1) => Combine::Fixed(Op::Avg),
        _ => Combine::Fixed(Op::Sum),
    };
    Data {
        collective,
        combine,
        case: Case {
            collective: oracle_name(collective),
            dtype: random.pick(&[Dtype::Float32, Dtype::Float16, Dtype::Int8, Dtype::Uint64]),
            op: Op::Sum,
            count: random.pick(&[1, 5, 63, 500]),
            root: random.below(ranks),
            ranks,
            values: Values::Exact,
            salt: 1,
        },
    }
}

#[test]
fn messages_of_all_ranks_meet_whatever_each_does_with_its_buffers() {
    let mut random = Random(SEED);
    let collectives = Collective::ALL
        .iter()
        .filter(|c| !c.is_message() && **c != Collective::Barrier);
    for collective in collectives {
        for ranks in [3, 12, 64] {
            let layout = random.pick(Layout::ALL);
            let world = world(
                layout.topology(ranks, &mut random),
                random.pick(&[1024, 256 << 10]),
            );
            let data = data(*collective, ranks, &mut random);
            let choice = choose(&world, &data.request(0), data.vector(0).as_ref()).unwrap();
            for candidate in choice.candidates.iter().filter(|c| c.cost.is_ok()) {
                let messages = |rank: usize, in_place| {
                    let vector = data.vector(rank);
                    let (request, way) = (data.request(rank), candidate.algorithm);
                    let built = build::build(&world, rank as u32, &request, vector.as_ref(), in_place, way);
                    Messages::of(&built)
                };
                let all: Vec<Messages> = (0..ranks).map(|r| messages(r, None)).collect();
                let context = || {
                    format!(
                        "{} of {data:?} on {layout:?} with seed {SEED:#x}",
                        candidate.algorithm
                    )
                };
                if let Err(wrong) = Messages::meet(&all, &world.topology.islands) {
                    panic!("{wrong}\n{}", context());
                }
                for rank in [0, ranks / 2, ranks - 1] {
                    if let Some((shared, _)) = data.in_place(rank) {
                        assert_eq!(
                            messages(rank, Some(shared)),
                            all[rank],
                            "rank {rank}: {}",
                            context()
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn all_ranks_choose_the_same_and_plan_the_same_twice() {
    let mut random = Random(SEED);
    for collective in Collective::ALL.iter().filter(|c| !c.is_message()) {
        for layout in Layout::ALL {
            let ranks = 2 + random.below(15);
            let world = world(layout.topology(ranks, &mut random), 4096);
            let mut data = data(Collective::AllReduce, ranks, &mut random);
            if *collective != Collective::Barrier {
                data.collective = *collective;
                data.case.collective = oracle_name(*collective);
            }
            let planned = |rank: usize| {
                let request = crate::call::Request {
                    collective: *collective,
                    ..data.request(rank)
                };
                plan(&world, rank as u32, &request, data.vector(rank).as_ref(), None).unwrap()
            };
            let first = planned(0);
            for rank in 0..ranks {
                let once = planned(rank);
                assert_eq!(
                    once.choice, first.choice,
                    "rank {rank}, {collective} on {layout:?}"
                );
                assert_eq!(once, planned(rank), "rank {rank}, {collective} on {layout:?}");
            }
        }
    }
}

#[test]
fn one_scalar_or_another_makes_no_other_choice() {
    let world = world(Layout::Even.topology(8, &mut Random(0)), 4096);
    let data = data(Collective::AllReduce, 8, &mut Random(0));
    let choice = |scalar_bits| {
        let request = crate::call::Request {
            op: RedOp::PreMulSum { scalar_bits },
            ..data.request(0)
        };
        choose(&world, &request, None).unwrap()
    };
    assert_eq!(choice(0), choice(0x4000_0000));
}
