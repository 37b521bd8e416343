//! torchrun's variables as torchrun sets them: no secret, and its own store listens on MASTER_PORT.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use infiniccl_tests::{by_hand, run_all};
use tempfile::TempDir;

use crate::{LIMIT, RANK};

const RANKS: usize = 4;

/// The agent of one job on one host.
struct Agent {
    store: TcpListener,
    folder: TempDir,
}

impl Agent {
    fn new() -> Self {
        let mode = std::fs::Permissions::from_mode(0o700);
        Agent {
            store: TcpListener::bind("127.0.0.1:0").expect("a port for the store"),
            folder: tempfile::Builder::new()
                .permissions(mode)
                .tempdir()
                .expect("a runtime folder"),
        }
    }

    /// The ranks of the job's `restart`-th start.
    fn ranks(&self, restart: usize) -> impl Iterator<Item = Command> + '_ {
        let port = self
            .store
            .local_addr()
            .expect("the store listens")
            .port()
            .to_string();
        (0..RANKS).map(move |rank| {
            let mut command = by_hand(RANK);
            let number = |n: usize| n.to_string();
            command
                .arg("sum")
                .env("XDG_RUNTIME_DIR", self.folder.path())
                .envs([
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
                    ("MASTER_PORT", port.clone()),
                    ("TORCHELASTIC_RUN_ID", "none".into()),
                    ("TORCHELASTIC_RESTART_COUNT", number(restart)),
                    ("TORCHELASTIC_MAX_RESTARTS", number(3)),
                    ("TORCHELASTIC_USE_AGENT_STORE", "True".into()),
                ]);
            command
        })
    }
}

fn summed(commands: impl Iterator<Item = Command>) {
    for written in run_all(commands, LIMIT) {
        assert!(written.status.success(), "{written:#?}");
        assert_eq!(written.event("joined").number("size"), RANKS as u64);
        written.event("done");
    }
}

#[test]
fn ranks_of_one_host_meet_although_the_master_port_is_taken() {
    let agent = Agent::new();
    summed(agent.ranks(0));
    // The same job once more, as after a failure.
    summed(agent.ranks(1));
}

#[test]
fn two_jobs_of_one_user_do_not_meet() {
    let (one, other) = (Agent::new(), Agent::new());
    // One runtime folder, as two jobs of one user on one host have it.
    let here = one.folder.path().to_path_buf();
    let others = other.ranks(0).map(|mut command| {
        command.env("XDG_RUNTIME_DIR", &here);
        command
    });
    summed(one.ranks(0).chain(others));
}

#[test]
fn nothing_is_left_in_the_runtime_folder() {
    let agent = Agent::new();
    summed(agent.ranks(0));
    let left: Vec<_> = std::fs::read_dir(agent.folder.path().join("infiniccl"))
        .expect("the ranks made it")
        .map(|entry| entry.expect("it can be read").file_name())
        .collect();
    assert!(left.is_empty(), "{left:?}");
}
