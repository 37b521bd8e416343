//! The watch over a running job: ends of ranks, the time limit, signals, and the grace period.

use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::{Cause, Exit, Job, Limits, OnFailure, Signals};
use crate::cluster::ClusterError;

/// Blocks until every rank has ended, and says why the job ended.
pub(super) fn until_ended(
    job: &mut Job,
    limits: &Limits,
    signals: Option<&Signals>,
) -> Result<Cause, ClusterError> {
    let mut cause = Cause::Success;
    let mut give_up = limits.timeout.map(|t| job.started + t);
    let mut kill_at = None;
    while job.ranks.iter().any(|r| r.exit.is_none()) {
        wait_for_event(job, signals, [give_up, kill_at].into_iter().flatten().min())?;

        for rank in collect_ends(job)? {
            let (exit, after) = job.ranks[rank].exit.expect("just collected");
            if exit.is_success() || kill_at.is_some() {
                continue;
            }
            job.pump
                .notice(format!("rank {rank} {exit} after {:.1} s", after.as_secs_f64()));
            if cause == Cause::Success {
                cause = Cause::RankFailed(rank);
            }
            if limits.on_failure == OnFailure::Kill {
                kill_at = Some(end_others(job, Signal::TERM, limits.grace));
            }
        }
        while let Some(number) = signals.and_then(Signals::take) {
            // A second one means that the first was not enough.
            let signal = Signal::from_named_raw(number).unwrap_or(Signal::TERM);
            kill_at = Some(end_others(job, signal, limits.grace));
            cause = Cause::Interrupted(number);
            give_up = None;
        }
        let now = Instant::now();
        if give_up.is_some_and(|t| now >= t) && kill_at.is_none() {
            let limit = limits.timeout.unwrap_or_default().as_secs_f64();
            job.pump.notice(format!(
                "the job reached its limit of {limit} s: ending {}",
                left(job)
            ));
            kill_at = Some(end_others(job, Signal::TERM, limits.grace));
            cause = Cause::TimedOut;
            give_up = None;
        }
        if kill_at.is_some_and(|t| now >= t) {
            job.pump
                .notice(format!("{} did not end in time: killing", left(job)));
            end_others(job, Signal::KILL, limits.grace);
            // SIGKILL needs no second try, but a process in the kernel's hands may take a while to go.
            kill_at = Some(now + Duration::from_secs(3600));
        }
    }
    Ok(cause)
}

/// Blocks until a rank ends, a signal arrives or `deadline` passes.
fn wait_for_event(
    job: &Job,
    signals: Option<&Signals>,
    deadline: Option<Instant>,
) -> Result<(), ClusterError> {
    let running = job.ranks.iter().filter(|r| r.exit.is_none());
    let mut fds: Vec<_> = running.map(|r| PollFd::new(&r.ended, PollFlags::IN)).collect();
    if let Some(signals) = signals {
        fds.push(PollFd::from_borrowed_fd(signals.descriptor(), PollFlags::IN));
    }
    let timeout = deadline.map(|t| {
        let left = t.saturating_duration_since(Instant::now());
        Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: left.subsec_nanos().into(),
        }
    });
    match poll(&mut fds, timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(e) => Err(ClusterError::caused("cannot wait for the ranks", e)),
    }
}

/// Notes the ranks that have ended since the last call. They are not reaped yet: a rank that is still known to
/// the system keeps its number, which the other processes of its group are killed by.
fn collect_ends(job: &mut Job) -> Result<Vec<usize>, ClusterError> {
    let mut ended = Vec::new();
    for (rank, process) in job.ranks.iter_mut().enumerate().filter(|(_, p)| p.exit.is_none()) {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(process.pid), options) {
            Ok(Some(status)) => {
                process.exit = Some((Exit::from_waitid(&status), job.started.elapsed()));
                ended.push(rank);
            }
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(ClusterError::caused(format!("cannot wait for rank {rank}"), e)),
        }
    }
    Ok(ended)
}

/// Sends `signal` to the groups of the ranks that run, and says when patience ends.
fn end_others(job: &Job, signal: Signal, grace: Duration) -> Instant {
    for process in job.ranks.iter().filter(|r| r.exit.is_none()) {
        // A group that has just ended is what we wanted.
        let _ = kill_process_group(process.pid, signal);
        // A stopped process would sleep through a polite signal.
        let _ = kill_process_group(process.pid, Signal::CONT);
    }
    Instant::now() + grace
}

/// "rank 1" or "ranks 0, 1, 3": those that run.
fn left(job: &Job) -> String {
    let running: Vec<_> = (0..job.ranks.len())
        .filter(|&r| job.ranks[r].exit.is_none())
        .map(|r| r.to_string())
        .collect();
    format!(
        "rank{} {}",
        if running.len() == 1 { "" } else { "s" },
        running.join(", ")
    )
}
