//! What decides: rules of the configuration, refusals, and what libraries promise.

use super::worlds::{CHUNK, Layout, Random, lacks, world};
use crate::call::{Collective, RedOp, Request};
use crate::capability::{Override, Wish};
use crate::plan::choose::{Choice, choose};
use crate::plan::{Algorithm, Rule, World, offers};
use infiniccl_plugin_api as abi;
use infiniccl_reduce::{DataType, ReduceOp};

fn even(ranks: usize) -> World {
    world(Layout::Even.topology(ranks, &mut Random(0)), CHUNK)
}

fn request(collective: Collective, dtype: DataType, op: ReduceOp, bytes: u64) -> Request {
    Request {
        collective,
        dtype,
        op: RedOp::Fixed(op),
        count: bytes / dtype.size() as u64,
        root: 0,
    }
}

fn rule(collective: Option<&str>, algorithm: &str) -> Rule {
    Rule {
        collective: collective.map(String::from),
        min_bytes: 0,
        max_bytes: u64::MAX,
        min_ranks: 0,
        max_ranks: u64::MAX,
        algorithm: algorithm.into(),
    }
}

fn why(choice: &Choice, algorithm: Algorithm) -> &str {
    let candidate = choice
        .candidates
        .iter()
        .find(|c| c.algorithm == algorithm)
        .unwrap();
    candidate.cost.as_ref().unwrap_err()
}

#[test]
fn the_first_rule_that_can_be_taken_decides() {
    let mut world = even(8);
    let asked = request(Collective::AllReduce, DataType::Float32, ReduceOp::Sum, 1 << 20);
    let by_model = choose(&world, &asked, None).unwrap();
    assert_eq!(by_model.decided_by, "model");
    world.settings.rules = vec![
        rule(Some("broadcast"), "chain"),
        // There is no such way for these ranks.
        rule(None, "vendor"),
        Rule {
            max_bytes: 1 << 10,
            ..rule(Some("all_reduce"), "direct")
        },
        Rule {
            min_ranks: 9,
            ..rule(Some("all_reduce"), "direct")
        },
        rule(Some("all_reduce"), "rabenseifner"),
        rule(None, "ring"),
    ];
    let taken = |collective, bytes| {
        let asked = request(collective, DataType::Float32, ReduceOp::Sum, bytes);
        let choice = choose(&world, &asked, None).unwrap();
        (choice.algorithm.name(), choice.decided_by)
    };
    assert_eq!(taken(Collective::AllReduce, 1 << 20), ("rabenseifner", "rule"));
    assert_eq!(taken(Collective::AllReduce, 1 << 10), ("direct", "rule"));
    assert_eq!(taken(Collective::Broadcast, 1 << 10), ("chain", "rule"));
    assert_eq!(taken(Collective::AllGather, 1 << 10), ("ring", "rule"));
    // No rule names a way that this one has.
    assert_eq!(taken(Collective::Gather, 1 << 10).1, "model");
}

#[test]
fn a_rule_on_an_impossible_way_falls_through_to_the_model() {
    for (layout, algorithm) in [
        (Layout::Even, "vendor"),
        (Layout::One, "hierarchical"),
        (Layout::Apart, "hierarchical"),
        (Layout::Vendors, "recursive_doubling"),
        (Layout::Even, "pairwise"),
    ] {
        let mut world = world(layout.topology(9, &mut Random(1)), CHUNK);
        let asked = request(Collective::AllReduce, DataType::Float32, ReduceOp::Sum, 1 << 12);
        let before = choose(&world, &asked, None).unwrap();
        world.settings.rules = vec![rule(None, algorithm)];
        assert_eq!(
            choose(&world, &asked, None).unwrap(),
            before,
            "{algorithm} on {layout:?}"
        );
    }
}

#[test]
fn rules_on_hierarchical_take_the_cheaper_number_of_flows() {
    let mut world = even(16);
    world.settings.rules = vec![rule(None, "hierarchical")];
    let flows = |bytes| {
        let asked = request(Collective::AllReduce, DataType::Float32, ReduceOp::Sum, bytes);
        choose(&world, &asked, None).unwrap().algorithm
    };
    assert_eq!(flows(8), Algorithm::Hierarchical { flows: 1 });
    assert_eq!(flows(1 << 24), Algorithm::Hierarchical { flows: 8 });
}

#[test]
fn names_that_rules_may_use_are_those_of_the_candidates() {
    for collective in Collective::ALL.iter().filter(|c| !c.is_message()) {
        let asked = request(*collective, DataType::Float32, ReduceOp::Sum, 64);
        let choice = choose(&even(8), &asked, None).unwrap();
        for candidate in &choice.candidates {
            let name = candidate.algorithm.name();
            assert!(offers(collective.name(), name), "{collective} {name}");
        }
    }
    assert!(!offers("all_reduce", "pairwise") && !offers("all_to_all", "hierarchical"));
    assert!(!offers("send", "vendor") && !offers("nothing", "ring"));
}

#[test]
fn reasons_name_what_is_missing_and_where() {
    let hierarchical = Algorithm::Hierarchical { flows: 1 };
    let asked = request(Collective::AllReduce, DataType::Float32, ReduceOp::Sum, 64);
    let mut poor = even(8);
    lacks(&mut poor, 1, abi::Collective::REDUCE, None);
    assert_eq!(
        why(&choose(&poor, &asked, None).unwrap(), hierarchical),
        "island 1 has no reduce float32 sum of its own: a does not declare it"
    );
    // Small calls alone are not enough.
    let mut small = even(8);
    small.capabilities[0]
        .rows
        .iter_mut()
        .for_each(|row| row.max_bytes = 100);
    let longer = request(Collective::AllReduce, DataType::Float32, ReduceOp::Sum, 1 << 12);
    assert!(why(&choose(&small, &longer, None).unwrap(), hierarchical).starts_with("island 0 has no reduce"));
    assert!(choose(&small, &asked, None).unwrap().algorithm == hierarchical);
    let mean = request(Collective::AllReduce, DataType::Float8E4M3, ReduceOp::Avg, 64);
    assert_eq!(
        why(&choose(&even(8), &mean, None).unwrap(), hierarchical),
        "float8_e4m3 cannot express the factor of an avg over 8 ranks"
    );
}

#[test]
fn a_case_that_one_island_refuses_is_refused_by_all() {
    let mut world = even(4);
    world.capabilities[1].overrides = vec![Override {
        plugin: None,
        collective: Some("all_reduce".into()),
        dtype: Some("float16".into()),
        op: None,
        wish: Wish::Refuse,
    }];
    let asked = |dtype| request(Collective::AllReduce, dtype, ReduceOp::Sum, 64);
    assert!(
        choose(&world, &asked(DataType::Float16), None)
            .unwrap_err()
            .contains("override")
    );
    assert!(choose(&world, &asked(DataType::Float32), None).is_ok());
    let mean = request(Collective::Reduce, DataType::Bool, ReduceOp::Avg, 64);
    assert!(choose(&world, &mean, None).is_err());
}
