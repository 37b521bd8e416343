//! Runs programs in view, each with an outer limit, and ends all that a program started when it is reached.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::repository::root;
use crate::steps::Outcome;

/// A program with its arguments, started in the root of the repository.
pub(crate) fn program(name: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) -> Command {
    let mut command = Command::new(name);
    command.args(arguments).current_dir(root());
    command
}

/// Cargo itself, in the version that runs this.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    program(
        std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()),
        arguments,
    )
}

/// Runs `command` to its end, at most for `limit`; anything but exit code 0 is a failure.
pub(crate) fn run(command: Command, limit: Duration) -> Outcome {
    match status(command, limit) {
        Ok(status) if status.success() => Outcome::Passed,
        Ok(status) => Outcome::Failed(status.to_string()),
        Err(why) => Outcome::Failed(why),
    }
}

/// Runs `command` to its end, at most for `limit`.
pub(crate) fn status(mut command: Command, limit: Duration) -> Result<ExitStatus, String> {
    let line = show(&command);
    println!("$ {line}");
    let mut child = command
        .process_group(0)
        .spawn()
        .map_err(|e| format!("cannot start '{line}': {e}"))?;
    let end = Instant::now() + limit;
    loop {
        if let Some(status) = child
            .try_wait()
            .map_err(|e| format!("cannot wait for '{line}': {e}"))?
        {
            return Ok(status);
        }
        if Instant::now() >= end {
            // The process has not been reaped, so its number is still its group's. A polite signal first: the
            // launcher takes its ranks along.
            let group = Pid::from_child(&child);
            let _ = kill_process_group(group, Signal::TERM);
            std::thread::sleep(Duration::from_secs(8));
            let _ = kill_process_group(group, Signal::KILL);
            let _ = child.wait();
            return Err(format!("still running after {} s: {line}", limit.as_secs()));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The command as a person would type it.
fn show(command: &Command) -> String {
    let variables = command.get_envs().filter_map(|(key, value)| {
        // The key of a job is for its ranks alone.
        let shown = if key == "INFINICCL_SECRET" {
            "…".into()
        } else {
            value?.to_string_lossy()
        };
        Some(format!("{}={shown}", key.to_string_lossy()))
    });
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    variables
        .chain(words.map(|w| w.to_string_lossy().into_owned()))
        .collect::<Vec<_>>()
        .join(" ")
}
