//! Many jobs at once on one machine, and jobs that are given the same address.

use std::process::Command;
use std::time::Duration;

use infiniccl_testkit::cluster::{Cluster, Layout};
use infiniccl_tests::{Ranks, by_hand, run_all};

use crate::{LIMIT, RANK, all_ranks_summed, infiniccl};

#[test]
fn two_jobs_of_the_command_at_once() {
    let job = || {
        let mut command = by_hand(infiniccl());
        command.args(["run", "-n", "3", "--timeout", "40", "--", RANK, "sum"]);
        command
    };
    for written in run_all([job(), job()], LIMIT) {
        all_ranks_summed(&written, 3);
    }
}

#[test]
fn twelve_jobs_of_two_ranks_started_together_do_not_mix() {
    let (cluster, layout) = (Cluster::this_machine(), Layout::one_node(2).expect("a layout"));
    let jobs: Vec<Ranks> = (0..12)
        .map(|_| Ranks::start(&cluster, &layout, RANK, &["sum"]))
        .collect();
    for job in jobs {
        job.wait().all_succeeded();
    }
}

#[test]
fn two_jobs_that_were_given_one_address_never_mix() {
    let cluster = Cluster::this_machine();
    let port = cluster.reserve_port(0).expect("a port");
    let root = port.address().to_string();
    let rank = |secret: &str, rank: usize| -> Command {
        let mut command = by_hand(RANK);
        command
            .args([
                "--set",
                "timeouts.connect=4",
                "loop",
                "bytes=800000",
                "until=/dev/null",
            ])
            .envs([("RANK", &*rank.to_string()), ("WORLD_SIZE", "2")])
            .envs([("INFINICCL_ROOT", &*root), ("INFINICCL_SECRET", secret)]);
        command
    };
    let jobs = [("one", 0), ("one", 1), ("two", 0), ("two", 1)];
    let written = run_all(
        jobs.map(|(secret, number)| rank(secret, number)),
        Duration::from_secs(30),
    );
    let works = |job: usize| written[2 * job..2 * job + 2].iter().all(|w| w.status.success());
    if works(0) && works(1) {
        // The address is free again once a job has formed, so the second one may have come just after the first.
        for (number, rank) in written.iter().enumerate() {
            let joined = rank.event("joined");
            let found = (joined.number("rank"), joined.number("size"));
            assert_eq!(found, (number as u64 % 2, 2), "{written:#?}");
            assert_eq!(rank.events("done").len(), 1, "{written:#?}");
        }
        return;
    }
    let (winner, loser) = if works(0) { (0, 1) } else { (1, 0) };
    assert!(works(winner), "{written:#?}");
    let root_of_loser = written[2 * loser].event("error");
    let text = root_of_loser.text("text");
    assert!(text.contains(&root) && text.contains("in use"), "{text}");
    // Its other rank met the root of the other job, and was not let in.
    let error = written[2 * loser + 1].event("error");
    assert_eq!(error.text("phase"), "joining", "{error:?}");
    assert!(error.text("text").contains(&root), "{error:?}");
}
