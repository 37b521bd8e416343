//! `infiniccl run` with ranks that use the library.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use infiniccl_tests::{Event, by_hand, eventually, run_one};
use rustix::process::{Pid, Signal, kill_process};

use crate::{LIMIT, RANK, all_ranks_summed, infiniccl};

fn run(arguments: &[&str]) -> Command {
    let mut command = by_hand(infiniccl());
    command.arg("run").args(arguments);
    command
}

#[test]
fn ranks_meet_on_one_node_and_on_several() {
    for place in [&["-n", "4"][..], &["--nodes", "2+1+1", "--order", "interleaved"]] {
        let arguments = [place, &["--timeout", "40", "--", RANK, "sum"]].concat();
        let written = run_one(run(&arguments), LIMIT);
        all_ranks_summed(&written, 4);
        assert!(
            written.out.lines().all(|line| line.starts_with('[')),
            "{written:#?}"
        );
    }
}

#[test]
fn ranks_meet_on_loopback_addresses_as_several_nodes() {
    let arguments = ["--nodes", "2+2", "--namespaces", "never", "--timeout", "40"];
    let written = run_one(run(&[&arguments[..], &["--", RANK, "sum"]].concat()), LIMIT);
    all_ranks_summed(&written, 4);
}

/// What the job's owner sees when a rank dies and the library has to tell the others.
#[test]
fn on_failure_wait_shows_the_error_of_every_survivor() {
    let arguments = ["--nodes", "2+2", "--on-failure", "wait", "--timeout", "40"];
    let mut child = run(&[&arguments[..], &["--", RANK, "loop", "bytes=67108864"]].concat())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("infiniccl starts");
    let mut lines = BufReader::new(child.stdout.take().expect("stdout is piped")).lines();
    let mut victim = None;
    let mut said = Vec::new();
    for line in lines.by_ref().map_while(Result::ok) {
        let event = line.strip_prefix("[2] ").and_then(Event::parse);
        let is = |name: &str| event.as_ref().filter(|event| event.name() == name);
        if let Some(joined) = is("joined") {
            victim = i32::try_from(joined.number("pid")).ok().and_then(Pid::from_raw);
        }
        let in_a_call = is("call").is_some_and(|call| call.number("n") == 1);
        said.push(line);
        if in_a_call {
            break;
        }
    }
    let victim = victim.unwrap_or_else(|| panic!("rank 2 did not join: {said:#?}"));
    kill_process(victim, Signal::KILL).expect("rank 2 runs");
    said.extend(lines.map_while(Result::ok));
    let output = child.wait_with_output().expect("infiniccl can be waited for");
    assert_eq!(output.status.code(), Some(128 + 9), "{said:#?}");
    let notices = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        notices.contains("infiniccl: rank 2 was killed by signal 9 (SIGKILL)"),
        "{notices}"
    );
    for rank in [0, 1, 3] {
        let prefix = format!("[{rank}] ");
        let error = said
            .iter()
            .filter_map(|line| Event::parse(line.strip_prefix(&prefix)?))
            .find(|event| event.name() == "error")
            .unwrap_or_else(|| panic!("rank {rank} says no error: {said:#?}"));
        let text = error.text("text");
        for part in ["rank 2 on ", "all_reduce count=8388608 uint64 sum", "seq=1"] {
            assert!(text.contains(part), "`{part}` is not in: {text}");
        }
        assert!(
            notices.contains(&format!("rank {rank} exited with 6")),
            "{notices}"
        );
    }
}

#[test]
fn on_failure_kill_ends_ranks_that_wait_for_one_that_is_gone() {
    // Rank 1 is late for ever in a call that has no limit worth the name; rank 0 fails.
    let script =
        format!("[ $RANK = 0 ] && {{ sleep 1; exit 5; }}; exec {RANK} --set timeouts.connect=1000 sum");
    let begun = Instant::now();
    let written = run_one(
        run(&["-n", "3", "--timeout", "45", "--", "sh", "-c", &script]),
        LIMIT,
    );
    assert_eq!(written.status.code(), Some(5), "{written:#?}");
    assert!(begun.elapsed().as_secs() < 15, "it took {:?}", begun.elapsed());
    assert!(
        written.err.contains("infiniccl: rank 0 exited with 5"),
        "{written:#?}"
    );
}

#[test]
fn the_time_limit_ends_a_job_whose_rank_never_calls() {
    let begun = Instant::now();
    let written = run_one(
        run(&[
            "-n",
            "3",
            "--timeout",
            "3",
            "--",
            RANK,
            "late",
            "rank=1",
            "seconds=60",
        ]),
        LIMIT,
    );
    assert_eq!(written.status.code(), Some(124), "{written:#?}");
    assert!(begun.elapsed().as_secs() < 15, "it took {:?}", begun.elapsed());
    for joined in written.events("joined") {
        let path = format!("/proc/{}", joined.number("pid"));
        eventually("the end of the rank", || {
            (!Path::new(&path).exists()).then_some(())
        });
    }
}
