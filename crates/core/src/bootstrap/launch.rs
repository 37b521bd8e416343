//! Which rank of how many this process is, from the variables that launchers set. A pure function of the environment.

mod mpich;
mod openmpi;
mod slurm;
mod torchrun;

use std::fmt;

use crate::{Error, ErrorKind, Result};

/// Looks up an environment variable.
pub(crate) type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Who started this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Launcher {
    /// `torchrun`, `infiniccl run`, and all that set the variables of `torch.distributed`.
    Torchrun,
    /// `mpirun` of Open MPI.
    OpenMpi,
    /// `mpiexec` of MPICH, Intel MPI and others with the Hydra process manager.
    Mpich,
    /// `srun`.
    Slurm,
}

impl fmt::Display for Launcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Launcher::Torchrun => "torchrun",
            Launcher::OpenMpi => "Open MPI",
            Launcher::Mpich => "MPICH",
            Launcher::Slurm => "Slurm",
        })
    }
}

/// What a launcher says about this process.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Launch {
    /// Who says it.
    pub launcher: Launcher,
    /// This rank.
    pub rank: u32,
    /// The number of ranks.
    pub size: u32,
    /// This rank's number among those of its node.
    pub local_rank: Option<u32>,
    /// The number of ranks of its node.
    pub local_size: Option<u32>,
    /// The launcher's number for the node.
    pub node_hint: Option<u32>,
    /// Tells this job from others of the same user on the same host, as well as the launcher's variables can.
    pub(crate) job: String,
}

impl Launch {
    /// Whether the launcher says that all ranks are on this host.
    pub fn on_one_host(&self) -> bool {
        self.local_size == Some(self.size)
    }
}

/// A finding of one launcher's variables.
struct Found {
    launch: Launch,
    /// For contradictions: the variables that were read, with their values.
    evidence: String,
    /// Slurm sets its numbers for the whole allocation too; then they say nothing about this process.
    of_this_process: bool,
}

/// Finds out who started this process; `None` when no launcher did.
///
/// # Errors
/// `InvalidUsage` when a launcher's variables are incomplete or not numbers (also where they only name a port to ask), or
/// when two launchers contradict each
/// other; the message names the variables and their values.
pub(crate) fn detect(env: Env<'_>) -> Result<Option<Launch>> {
    let found: Vec<Found> = [
        torchrun::find(env)?,
        openmpi::find(env)?,
        mpich::find(env)?,
        slurm::find(env)?,
    ]
    .into_iter()
    .flatten()
    .collect();
    let Some(first) = found.first() else {
        return Ok(None);
    };
    if let Some(other) = found[1..].iter().find(|outer| !agree(first, outer)) {
        return Err(Error::new(
            ErrorKind::InvalidUsage,
            format!(
                "two launchers contradict each other: {} says rank {} of {} ({}), {} says rank {} of {} ({}); unset the \
                 variables of the one that did not start this process (env -u NAME)",
                first.launch.launcher,
                first.launch.rank,
                first.launch.size,
                first.evidence,
                other.launch.launcher,
                other.launch.rank,
                other.launch.size,
                other.evidence,
            ),
        ));
    }
    Ok(Some(first.launch.clone()))
}

/// Whether the launcher set neither rank nor size, but a port at which it tells them (`mpiexec -pmi-port`).
pub(super) fn must_be_asked(env: Env<'_>) -> bool {
    env("PMI_PORT").is_some()
        && env("PMI_ID").is_some()
        && env("PMI_RANK").is_none()
        && env("PMI_SIZE").is_none()
}

/// Whether what `outer` says is compatible with `inner`, which counts.
fn agree(inner: &Found, outer: &Found) -> bool {
    let (a, b) = (&inner.launch, &outer.launch);
    if (a.rank, a.size) == (b.rank, b.size) || !outer.of_this_process {
        return true;
    }
    match (a.launcher, b.launcher) {
        // The outer launcher started one torchrun per node; with one rank per node both number the same.
        (Launcher::Torchrun, _) => match a.local_size {
            Some(local) if local > 1 && a.size.is_multiple_of(local) => {
                b.size == a.size / local && (b.launcher == Launcher::Slurm || a.node_hint == Some(b.rank))
            }
            _ => false,
        },
        // mpirun and mpiexec start one daemon per further node with srun, and the ranks inherit its variables.
        (Launcher::OpenMpi | Launcher::Mpich, Launcher::Slurm) => b.size < a.size,
        _ => false,
    }
}

/// The number in a variable; `None` when it is not set.
fn number(env: Env<'_>, name: &str) -> Result<Option<u32>> {
    let Some(text) = env(name) else { return Ok(None) };
    text.trim().parse().map(Some).map_err(|_| {
        Error::new(
            ErrorKind::InvalidUsage,
            format!("{name}=`{text}` is not a number of ranks or a rank"),
        )
    })
}

/// Rank and size from two variables. A size without a rank is an error unless it is 1: such a process would take itself
/// for the only one.
fn rank_and_size(env: Env<'_>, launcher: Launcher, rank: &str, size: &str) -> Result<Option<(u32, u32)>> {
    let (rank_value, size_value) = (number(env, rank)?, number(env, size)?);
    match (rank_value, size_value) {
        (Some(r), Some(s)) if r < s => Ok(Some((r, s))),
        (Some(r), Some(s)) => Err(Error::new(
            ErrorKind::InvalidUsage,
            format!("{rank}={r} and {size}={s} contradict each other: ranks go from 0 to {size} - 1"),
        )),
        (None, Some(s)) if s > 1 => Err(Error::new(
            ErrorKind::InvalidUsage,
            format!(
                "{size}={s} says that {launcher} started {s} processes, but {rank} is not set: start this process through \
                 the launcher, or unset {size} if it is meant to be alone"
            ),
        )),
        _ => Ok(None),
    }
}

/// `NAME=value` of those of `names` that are set.
fn evidence(env: Env<'_>, names: &[&str]) -> String {
    let set = names
        .iter()
        .filter_map(|name| Some(format!("{name}={}", env(name)?)));
    set.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
#[path = "launch_tests.rs"]
mod tests;
