//! Ranks that say nothing: stopped, absent from a call, or late for it.

use infiniccl_testkit::job::Exit;
use infiniccl_tests::{Ranks, cluster, now_ms};
use rustix::process::Signal;

use crate::RANK;
use crate::survivors::{Expected, got};

fn stopped(nodes: &str) {
    let (cluster, layout) = cluster(nodes);
    let arguments = ["--set", "timeouts.heartbeat=2", "loop", "bytes=4194304"];
    let ranks = Ranks::start(&cluster, &layout, RANK, &arguments);
    ranks.event_that(2, "call", |call| call.number("n") == 1);
    let since = now_ms();
    ranks.signal(2, Signal::STOP);
    for rank in [0, 1, 3] {
        ranks.event(rank, "aftermath");
    }
    // It goes on, finds itself given up, and must neither hang nor take its result for right.
    ranks.signal(2, Signal::CONT);
    let ended = ranks.wait();
    let expected = Expected {
        culprit: 2,
        kinds: &["Remote", "Timeout"],
        collective: Some("all_reduce count=524288 uint64 sum"),
        says: &["silent for 2"],
        since,
        within_ms: 4000,
    };
    got(&ended, [0, 1, 3], &expected);
    assert!(
        !ended.events(2, "error").is_empty() && !ended.exit(2).is_success(),
        "{}",
        ended.report()
    );
}

#[test]
fn a_stopped_rank_is_lost_after_the_heartbeat_limit() {
    stopped("4");
}

#[test]
fn a_stopped_rank_on_another_node_is_lost_after_the_heartbeat_limit() {
    stopped("2+2");
}

#[test]
fn a_rank_that_never_calls_is_named_when_the_time_of_the_collective_is_over() {
    for nodes in ["4", "2+2"] {
        let (cluster, layout) = cluster(nodes);
        let arguments = ["--set", "timeouts.collective=3", "late", "rank=2", "seconds=5.5"];
        let ranks = Ranks::start(&cluster, &layout, RANK, &arguments);
        let since = ranks.event(0, "call").number("at");
        let ended = ranks.wait();
        for rank in [0, 1, 3] {
            let error = &ended.events(rank, "error")[0];
            let text = error.text("text");
            assert_eq!(error.text("kind"), "Timeout", "{text}");
            for part in [
                "all_reduce count=1000 uint64 sum",
                "within 3.0 s",
                "rank 2 has not entered call 0",
                "rank 2 on ",
                "is outside the library",
            ] {
                assert!(text.contains(part), "`{part}` is not in: {text}");
            }
            let took = error.number("at") - since;
            assert!((2500..7000).contains(&took), "it took {took} ms: {text}");
        }
        // The late one learns of it too, and does not wait for anybody.
        let late = &ended.events(2, "error")[0];
        assert_eq!(late.text("kind"), "Timeout", "{}", ended.report());
        assert_eq!(ended.exit(2), Exit::Code(9));
    }
}

#[test]
fn a_late_rank_is_waited_for() {
    // Busy outside the library for longer than the heartbeat allows to be silent: it is alive all the same.
    let (cluster, layout) = cluster("2+2");
    let arguments = ["--set", "timeouts.heartbeat=1", "late", "rank=2", "seconds=2.2"];
    Ranks::start(&cluster, &layout, RANK, &arguments)
        .wait()
        .all_succeeded();
}
