//! A rank that is killed while all are in a collective of 64 MiB, or while the others say goodbye.

use infiniccl_testkit::job::Exit;
use infiniccl_tests::{Ranks, Traces, cluster, now_ms};
use rustix::process::Signal;

use crate::RANK;
use crate::survivors::{Expected, got};

const VICTIM: usize = 2;

/// Processes that end tell at once; this is for the sake of a clear failure.
const AT_ONCE_MS: u64 = 2000;

fn in_mid_collective(nodes: &str) {
    let (cluster, layout) = cluster(nodes);
    let ranks = Ranks::start(&cluster, &layout, RANK, &["loop", "bytes=67108864"]);
    for rank in 0..ranks.size() {
        // The second sum has begun, and without `until` a rank does nothing but sums.
        ranks.event_that(rank, "call", |call| call.number("n") == 1);
    }
    let traces = Traces::of(&ranks);
    let since = now_ms();
    ranks.signal(VICTIM, Signal::KILL);
    let ended = ranks.wait();
    assert_eq!(ended.exit(VICTIM), Exit::Signal(9));
    let expected = Expected {
        culprit: VICTIM,
        kinds: &["Remote"],
        collective: Some("all_reduce count=8388608 uint64 sum"),
        says: &["its process has ended", "connection"],
        since,
        within_ms: AT_ONCE_MS,
    };
    got(&ended, [0, 1, 3], &expected);
    traces.are_gone(&cluster, &layout, &ended);
}

#[test]
fn a_rank_killed_in_mid_collective_on_one_node_is_named_by_all_others() {
    in_mid_collective("4");
}

#[test]
fn a_rank_killed_in_mid_collective_on_two_nodes_is_named_by_all_others() {
    in_mid_collective("2+2");
}

#[test]
fn a_rank_killed_while_the_others_say_goodbye_is_named() {
    let (cluster, layout) = cluster("2+1");
    let ranks = Ranks::start(&cluster, &layout, RANK, &["goodbye", "rank=2"]);
    ranks.event(0, "goodbye");
    ranks.event(1, "goodbye");
    ranks.event(2, "sleeps");
    let since = now_ms();
    ranks.signal(2, Signal::KILL);
    let ended = ranks.wait();
    for rank in [0, 1] {
        let error = ended.event(rank, "error");
        assert_eq!(
            (error.text("kind"), error.get("rank")),
            ("Remote", Some("2")),
            "{error:?}"
        );
        assert!(error.number("at") - since < 2 * AT_ONCE_MS, "{error:?}");
    }
}
