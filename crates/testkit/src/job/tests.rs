//! Jobs of shell scripts: prefixes, exit codes, limits, and that nothing survives.

use std::fs;
use std::path::Path;

use super::*;
use crate::cluster::Order;

fn start(ranks: usize, sink: &Capture, script: &str) -> Job {
    let layout = Layout::one_node(ranks).unwrap();
    Job::start(&Cluster::this_machine(), &layout, Box::new(sink.clone()), |_| {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    })
    .unwrap()
}

fn limits(grace_ms: u64) -> Limits {
    Limits {
        timeout: Some(Duration::from_secs(60)),
        grace: Duration::from_millis(grace_ms),
        ..Default::default()
    }
}

/// Whether a process exists and is no zombie.
fn lives(pid: &str) -> bool {
    fs::read_to_string(Path::new("/proc").join(pid).join("stat")).is_ok_and(|stat| {
        !stat
            .rsplit(')')
            .next()
            .unwrap_or("")
            .trim_start()
            .starts_with('Z')
    })
}

fn soon(what: &str, condition: impl Fn() -> bool) {
    let limit = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < limit, "not within 20 s: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn output_arrives_by_rank_and_stream_unharmed() {
    let sink = Capture::new();
    let job = start(
        3,
        &sink,
        r#"printf 'a%s\n\n' $RANK; printf 'x\377\001y' >&2; printf '\nlast'"#,
    );
    let outcome = job.wait(&limits(1000), None).unwrap();
    assert_eq!(outcome.code(), 0);
    for rank in 0..3 {
        assert_eq!(
            sink.lines(rank, Stream::Out),
            [format!("a{rank}"), String::new(), String::new(), "last".into()]
        );
        assert_eq!(sink.bytes(rank, Stream::Err), [b"x\xff\x01y"]);
    }
}

#[test]
fn much_output_of_all_ranks_is_complete() {
    let sink = Capture::new();
    let job = start(
        4,
        &sink,
        "i=0; while [ $i -lt 5000 ]; do echo $RANK-$i; i=$((i+1)); done",
    );
    assert!(job.wait(&limits(1000), None).unwrap().is_success());
    for rank in 0..4 {
        let want: Vec<_> = (0..5000).map(|i| format!("{rank}-{i}")).collect();
        assert_eq!(sink.lines(rank, Stream::Out), want);
    }
}

#[test]
fn the_first_failure_ends_the_others() {
    let sink = Capture::new();
    let began = Instant::now();
    let job = start(
        4,
        &sink,
        "[ $RANK = 2 ] && { sleep 0.3; exit 3; }; exec sleep 120",
    );
    let outcome = job.wait(&limits(5000), None).unwrap();
    assert!(began.elapsed() < Duration::from_secs(15));
    assert_eq!((outcome.cause, outcome.code()), (Cause::RankFailed(2), 3));
    assert_eq!(outcome.exits[0].unwrap().0, Exit::Signal(libc::SIGTERM));
    let notices = sink.notices();
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert!(
        notices[0].starts_with("rank 2 exited with 3 after 0."),
        "{notices:?}"
    );
}

#[test]
fn on_failure_wait_leaves_the_others_alone() {
    let sink = Capture::new();
    let job = start(3, &sink, "[ $RANK = 1 ] && kill -KILL $$; sleep 0.3; echo done");
    let outcome = job
        .wait(
            &Limits {
                on_failure: OnFailure::Wait,
                ..limits(1000)
            },
            None,
        )
        .unwrap();
    assert_eq!((outcome.cause, outcome.code()), (Cause::RankFailed(1), 137));
    assert_eq!(sink.lines(0, Stream::Out), ["done"]);
    assert!(sink.notices()[0].starts_with("rank 1 was killed by signal 9 (SIGKILL) after"));
}

#[test]
fn a_rank_that_ignores_sigterm_is_killed_after_the_grace_period() {
    let sink = Capture::new();
    let job = start(
        2,
        &sink,
        r#"[ $RANK = 0 ] && { sleep 0.3; exit 1; }; trap "" TERM; while :; do sleep 1; done"#,
    );
    let outcome = job.wait(&limits(300), None).unwrap();
    assert_eq!(outcome.exits[1].unwrap().0, Exit::Signal(libc::SIGKILL));
    assert_eq!(outcome.code(), 1);
    assert!(sink.notices()[1].starts_with("rank 1 did not end in time"));
}

#[test]
fn a_stopped_rank_is_ended_too() {
    let sink = Capture::new();
    let job = start(
        2,
        &sink,
        "[ $RANK = 0 ] && { sleep 0.3; exit 1; }; kill -STOP $$; sleep 120",
    );
    let outcome = job.wait(&limits(30_000), None).unwrap();
    assert_eq!(outcome.exits[1].unwrap().0, Exit::Signal(libc::SIGTERM));
}

