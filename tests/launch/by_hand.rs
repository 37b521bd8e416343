//! Variables of launchers set by hand, wrongly: an error that says what to do, never rank 0 of 1.

use std::process::Command;

use infiniccl_tests::{Written, by_hand, run_one};

use crate::{LIMIT, RANK, infiniccl};

fn with(command: &mut Command, variables: &str) {
    let pairs = variables.split_whitespace();
    command.envs(pairs.map(|pair| pair.split_once('=').expect("NAME=value")));
}

fn rank(variables: &str) -> Written {
    let mut command = by_hand(RANK);
    with(&mut command, variables);
    command.args(["--set", "timeouts.connect=5", "sum"]);
    run_one(command, LIMIT)
}

#[track_caller]
fn refused(written: &Written, parts: &[&str]) {
    let error = written.event("error");
    assert_eq!(
        (error.text("phase"), error.text("kind")),
        ("joining", "InvalidUsage"),
        "{written:#?}"
    );
    for part in parts {
        let text = error.text("text");
        assert!(text.contains(part), "`{part}` is not in: {text}");
    }
    assert_eq!(written.status.code(), Some(5));
    assert!(written.events("joined").is_empty());
}

#[test]
fn a_size_without_a_rank_is_an_error() {
    for (variables, missing) in [
        ("OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_RANK"),
        ("PMI_SIZE=4", "PMI_RANK"),
        ("SLURM_NTASKS=4", "SLURM_PROCID"),
        ("WORLD_SIZE=4", "RANK"),
    ] {
        let size = variables.split('=').next().expect("a name");
        refused(&rank(variables), &[size, missing, "4"]);
    }
}

#[test]
fn ranks_that_nobody_says_where_to_meet_name_what_to_set() {
    for variables in [
        "OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=0",
        "PMI_SIZE=4 PMI_RANK=0",
        "SLURM_NTASKS=4 SLURM_PROCID=0 SLURM_STEP_ID=0",
        "WORLD_SIZE=4 RANK=0",
    ] {
        let parts = [
            "rank 0 of 4",
            "INFINICCL_ROOT",
            "INFINICCL_SECRET",
            "infiniccl run",
        ];
        refused(&rank(variables), &parts);
    }
    refused(
        &rank("WORLD_SIZE=4 RANK=0 INFINICCL_ROOT=127.0.0.1:4000"),
        &["INFINICCL_SECRET", "INFINICCL_SECRET_FILE", "auth"],
    );
}

#[test]
fn two_launchers_that_differ_are_both_named() {
    let variables = "RANK=1 WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4";
    refused(
        &rank(variables),
        &["torchrun says rank 1 of 4", "Open MPI says rank 2 of 4", "env -u"],
    );
    let variables = "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 PMI_RANK=0 PMI_SIZE=4";
    refused(
        &rank(variables),
        &["Open MPI says rank 0 of 1", "MPICH says rank 0 of 4"],
    );
}

#[test]
fn the_bench_does_not_measure_four_jobs_of_one_rank() {
    for variables in [
        "OMPI_COMM_WORLD_SIZE=4",
        "PMI_SIZE=4",
        "OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=1",
        "SLURM_NTASKS=4 SLURM_PROCID=1 SLURM_STEP_ID=0",
    ] {
        let mut command = by_hand(infiniccl());
        with(&mut command, variables);
        command.args(["bench", "all_reduce", "-b", "8", "-e", "8", "-n", "1", "-w", "0"]);
        let written = run_one(command, LIMIT);
        assert!(!written.status.success(), "{variables}: {written:#?}");
        let name = variables.split('=').next().expect("a name");
        let launcher = match name {
            "OMPI_COMM_WORLD_SIZE" => "Open MPI",
            "PMI_SIZE" => "MPICH",
            _ => "Slurm",
        };
        assert!(written.err.contains(launcher), "{variables}: {written:#?}");
    }
}

#[test]
fn one_rank_without_a_launcher_works() {
    let written = rank("HOME=/root");
    assert!(written.status.success(), "{written:#?}");
    assert_eq!(written.event("joined").number("size"), 1);
}

#[test]
fn a_rank_with_another_value_of_a_key_that_must_match_is_named_with_the_key() {
    let (cluster, layout) = infiniccl_tests::cluster("2+1");
    let ended = infiniccl_tests::Ranks::start_each(&cluster, &layout, |rank| {
        let mut command = Command::new(RANK);
        if rank == 1 {
            command.args(["--set", "numerics=vendor"]);
        }
        command.arg("sum");
        command
    })
    .wait();
    for rank in 0..3 {
        let error = ended.event(rank, "error");
        assert_eq!(error.text("kind"), "InvalidUsage", "{error:?}");
        for part in ["numerics", "rank 1 on ", "vendor", "rank 0 on ", "strict"] {
            let text = error.text("text");
            assert!(text.contains(part), "`{part}` is not in: {text}");
        }
    }
}
