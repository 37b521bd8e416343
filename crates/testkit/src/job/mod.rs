//! A job: ranks as processes, their output, and one way to end all of them in every case.

mod exit;
mod output;
mod signals;
mod supervise;
mod warden;

use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::cluster::{Cluster, ClusterError, FOREIGN_VARIABLES, Layout, Rendezvous, Secret, rank_variables};

pub use exit::{Cause, Exit, Outcome};
pub use output::{Capture, PrefixedOutput, Sink, Stream};
pub use signals::Signals;

use output::Pump;
use warden::Warden;

/// What happens to the other ranks when one fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFailure {
    /// They are ended: SIGTERM to their process groups, SIGKILL after the grace period.
    #[default]
    Kill,
    /// They go on, and the library tells them.
    Wait,
}

/// When and how a job is ended from outside.
#[derive(Debug, Clone)]
pub struct Limits {
    /// The longest that the job may take; `None` for no limit.
    pub timeout: Option<Duration>,
    /// What a failed rank means for the others.
    pub on_failure: OnFailure,
    /// Between the polite signal and SIGKILL.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            timeout: None,
            on_failure: OnFailure::Kill,
            grace: Duration::from_secs(5),
        }
    }
}

/// A rank's process.
#[derive(Debug)]
struct RankProcess {
    pid: Pid,
    /// Readable once the process has ended.
    ended: OwnedFd,
    exit: Option<(Exit, Duration)>,
}

/// Ranks that run. Dropping it kills all that is left of them.
#[derive(Debug)]
pub struct Job {
    ranks: Vec<RankProcess>,
    started: Instant,
    pump: Pump,
    warden: Warden,
    // Held until the ranks are gone, so that nobody else gets the ports.
    _ports: [crate::cluster::ReservedPort; 2],
}

impl Job {
    /// Starts one process per rank of `layout` in `cluster`, with the variables of [`rank_variables`].
    ///
    /// `command` gives program, arguments and further variables of a rank. Standard input is empty, output goes
    /// to `sink`. Each rank leads a process group. If this process dies, also by SIGKILL, a small process of
    /// its own session kills the groups.
    pub fn start(
        cluster: &Cluster,
        layout: &Layout,
        sink: Box<dyn Sink>,
        mut command: impl FnMut(usize) -> Command,
    ) -> Result<Self, ClusterError> {
        let places = layout.places();
        let first = places
            .first()
            .ok_or_else(|| ClusterError::new("a job needs at least one rank"))?;
        let ports = [
            cluster.reserve_port(first.node)?,
            cluster.reserve_port(first.node)?,
        ];
        let meet = Rendezvous {
            root: ports[0].address(),
            master: ports[1].address(),
            secret: Secret::random()?,
        };
        let labelled = layout.nodes() > 1 || cluster.has_namespaces();
        let warden = Warden::start(places.len())?;
        let mut job = Job {
            ranks: Vec::new(),
            started: Instant::now(),
            pump: Pump::start(sink)?,
            warden,
            _ports: ports,
        };
        for place in &places {
            let mut command = command(place.rank);
            for name in FOREIGN_VARIABLES {
                command.env_remove(name);
            }
            let node = labelled.then(|| &cluster.nodes()[place.node]);
            command.envs(rank_variables(place, layout, &meet, node));
            command
                .process_group(0)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
            signals::receive(&mut command);
            job.warden.watch(&mut command);
            let mut child = cluster.launch(place.node, command)?;
            let pid = Pid::from_child(&child);
            let outputs = [
                (
                    Stream::Out,
                    OwnedFd::from(child.stdout.take().expect("stdout is piped")),
                ),
                (
                    Stream::Err,
                    OwnedFd::from(child.stderr.take().expect("stderr is piped")),
                ),
            ];
            let ended = pidfd_open(pid, PidfdFlags::empty())
                .map_err(|e| ClusterError::caused("cannot watch a rank's process", e))?;
            job.ranks.push(RankProcess {
                pid,
                ended,
                exit: None,
            });
            job.pump.add(place.rank, outputs);
        }
        Ok(job)
    }

    /// The process of `rank`: what a test stops or kills.
    pub fn pid(&self, rank: usize) -> Pid {
        self.ranks[rank].pid
    }

    /// Waits until all ranks have ended, by themselves or as `limits` say, and until their output is written.
    ///
    /// With `signals`, SIGINT, SIGTERM and SIGHUP that reach this process are handed to the ranks.
    pub fn wait(mut self, limits: &Limits, signals: Option<&Signals>) -> Result<Outcome, ClusterError> {
        let cause = supervise::until_ended(&mut self, limits, signals)?;
        self.remove_leftovers();
        self.pump.finish();
        let exits = self.ranks.iter().map(|r| r.exit).collect();
        Ok(Outcome { cause, exits })
    }

    /// Kills what is left of every process group, then lets the system forget the ranks.
    fn remove_leftovers(&mut self) {
        for rank in &self.ranks {
            // The rank has not been reaped, so its number still stands for its group and nothing else.
            let _ = rustix::process::kill_process_group(rank.pid, rustix::process::Signal::KILL);
        }
        for rank in self.ranks.iter_mut() {
            let reaped = loop {
                match rustix::process::waitpid(Some(rank.pid), rustix::process::WaitOptions::empty()) {
                    Err(rustix::io::Errno::INTR) => {}
                    other => break other,
                }
            };
            if let (Ok(Some((_, status))), None) = (reaped, rank.exit) {
                rank.exit = Some((Exit::from_wait(status), self.started.elapsed()));
            }
        }
        self.warden.dismiss();
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if !self.warden.is_dismissed() {
            self.remove_leftovers();
        }
    }
}

#[cfg(test)]
mod tests;
