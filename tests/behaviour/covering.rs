//! Every collective × type × operator × placement, over counts, ranks and layouts.

use crate::world::{Plugins, World, layouts};
use infiniccl_testkit::call::{Call, Placement};
use infiniccl_testkit::oracle::{Case, Collective, Dtype, Op, Values};

const COUNTS: [usize; 14] = [0, 1, 2, 3, 7, 8, 9, 63, 64, 65, 1000, 1025, 65537, (1 << 20) + 3];
/// Longer messages are checked with fewer cases, since each element is looked at.
const LONG: usize = 10_000;
const RANKS: [u32; 6] = [1, 2, 3, 4, 5, 8];

#[derive(Debug, Clone, Copy)]
struct Kind {
    collective: Collective,
    dtype: Dtype,
    op: Op,
    placement: Placement,
    values: Values,
}

/// Every kind of call there is.
fn kinds() -> Vec<Kind> {
    let mut kinds = Vec::new();
    for &collective in Collective::ALL {
        for &dtype in Dtype::ALL {
            let ops: Vec<Op> = match collective.reduces() {
                true => Op::ALL.iter().copied().filter(|op| dtype.supports(*op)).collect(),
                false => vec![Op::Sum],
            };
            for op in ops {
                let values = match collective.reduces() {
                    true => &[Values::Exact, Values::Rounding, Values::Special][..],
                    false => &[Values::Exact][..],
                };
                for &values in values {
                    for placement in [Placement::OutOfPlace, Placement::InPlace] {
                        kinds.push(Kind {
                            collective,
                            dtype,
                            op,
                            placement,
                            values,
                        });
                    }
                }
            }
        }
    }
    kinds
}

/// A small generator: the sample must be the same on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % n
    }
}

fn seed() -> u64 {
    std::env::var("INFINICCL_TEST_SEED")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(20_261_201)
}

/// The cases of one world: each kind at least once over all worlds of `share`, at counts and roots in turn.
fn cases(ranks: u32, random: &mut Random, share: usize) -> Vec<(Case, Placement)> {
    let full = std::env::var_os("INFINICCL_TEST_FULL").is_some();
    let mut cases = Vec::new();
    for (index, kind) in kinds().into_iter().enumerate() {
        let counts: Vec<usize> = if full {
            COUNTS.to_vec()
        } else if (index + random.0 as usize).is_multiple_of(share) || random.below(share) == 0 {
            let count = COUNTS[random.below(COUNTS.len())];
            let long = count > LONG && random.below(12) != 0;
            vec![if long { count % 1000 } else { count }]
        } else {
            continue;
        };
        for count in counts {
            let case = Case {
                collective: kind.collective,
                dtype: kind.dtype,
                op: kind.op,
                count,
                root: random.below(ranks as usize),
                ranks: ranks as usize,
                values: kind.values,
                salt: random.0,
            };
            cases.push((case, kind.placement));
        }
    }
    cases
}

fn check(nodes: &[u32], what: &str, plugins: Plugins, share: usize) {
    let world = World::with(nodes, plugins, &[]);
    let ranks = nodes.len() as u32;
    let seed = seed();
    let mut random =
        Random(seed ^ (u64::from(ranks) << 8) ^ nodes.iter().fold(0, |s, n| s * 5 + u64::from(*n)));
    let cases = cases(ranks, &mut random, share);
    let ran = world.run(|comm| {
        let rank = comm.rank() as usize;
        let mut ran = 0;
        for (case, placement) in &cases {
            let Some(mut call) = Call::new(*case, rank, *placement) else {
                continue;
            };
            let context = || {
                format!("rank {rank} of {ranks} on {what}, {plugins:?}, seed {seed}: {placement:?} {case:?}")
            };
            if let Err(error) = call.run(comm) {
                panic!("{}: {error}", context());
            }
            let found = call.check();
            assert!(
                found.is_ok(),
                "{}: {} wrong, {:?}",
                context(),
                found.wrong,
                found.first
            );
            ran += 1;
        }
        ran
    });
    assert!(
        ran.iter().all(|n| *n == ran[0] && *n > 0),
        "every rank ran the same cases: {ran:?}"
    );
}

macro_rules! worlds {
    ($($name:ident: $ranks:literal, $plugins:ident, $share:literal;)+) => {$(
        #[test]
        fn $name() {
            for (what, nodes) in layouts($ranks) {
                check(&nodes, what, Plugins::$plugins, $share);
            }
        }
    )+};
}

worlds! {
    one_rank: 1, BuiltIn, 1;
    two_ranks: 2, BuiltIn, 3;
    three_ranks: 3, BuiltIn, 6;
    four_ranks: 4, BuiltIn, 6;
    five_ranks: 5, BuiltIn, 8;
    eight_ranks: 8, BuiltIn, 12;
    shared_objects_two_ranks: 2, SharedObjects, 6;
    shared_objects_five_ranks: 5, SharedObjects, 24;
}

#[test]
fn the_ranks_of_the_suite_are_all_there() {
    assert_eq!(RANKS, [1, 2, 3, 4, 5, 8]);
    assert!(kinds().len() > 1000, "{} kinds of call", kinds().len());
}
