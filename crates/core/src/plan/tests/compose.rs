//! Every collective by every way that may be taken, on worlds of all shapes, composes to what the oracle says.

use super::data::{Combine, Data, oracle_name};
use super::run::{Places, Trial};
use super::worlds::{Layout, Random, poor, world};
use crate::call::Collective;
use crate::plan::algorithm::{flat, has_hierarchy};
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

/// What to combine: every mean and every scaled sum, as many plain operators, in a random order.
fn combinations(collective: Collective, random: &mut Random) -> Vec<(Dtype, Combine)> {
    if !collective.reduces() {
        return Dtype::ALL
            .iter()
            .map(|dtype| (*dtype, Combine::Fixed(Op::Sum)))
            .collect();
    }
    let numbers = || Dtype::ALL.iter().filter(|dtype| **dtype != Dtype::Bool);
    let mut all: Vec<_> = numbers().map(|dtype| (*dtype, Combine::Fixed(Op::Avg))).collect();
    all.extend(numbers().map(|dtype| (*dtype, Combine::Premul)));
    let plain = |random: &mut Random| random.pick(&[Op::Sum, Op::Prod, Op::Max, Op::Min]);
    all.extend(
        Dtype::ALL
            .iter()
            .chain(Dtype::ALL)
            .map(|dtype| (*dtype, Combine::Fixed(plain(random)))),
    );
    (1..all.len()).for_each(|i| all.swap(i, random.below(i + 1)));
    all
}

fn sample(
    collective: Collective,
    ranks: usize,
    (dtype, combine): (Dtype, Combine),
    random: &mut Random,
) -> Data {
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

/// Runs a request by all ways that may be taken for it, and returns their names.
fn run_all(world: &World, layout: Layout, data: Data, random: &mut Random) -> Vec<&'static str> {
    let choice = choose(world, &data.request(0), data.vector(0).as_ref()).unwrap();
    let ways = choice
        .candidates
        .iter()
        .filter(|c| c.cost.is_ok())
        .map(|c| c.algorithm);
    let run = |algorithm: Algorithm| {
        let trial = Trial {
            world,
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
                "{wrong}\n{algorithm} on {layout:?}, chunk {}, {:?}\n{:?}\nislands {:?}\nseed {SEED:#x}",
                world.settings.chunk, trial.places, trial.data, world.topology.islands
            );
        }
        algorithm.name()
    };
    ways.map(run).collect()
}

/// Runs samples of a collective on all layouts, and requires that each way occurred on each layout that has it.
fn compose(collective: Collective) {
    let mut random = Random(SEED ^ u64::from(collective.abi().0));
    let combinations = combinations(collective, &mut random);
    let mut next = combinations.iter().cycle();
    let mut seen = BTreeSet::new();
    let (mut samples, mut trials) = (0, 0);
    for layout in Layout::ALL {
        for ranks in rank_counts(&mut random) {
            let chunk = random.pick(&[64, 64, 128, 512, 1 << 20]);
            let world = world(layout.topology(ranks, &mut random), chunk);
            let combination = *next.next().unwrap();
            let data = sample(collective, ranks, combination, &mut random);
            let names = run_all(&world, *layout, data, &mut random);
            samples += 1;
            trials += names.len();
            seen.extend(names.into_iter().map(|name| (*layout, name)));
        }
    }
    println!("{collective}: {samples} requests, {trials} trials, seed {SEED:#x}");
    assert!(
        samples >= combinations.len(),
        "of {} combinations",
        combinations.len()
    );
    for layout in Layout::ALL {
        let mut expected: Vec<&str> = flat(collective).iter().map(|a| a.name()).collect();
        if *layout == Layout::One {
            expected.push("vendor");
        }
        if has_hierarchy(collective) && !matches!(layout, Layout::One | Layout::Apart) {
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

#[test]
fn means_where_some_library_cannot_scale_its_inputs() {
    let mut random = Random(SEED);
    let mut hierarchical = 0;
    for layout in [Layout::Even, Layout::Uneven, Layout::Interleaved, Layout::Lonely] {
        for collective in [
            Collective::AllReduce,
            Collective::Reduce,
            Collective::ReduceScatter,
        ] {
            for dtype in [Dtype::Float16, Dtype::BFloat16, Dtype::Float32, Dtype::Float64] {
                let ranks = 5 + random.below(6);
                let mut world = world(layout.topology(ranks, &mut random), random.pick(&[64, 4096]));
                let largest =
                    (0..world.topology.islands.len()).max_by_key(|i| world.topology.islands[*i].len());
                poor(&mut world, largest.unwrap());
                let what = (dtype, Combine::Fixed(Op::Avg));
                let data = sample(collective, ranks, what, &mut random);
                let names = run_all(&world, layout, data, &mut random);
                hierarchical += names.iter().filter(|name| **name == "hierarchical").count();
            }
        }
    }
    assert!(hierarchical >= 40, "{hierarchical}");
}
