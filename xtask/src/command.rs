//! Runs programs in view, each with an outer limit.

use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

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
///
/// It stays in the process group of this program, so that whoever interrupts the one interrupts the other.
pub(crate) fn status(mut command: Command, limit: Duration) -> Result<ExitStatus, String> {
    let line = show(&command);
    println!("$ {line}");
    let failed = |e| format!("cannot wait for '{line}': {e}");
    let mut child = command
        .spawn()
        .map_err(|e| format!("cannot start '{line}': {e}"))?;
    if let Some(status) = wait(&mut child, limit).map_err(failed)? {
        return Ok(status);
    }
    // Test runners and launchers take what they started along when they are asked to end.
    let _ = kill_process(Pid::from_child(&child), Signal::TERM);
    if wait(&mut child, GRACE).map_err(failed)?.is_none() {
        let _ = child.kill();
        let _ = child.wait();
    }
    Err(format!("still running after {} s: {line}", limit.as_secs()))
}

/// Between the polite signal and the other one.
const GRACE: Duration = Duration::from_secs(10);

/// The status of `child` if it ends within `limit`.
fn wait(child: &mut Child, limit: Duration) -> std::io::Result<Option<ExitStatus>> {
    let end = Instant::now() + limit;
    loop {
        let status = child.try_wait()?;
        if status.is_some() || Instant::now() >= end {
            return Ok(status);
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