#[test]
fn the_time_limit_ends_the_job() {
    let sink = Capture::new();
    let job = start(2, &sink, "[ $RANK = 0 ] || exec sleep 120");
    let limits = Limits {
        timeout: Some(Duration::from_millis(300)),
        ..limits(5000)
    };
    let outcome = job.wait(&limits, None).unwrap();
    assert_eq!((outcome.cause, outcome.code()), (Cause::TimedOut, 124));
    assert_eq!(
        sink.notices(),
        ["the job reached its limit of 0.3 s: ending rank 1"]
    );
}

#[test]
fn grandchildren_go_with_the_job() {
    let sink = Capture::new();
    let job = start(
        2,
        &sink,
        "sleep 120 & echo $!; [ $RANK = 1 ] && exit 0; sleep 0.2",
    );
    assert!(job.wait(&limits(1000), None).unwrap().is_success());
    for rank in 0..2 {
        let pid = &sink.lines(rank, Stream::Out)[0];
        soon("the grandchild is gone", || !lives(pid));
    }
}

#[test]
fn dropping_a_job_ends_it() {
    let sink = Capture::new();
    let job = start(2, &sink, "sleep 120 & echo $!; wait");
    soon("both ranks have written", || {
        (0..2).all(|r| !sink.lines(r, Stream::Out).is_empty())
    });
    let ranks: Vec<_> = (0..2).map(|r| job.pid(r).as_raw_nonzero().to_string()).collect();
    drop(job);
    for (rank, pid) in ranks.iter().enumerate() {
        soon("the rank is gone", || !lives(pid));
        soon("the grandchild is gone", || {
            !lives(&sink.lines(rank, Stream::Out)[0])
        });
    }
}

#[test]
fn a_program_that_is_not_there_is_an_error_and_leaves_nothing() {
    let layout = Layout::one_node(2).unwrap();
    let sink = Capture::new();
    let error = Job::start(
        &Cluster::this_machine(),
        &layout,
        Box::new(sink.clone()),
        |rank| {
            if rank == 0 {
                let mut command = Command::new("/bin/sh");
                command.args(["-c", "sleep 120"]);
                command
            } else {
                Command::new("/nowhere/program")
            }
        },
    )
    .unwrap_err();
    assert_eq!(error.io_kind(), Some(std::io::ErrorKind::NotFound));
    assert!(
        error.to_string().contains("cannot start '/nowhere/program'"),
        "{error}"
    );
}

#[test]
fn ranks_see_their_variables_and_not_those_of_another_launcher() {
    let layout = Layout::parse("2+1", Order::Interleaved).unwrap();
    let spec = crate::cluster::ClusterSpec {
        nodes: 2,
        namespaces: crate::cluster::Namespaces::Never,
        ..Default::default()
    };
    let cluster = Cluster::build(&spec).unwrap();
    let sink = Capture::new();
    let job = Job::start(&cluster, &layout, Box::new(sink.clone()), |_| {
        let mut command = Command::new("/bin/sh");
        command.env("OMPI_COMM_WORLD_RANK", "7");
        command.args(["-c", "echo $WORLD_SIZE $GROUP_RANK $LOCAL_RANK $INFINICCL_NODE ${OMPI_COMM_WORLD_RANK-none} ${#INFINICCL_SECRET}"]);
        command
    })
    .unwrap();
    assert!(job.wait(&limits(1000), None).unwrap().is_success());
    let names: Vec<_> = cluster.nodes().iter().map(|n| n.name.clone()).collect();
    for (rank, (node, local)) in [(0, 0), (1, 0), (0, 1)].into_iter().enumerate() {
        assert_eq!(
            sink.lines(rank, Stream::Out),
            [format!("3 {node} {local} {} none 64", names[node])]
        );
    }
}

#[test]
fn many_jobs_at_once_have_roots_of_their_own() {
    let jobs: Vec<_> = (0..10)
        .map(|_| {
            let sink = Capture::new();
            (
                start(2, &sink, "echo $INFINICCL_ROOT; echo $MASTER_ADDR:$MASTER_PORT"),
                sink,
            )
        })
        .collect();
    let mut addresses = std::collections::HashSet::new();
    for (job, sink) in jobs {
        assert!(job.wait(&limits(1000), None).unwrap().is_success());
        assert_eq!(sink.lines(0, Stream::Out), sink.lines(1, Stream::Out));
        addresses.extend(sink.lines(0, Stream::Out));
    }
    assert_eq!(addresses.len(), 20);
}
