//! The launchers of real MPIs. They give no address and no secret: ranks meet through their stores.

use std::process::Command;

use infiniccl_tests::{by_hand, run_all, run_one};

use crate::{LIMIT, RANK, all_ranks_summed};

/// Four ranks under `launcher`; says so where it is not installed.
fn four_ranks(launcher: &str, arguments: &[&str]) -> Option<Command> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    if !std::env::split_paths(&folders).any(|folder| folder.join(launcher).is_file()) {
        println!("skipped: {launcher} is not installed (cargo xtask setup)");
        return None;
    }
    let mut command = by_hand(launcher);
    command
        .args(arguments)
        .args(["-np", "4"])
        // CI runs as root in a machine of its own.
        .envs([
            ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
            ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
        ]);
    Some(command)
}

fn open_mpi() -> Option<Command> {
    four_ranks("mpirun.openmpi", &["--oversubscribe"])
}

fn mpich() -> Option<Command> {
    four_ranks("mpiexec.mpich", &[])
}

#[test]
fn ranks_meet_under_mpirun_of_open_mpi() {
    let Some(mut command) = open_mpi() else { return };
    command.args([RANK, "sum"]);
    all_ranks_summed(&run_one(command, LIMIT), 4);
}

#[test]
fn ranks_meet_under_mpiexec_of_mpich() {
    let Some(mut command) = mpich() else { return };
    command.args([RANK, "sum"]);
    all_ranks_summed(&run_one(command, LIMIT), 4);
}

#[test]
fn two_jobs_of_each_launcher_at_once_do_not_mix() {
    let commands: Vec<Command> = [open_mpi(), mpich(), open_mpi(), mpich()]
        .into_iter()
        .flatten()
        .map(|mut command| {
            command.args([RANK, "sum"]);
            command
        })
        .collect();
    for written in run_all(commands, LIMIT) {
        all_ranks_summed(&written, 4);
    }
}

#[test]
fn a_job_started_inside_of_another_launchers_rank_is_a_job_of_its_own() {
    // A shell in one rank of an MPI job starts `infiniccl run`: the inner ranks belong to the inner job.
    let Some(mut command) = mpich() else { return };
    let infiniccl = crate::infiniccl();
    let script = format!(
        "[ $PMI_RANK = 0 ] && exec {} run -n 3 --timeout 30 -- {RANK} sum; exit 0",
        infiniccl.display()
    );
    command.args(["sh", "-c", &script]);
    all_ranks_summed(&run_one(command, LIMIT), 3);
}
