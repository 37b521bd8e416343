//! A table of environments: each launcher alone, nested, incomplete, and in contradiction.

use super::*;

/// The launch in an environment written as `NAME=value …`.
fn launch(variables: &str) -> Result<Option<Launch>> {
    let all: Vec<(&str, &str)> = variables
        .split_whitespace()
        .map(|pair| pair.split_once('=').unwrap())
        .collect();
    detect(&|name| {
        all.iter()
            .find(|(n, _)| *n == name)
            .map(|(_, value)| (*value).to_owned())
    })
}

fn summary(variables: &str) -> (Launcher, u32, u32, Option<u32>, Option<u32>, Option<u32>) {
    let l = launch(variables).unwrap().unwrap();
    (
        l.launcher,
        l.rank,
        l.size,
        l.local_rank,
        l.local_size,
        l.node_hint,
    )
}

#[test]
fn each_launcher_is_recognised() {
    assert_eq!(launch("HOME=/root PATH=/bin").unwrap(), None);
    assert_eq!(
        summary(
            "RANK=3 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 GROUP_RANK=1 MASTER_ADDR=h MASTER_PORT=29500"
        ),
        (Launcher::Torchrun, 3, 8, Some(1), Some(2), Some(1))
    );
    assert_eq!(
        summary(
            "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2"
        ),
        (Launcher::OpenMpi, 1, 2, Some(1), Some(2), None)
    );
    assert_eq!(
        summary("PMI_RANK=1 PMI_SIZE=3 PMI_FD=6 MPI_LOCALRANKID=0 MPI_LOCALNRANKS=1"),
        (Launcher::Mpich, 1, 3, Some(0), Some(1), None)
    );
    assert_eq!(
        summary(
            "SLURM_PROCID=5 SLURM_NTASKS=7 SLURM_LOCALID=1 SLURM_NODEID=1 SLURM_STEP_ID=0 SLURM_TASKS_PER_NODE=4,3"
        ),
        (Launcher::Slurm, 5, 7, Some(1), Some(3), Some(1))
    );
    assert_eq!(
        summary("SLURM_PROCID=1 SLURM_NTASKS=8 SLURM_STEP_NUM_TASKS=2").2,
        2,
        "the step's size counts"
    );
    assert_eq!(summary("RANK=0 WORLD_SIZE=1").2, 1);
}

#[test]
fn the_job_of_a_launcher_tells_restarts_apart() {
    let job = |restart: u32| {
        let env =
            format!("RANK=0 WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=1 TORCHELASTIC_RESTART_COUNT={restart}");
        launch(&env).unwrap().unwrap().job
    };
    assert_ne!(job(0), job(1));
    assert!(job(0).contains("MASTER_PORT=1"));
}

#[test]
fn a_size_without_a_rank_is_never_rank_0_of_1() {
    for (env, missing) in [
        ("WORLD_SIZE=4", "RANK is not set"),
        ("OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_RANK"),
        ("PMI_SIZE=4", "PMI_RANK"),
        ("SLURM_NTASKS=4", "SLURM_PROCID"),
        ("PMI_PORT=node:4 PMI_ID=0", "PMI_RANK"),
        ("SLURM_STEP_NUM_TASKS=4 SLURM_NTASKS=1", "SLURM_PROCID"),
    ] {
        let error = launch(env).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidUsage, "{env}");
        assert!(error.message().contains(missing), "{env}: {error}");
    }
    for harmless in ["WORLD_SIZE=1", "SLURM_NTASKS=1", "RANK=0", "SLURM_JOB_ID=9"] {
        assert_eq!(launch(harmless).unwrap(), None, "{harmless}");
    }
}

