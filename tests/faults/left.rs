//! A rank that leaves between two calls, with its process or without.

use infiniccl_testkit::job::Exit;
use infiniccl_tests::{Ranks, cluster};

use crate::RANK;
use crate::survivors::{Expected, got};

fn leaves(nodes: &str, how: &str, exit: Exit, says: &[&str]) {
    let (cluster, layout) = cluster(nodes);
    let arguments = [
        "--set",
        "timeouts.collective=20",
        "leave",
        "rank=1",
        &format!("how={how}"),
    ];
    let ranks = Ranks::start(&cluster, &layout, RANK, &arguments);
    let since = ranks.event(1, "leaves").number("at");
    let ended = ranks.wait();
    assert_eq!(ended.exit(1), exit, "{}", ended.report());
    let expected = Expected {
        culprit: 1,
        kinds: &["Remote"],
        collective: None,
        says,
        since,
        within_ms: 2000,
    };
    got(&ended, [0, 2, 3], &expected);
}

#[test]
fn a_process_that_exits_between_calls_is_named_by_all_others() {
    for nodes in ["4", "1+3"] {
        leaves(
            nodes,
            "exit",
            Exit::Code(77),
            &["its process has ended", "connection"],
        );
    }
}

#[test]
fn a_rank_that_ends_its_communicator_early_is_named_by_those_that_still_call() {
    for nodes in ["4", "1+3"] {
        leaves(
            nodes,
            "drop",
            Exit::Code(0),
            &["ended its communicator after 1 calls"],
        );
    }
}
