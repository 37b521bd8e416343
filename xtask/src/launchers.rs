//! The example under launchers that are not ours: Open MPI's, MPICH's, and torchrun's variables as it sets them.

use std::net::TcpListener;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use crate::command::{program, run};
use crate::example::app;
use crate::repository::has_program;
use crate::steps::{Outcome, Step};

const RANKS: usize = 4;
const LIMIT: Duration = Duration::from_secs(90);

/// One check for each launcher.
pub(crate) fn steps() -> Vec<Step> {
    vec![
        Step::new("launcher Open MPI", || {
            let mut command = program("mpirun.openmpi", &["--oversubscribe", "-np", &RANKS.to_string()]);
            // CI runs as root in a machine of its own.
            command.envs([
                ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
                ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
            ]);
            under("mpirun.openmpi", command)
        }),
        Step::new("launcher MPICH", || {
            under(
                "mpiexec.mpich",
                program("mpiexec.mpich", &["-np", &RANKS.to_string()]),
            )
        }),
        Step::new("launcher torchrun, imitated", || {
            imitate_torchrun().unwrap_or_else(Outcome::Failed)
        }),
    ]
}

fn under(launcher: &str, mut command: Command) -> Outcome {
    if !has_program(launcher) {
        return Outcome::Skipped(format!("{launcher} is not installed: cargo xtask setup"));
    }
    if !app().is_file() {
        return Outcome::Failed("the example is not built".into());
    }
    command.arg(app());
    run(command, LIMIT)
}

/// As torchrun does it on one host: its own store listens on MASTER_PORT, and there is no key.
fn imitate_torchrun() -> Result<Outcome, String> {
    if !app().is_file() {
        return Err("the example is not built".into());
    }
    let store = TcpListener::bind("127.0.0.1:0").map_err(|e| e.to_string())?;
    let port = store.local_addr().map_err(|e| e.to_string())?.port();
    println!(
        "$ {RANKS} times {} with torchrun's variables; MASTER_PORT {port} is taken",
        app().display()
    );
    let start = |rank: usize| {
        let mut command = program(app(), &[]);
        let number = |n: usize| n.to_string();
        command.envs([
            ("RANK", number(rank)),
            ("WORLD_SIZE", number(RANKS)),
            ("LOCAL_RANK", number(rank)),
            ("LOCAL_WORLD_SIZE", number(RANKS)),
            ("GROUP_RANK", number(0)),
            ("GROUP_WORLD_SIZE", number(1)),
            ("ROLE_RANK", number(rank)),
            ("ROLE_WORLD_SIZE", number(RANKS)),
            ("ROLE_NAME", "default".into()),
            ("MASTER_ADDR", "127.0.0.1".into()),
            ("MASTER_PORT", port.to_string()),
            ("TORCHELASTIC_RUN_ID", format!("imitated-{port}")),
            ("TORCHELASTIC_RESTART_COUNT", number(0)),
            ("TORCHELASTIC_MAX_RESTARTS", number(0)),
            ("TORCHELASTIC_USE_AGENT_STORE", "True".into()),
        ]);
        command.spawn().map_err(|e| format!("rank {rank}: {e}"))
    };
    let mut children: Vec<Child> = Vec::new();
    let mut outcome = Outcome::Passed;
    for rank in 0..RANKS {
        match start(rank) {
            Ok(child) => children.push(child),
            Err(why) => outcome = Outcome::Failed(why),
        }
    }
    let end = Instant::now() + LIMIT;
    for (rank, child) in children.iter_mut().enumerate() {
        loop {
            match child.try_wait() {
                Ok(Some(status)) if status.success() => break,
                Ok(None) if Instant::now() < end && matches!(outcome, Outcome::Passed) => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                other => {
                    let why = match other {
                        Ok(Some(status)) => format!("rank {rank}: {status}"),
                        Ok(None) => format!("rank {rank} was still running"),
                        Err(e) => format!("rank {rank}: {e}"),
                    };
                    let _ = child.kill();
                    let _ = child.wait();
                    if matches!(outcome, Outcome::Passed) {
                        outcome = Outcome::Failed(why);
                    }
                    break;
                }
            }
        }
    }
    Ok(outcome)
}