#[test]
fn values_that_make_no_sense_are_named() {
    for (env, part) in [
        ("RANK=x WORLD_SIZE=2", "RANK=`x`"),
        ("RANK=0 WORLD_SIZE=-2", "WORLD_SIZE=`-2`"),
        ("RANK=2 WORLD_SIZE=2", "RANK=2 and WORLD_SIZE=2"),
        ("PMI_RANK=0 PMI_SIZE=0", "PMI_SIZE=0"),
        ("RANK=0 WORLD_SIZE=99999999999", "WORLD_SIZE=`99999999999`"),
    ] {
        let error = launch(env).unwrap_err();
        assert!(error.message().contains(part), "{env}: {error}");
    }
}

const OMPI_2_OF_4: &str = "OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4";

#[test]
fn contradictions_name_both_launchers() {
    for (env, one, other) in [
        (
            format!("RANK=1 WORLD_SIZE=4 {OMPI_2_OF_4}"),
            "torchrun says rank 1 of 4",
            "Open MPI says rank 2 of 4",
        ),
        (
            format!("RANK=0 WORLD_SIZE=1 {OMPI_2_OF_4}"),
            "torchrun says rank 0 of 1",
            "Open MPI says rank 2 of 4",
        ),
        (
            format!("{OMPI_2_OF_4} PMI_RANK=2 PMI_SIZE=8"),
            "Open MPI says rank 2 of 4",
            "MPICH says rank 2 of 8",
        ),
        (
            "RANK=1 WORLD_SIZE=4 SLURM_PROCID=2 SLURM_NTASKS=4 SLURM_STEP_ID=0".into(),
            "torchrun says rank 1 of 4",
            "Slurm says rank 2 of 4",
        ),
        (
            format!("{OMPI_2_OF_4} SLURM_PROCID=3 SLURM_NTASKS=4 SLURM_STEP_ID=0"),
            "Open MPI says rank 2 of 4",
            "Slurm says rank 3 of 4",
        ),
        (
            "PMI_RANK=0 PMI_SIZE=1 SLURM_PROCID=3 SLURM_NTASKS=4 SLURM_STEP_ID=0".into(),
            "MPICH says rank 0 of 1",
            "Slurm says rank 3 of 4 (SLURM_PROCID=3 SLURM_NTASKS=4)",
        ),
    ] {
        let error = launch(&env).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidUsage);
        assert!(
            error.message().contains(one) && error.message().contains(other),
            "{env}: {error}"
        );
    }
}

#[test]
fn launchers_inside_one_another_are_no_contradiction() {
    for (env, expected) in [
        // srun starts one torchrun per node.
        (
            "RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4 GROUP_RANK=1 SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_STEP_ID=0",
            (Launcher::Torchrun, 5, 8),
        ),
        // The order in which the torchruns of the nodes meet need not be Slurm's.
        (
            "RANK=5 WORLD_SIZE=8 LOCAL_WORLD_SIZE=4 GROUP_RANK=1 SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_STEP_ID=0",
            (Launcher::Torchrun, 5, 8),
        ),
        // mpirun inside a batch job, whose script has SLURM_PROCID=0 and the allocation's size.
        (
            "OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4 SLURM_PROCID=0 SLURM_NTASKS=4",
            (Launcher::OpenMpi, 2, 4),
        ),
        (
            "OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4 SLURM_NTASKS=8",
            (Launcher::OpenMpi, 2, 4),
        ),
        ("RANK=1 WORLD_SIZE=2 SLURM_NTASKS=1", (Launcher::Torchrun, 1, 2)),
        // mpiexec started its daemons with srun.
        (
            "PMI_RANK=6 PMI_SIZE=8 SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_STEP_ID=4",
            (Launcher::Mpich, 6, 8),
        ),
        // srun --mpi=pmi2 sets both.
        (
            "PMI_RANK=1 PMI_SIZE=2 SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_STEP_ID=0",
            (Launcher::Mpich, 1, 2),
        ),
        // mpirun starts one torchrun per node.
        (
            "RANK=3 WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 GROUP_RANK=1 OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2",
            (Launcher::Torchrun, 3, 4),
        ),
    ] {
        let l = launch(env).unwrap_or_else(|e| panic!("{env}: {e}")).unwrap();
        assert_eq!((l.launcher, l.rank, l.size), expected, "{env}");
    }
}
