//! Every collective by every way that may be taken, on worlds of all shapes, composes to what the oracle says.

use super::data::{Combine, Data, oracle_name};
use super::run::{Places, Trial};
use super::worlds::{Layout, Random, poor, world};
use crate::call::Collective;
use crate::plan::algorithm::flat;
use crate::plan::choose::choose;
use crate::plan::{Algorithm, World};
use infiniccl_testkit::oracle::{Case, Dtype, Op, Values};
use std::collections::BTreeSet;

/// Printed with every failure; another one samples other cases.
const SEED: u64 = 0x1cc1;

/// Numbers of ranks for one pair of collective and layout: the small ones always, of the others some.
fn rank_counts(random: &mut Random) -> Vec<usize> {
    let mut counts = vec![1, 2, 3, 4, 5];
    counts.extend((6..=17).filter(|_| random.below(3) == 0));
    counts
}

fn element_count(collective: Collective, ranks: usize, random: &mut Random) -> usize {
    let count = random.pick(&[0, 1, 2, 3, 7, 7, 64, 64, 1000, 1025]);
    let blocks = matches!(
        collective,
        Collective::ReduceScatter | Collective::AllToAll | Collective::AllToAllV | Collective::ReduceScatterV
    );
    // Data of all ranks for all ranks is a lot to compute.
    if blocks && ranks > 6 { count.min(65) } else { count }
}

/// A type and an operator; means and scaled sums as often as all else.
fn combination(collective: Collective, random: &mut Random) -> (Dtype, Combine) {
    loop {
        let dtype = random.pick(Dtype::ALL);
        let combine = match random.below(5) {
            _ if !collective.reduces() => Combine::Fixed(Op::Sum),
            0 | 1 => Combine::Fixed(Op::Avg),
            2 => Combine::Premul,
            _ => Combine::Fixed(random.pick(Op::ALL)),
        };
        let defined = match combine {
            Combine::Fixed(op) => dtype.supports(op),
            Combine::Premul => dtype != Dtype::Bool,
        };
        if defined {
            return (dtype, combine);
        }
    }
}

fn sample(collective: Collective, ranks: usize, random: &mut Random) -> Data {
    let (dtype, combine) = combination(collective, random);
    let op = match combine {
        Combine::Fixed(op) => op,
        Combine::Premul => Op::Sum,
    };
    let values = match (combine, collective.reduces()) {
        (Combine::Premul, _) => Values::Rounding,
        (_, true) => random.pick(&[Values::Exact, Values::Rounding]),
        (_, false) => Values::Exact,
    };
    Data {
        collective,
        combine,
        case: Case {
            collective: oracle_name(collective),
            dtype,
            op,
            count: element_count(collective, ranks, random),
            root: random.below(ranks),
            ranks,
            values,
            salt: random.next() % 1000,
        },
    }
}

/// All ways that may be taken for a request in a world.
fn ways(world: &World, data: &Data) -> Vec<Algorithm> {
    let choice = choose(world, &data.request(0), data.vector(0).as_ref()).unwrap();
    choice
        .candidates
        .iter()
        .filter(|c| c.cost.is_ok())
        .map(|c| c.algorithm)
        .collect()
}

/// Runs samples of a collective on all layouts, and requires that each way occurred on each layout that has it.
fn compose(collective: Collective) {
    let mut random = Random(SEED ^ collective.abi().0 as u64);
    let mut seen = BTreeSet::new();
    let mut trials = 0;
    for layout in Layout::ALL {
        for ranks in rank_counts(&mut random) {
            let chunk = random.pick(&[64, 64, 128, 512, 1 << 20]);
            let mut world = world(layout.topology(ranks, &mut random), chunk);
            if random.below(4) == 0 {
                let island = random.below(world.topology.islands.len());
                if world.topology.islands[island].len() > 1 {
                    poor(&mut world, island);
                }
            }
            let data = sample(collective, ranks, &mut random);
            for algorithm in ways(&world, &data) {
                let trial = Trial {
                    world: &world,
                    // Each way with data of its own.
                    data: Data {
                        case: Case {
                            salt: random.next() % 1000,
                            ..data.case
                        },
                        ..data
                    },
                    algorithm,
                    places: random.pick(&[Places::Apart, Places::Shared, Places::Mixed]),
                    seed: random.next(),
                };
                if let Err(wrong) = trial.run() {
                    panic!(
                        "{wrong}\n{algorithm} on {layout:?} of {ranks} ranks, chunk {chunk}, {:?}\n{:?}\nislands {:?}\n\
                         seed {SEED:#x}",
                        trial.places, trial.data, world.topology.islands
                    );
                }
                seen.insert((*layout, algorithm.name()));
                trials += 1;
            }
        }
    }
    println!("{collective}: {trials} trials with seed {SEED:#x}");
    for layout in Layout::ALL {
        let mut expected: Vec<&str> = flat(collective).iter().map(|a| a.name()).collect();
        if *layout == Layout::One {
            expected.push("vendor");
        }
        let hierarchical = !matches!(layout, Layout::One | Layout::Apart);
        if hierarchical && crate::plan::algorithm::has_hierarchy(collective) {
            expected.push("hierarchical");
        }
        // Vendors of different arithmetic never compute the same result each.
        if *layout == Layout::Vendors {
            expected.retain(|name| *name != "recursive_doubling");
        }
        for name in expected {
            assert!(
                seen.contains(&(*layout, name)),
                "{collective}: no {name} on {layout:?}"
            );
        }
    }
}

macro_rules! composes {
    ($($name:ident $collective:ident,)+) => {
        $(#[test]
        fn $name() {
            compose(Collective::$collective);
        })+
    };
}

composes! {
    all_reduce AllReduce,
    broadcast Broadcast,
    reduce Reduce,
    all_gather AllGather,
    reduce_scatter ReduceScatter,
    gather Gather,
    scatter Scatter,
    all_to_all AllToAll,
    all_to_all_v AllToAllV,
    all_gather_v AllGatherV,
    reduce_scatter_v ReduceScatterV,
}
