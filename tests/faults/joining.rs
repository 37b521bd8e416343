//! Ranks that do not come, or die on their way into the job.

use std::process::Command;

use infiniccl_testkit::job::Exit;
use infiniccl_tests::{Ended, Ranks, cluster, now_ms};
use rustix::process::Signal;

use crate::RANK;

/// Three of four ranks start; the process of rank `absent` is another program.
fn without(absent: usize, program: &[&str]) -> (Ended, u64) {
    let (cluster, layout) = cluster("2+2");
    let since = now_ms();
    let ranks = Ranks::start_each(&cluster, &layout, |rank| {
        let words = if rank == absent {
            program.to_vec()
        } else {
            vec![RANK, "--set", "timeouts.connect=3", "sum"]
        };
        let mut command = Command::new(words[0]);
        command.args(&words[1..]);
        command
    });
    (ranks.wait(), since)
}

fn in_time(ended: &Ended, rank: usize, since: u64) -> String {
    let error = ended.event(rank, "error");
    assert_eq!(error.text("phase"), "joining", "{error:?}");
    assert!(matches!(error.text("kind"), "Timeout" | "Remote"), "{error:?}");
    let took = error.number("at") - since;
    assert!(took < 3000 + 4000, "it took {took} ms: {error:?}");
    error.text("text").to_string()
}

#[test]
fn a_rank_that_never_comes_is_named_by_those_that_wait() {
    let (ended, since) = without(3, &["true"]);
    for rank in 0..3 {
        let text = in_time(&ended, rank, since);
        assert!(text.contains("3 of 4") && text.contains("missing"), "{text}");
    }
}

#[test]
fn a_root_that_never_comes_is_named_with_its_address() {
    let (ended, since) = without(0, &["true"]);
    for rank in 1..4 {
        let text = in_time(&ended, rank, since);
        assert!(
            text.contains("the root of the job") && text.contains(':'),
            "{text}"
        );
    }
}

#[test]
fn a_rank_killed_before_all_have_come_is_missed() {
    let (cluster, layout) = cluster("4");
    let ranks = Ranks::start_each(&cluster, &layout, |rank| {
        // Rank 3 holds all of them up, so that rank 2 is on its way when it is killed.
        let mut command = Command::new("sh");
        let wait = if rank == 3 { "sleep 1.5; " } else { "" };
        let script = format!("{wait}exec {RANK} --set timeouts.connect=4 sum");
        command.args(["-c", &script]);
        command
    });
    ranks.event(2, "start");
    std::thread::sleep(std::time::Duration::from_millis(300));
    ranks.signal(2, Signal::KILL);
    let ended = ranks.wait();
    assert_eq!(ended.exit(2), Exit::Signal(9));
    for rank in [0, 1] {
        let error = ended.event(rank, "error");
        assert!(matches!(error.text("kind"), "Timeout" | "Remote"), "{error:?}");
        let text = error.text("text");
        assert!(text.contains("rank 2") || text.contains("missing: 2"), "{text}");
    }
    // The one that comes last may find nobody any more.
    let error = ended.event(3, "error");
    assert!(matches!(error.text("kind"), "Timeout" | "Remote"), "{error:?}");
}
