//! How ranks and jobs end, in words and as an exit code.

use std::fmt;
use std::time::Duration;

use rustix::process::{WaitIdStatus, WaitStatus};

/// How one rank ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// Killed by this signal.
    Signal(i32),
}

impl Exit {
    pub(super) fn from_wait(status: WaitStatus) -> Self {
        match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Exit::Code(code),
            (None, signal) => Exit::Signal(signal.unwrap_or(0)),
        }
    }

    pub(super) fn from_waitid(status: &WaitIdStatus) -> Self {
        match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Exit::Code(code),
            (None, signal) => Exit::Signal(signal.unwrap_or(0)),
        }
    }

    /// Whether the rank ended with code 0.
    pub fn is_success(self) -> bool {
        self == Exit::Code(0)
    }

    /// The code a shell would show: 128 and the signal's number for a killed rank.
    pub fn code(self) -> u8 {
        let code = match self {
            Exit::Code(code) => code,
            Exit::Signal(signal) => 128 + signal,
        };
        // Codes of processes are 0 to 255; a failure must not become a success.
        u8::try_from(code).unwrap_or(1)
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exit::Code(code) => write!(f, "exited with {code}"),
            Exit::Signal(signal) => write!(f, "was killed by signal {signal}{}", signal_name(*signal)),
        }
    }
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        libc::SIGHUP => " (SIGHUP)",
        libc::SIGINT => " (SIGINT)",
        libc::SIGQUIT => " (SIGQUIT)",
        libc::SIGILL => " (SIGILL)",
        libc::SIGABRT => " (SIGABRT)",
        libc::SIGBUS => " (SIGBUS)",
        libc::SIGFPE => " (SIGFPE)",
        libc::SIGKILL => " (SIGKILL)",
        libc::SIGSEGV => " (SIGSEGV)",
        libc::SIGPIPE => " (SIGPIPE)",
        libc::SIGTERM => " (SIGTERM)",
        _ => "",
    }
}

/// Why a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// All ranks ended with 0.
    Success,
    /// This rank was the first to fail.
    RankFailed(usize),
    /// The job's time limit passed.
    TimedOut,
    /// The launcher was told to end, by this signal.
    Interrupted(i32),
}

/// How a job ended.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Why it ended.
    pub cause: Cause,
    /// How each rank ended, and how long after the start of the job.
    pub exits: Vec<Option<(Exit, Duration)>>,
}

impl Outcome {
    /// The job's exit code: 0, the first failing rank's, 124 for a time limit, 128 and the signal otherwise.
    pub fn code(&self) -> u8 {
        match self.cause {
            Cause::Success => 0,
            Cause::RankFailed(rank) => self.exits[rank].map_or(1, |(exit, _)| exit.code().max(1)),
            Cause::TimedOut => 124,
            Cause::Interrupted(signal) => Exit::Signal(signal).code(),
        }
    }

    /// Whether all ranks ended with 0.
    pub fn is_success(&self) -> bool {
        self.cause == Cause::Success
    }
}
