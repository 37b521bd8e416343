//! The launcher's store of Hydra and Slurm: a small client of the PMI-1 wire protocol, on the descriptor they leave open.
//!
//! Lines of `key=value` pairs go both ways. One value is put by rank 0 and read by the others after a barrier.

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::net::SendFlags;

use super::dial::{remaining, wait};
use super::launch::Env;
use super::mpi_presence::{self, Mpi};
use crate::{Error, ErrorKind, Result};

const KEY: &str = "infiniccl-root";
const MAX_LINE: usize = 8192;

/// A connection to the launcher's PMI server. It is told that this process ends in order when it is dropped, unless MPI
/// was initialised meanwhile and says so itself: the server ends a job whose process goes without a word.
pub(super) struct Pmi {
    connection: Connection,
    input: Vec<u8>,
    deadline: Instant,
    /// Rank and size, where the server tells them.
    told: Option<(u32, u32)>,
}

/// The connection over which rank and size were asked, for the exchange that follows: the server takes each process once.
static ASKED: Mutex<Option<Pmi>> = Mutex::new(None);

/// Rank and size of this process where the launcher set neither, but a port at which it tells them; `None` elsewhere.
///
/// # Errors
/// `System` when the server cannot be reached or tells nothing, `Timeout` at `deadline`.
pub(super) fn ask_rank_and_size(env: Env<'_>, deadline: Instant) -> Result<Option<(u32, u32)>> {
    if !super::launch::must_be_asked(env) {
        return Ok(None);
    }
    let mut asked = ASKED.lock().unwrap_or_else(PoisonError::into_inner);
    let pmi = match &mut *asked {
        Some(pmi) => pmi,
        none => none.insert(Pmi::open(env, deadline)?),
    };
    match pmi.told {
        Some(told) => Ok(Some(told)),
        None => Err(trouble(
            "the PMI server at PMI_PORT does not tell rank and size".into(),
        )),
    }
}

enum Connection {
    /// Inherited from the launcher and shared with an MPI library, if one is there; never closed here.
    Inherited(RawFd),
    Own(OwnedFd),
}

impl Pmi {
    /// Whether the environment offers a PMI server.
    pub(super) fn is_offered(env: Env<'_>) -> bool {
        env("PMI_FD").is_some() || env("PMI_PORT").is_some()
    }

    /// Connects to the server that the environment names, or takes the connection that is open already.
    pub(super) fn connect(env: Env<'_>, deadline: Instant) -> Result<Pmi> {
        match ASKED.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(mut pmi) => {
                pmi.deadline = deadline;
                Ok(pmi)
            }
            None => Pmi::open(env, deadline),
        }
    }

    fn open(env: Env<'_>, deadline: Instant) -> Result<Pmi> {
        let connection = match (env("PMI_FD"), env("PMI_PORT")) {
            (Some(text), _) => Connection::Inherited(inherited(&text)?),
            (None, Some(port)) => Connection::Own(
                TcpStream::connect(&port)
                    .map_err(|e| {
                        trouble(format!("cannot connect to the PMI server at PMI_PORT={port}")).with_source(e)
                    })?
                    .into(),
            ),
            (None, None) => return Err(trouble("neither PMI_FD nor PMI_PORT is set".into())),
        };
        let by_port = matches!(connection, Connection::Own(_));
        let mut pmi = Pmi {
            connection,
            input: Vec::new(),
            deadline,
            told: None,
        };
        if by_port {
            let id = env("PMI_ID").unwrap_or_else(|| "0".into());
            pmi.call(&format!("cmd=initack pmiid={id}"), "initack")?;
            // Size, rank and debug level follow unasked.
            let lines = [pmi.line()?, pmi.line()?, pmi.line()?];
            let told = |key| lines.iter().find_map(|line| field(line, key)?.parse().ok());
            pmi.told = told("rank").zip(told("size"));
        }
        pmi.call("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init")?;
        Ok(pmi)
    }

    /// Carries `value` of rank 0, which gives it, to all other ranks, which get it.
    pub(super) fn exchange(&mut self, value: Option<&str>) -> Result<String> {
        let name = self.call("cmd=get_my_kvsname", "my_kvsname")?;
        let space = field(&name, "kvsname")
            .ok_or_else(|| trouble(format!("no kvsname in `{name}`")))?
            .to_owned();
        if let Some(value) = value {
            self.call(
                &format!("cmd=put kvsname={space} key={KEY} value={value}"),
                "put_result",
            )?;
        }
        self.call("cmd=barrier_in", "barrier_out")?;
        match value {
            Some(value) => Ok(value.to_owned()),
            None => {
                let found = self.call(&format!("cmd=get kvsname={space} key={KEY}"), "get_result")?;
                let value = field(&found, "value");
                value
                    .map(str::to_owned)
                    .ok_or_else(|| trouble("the PMI server has no value of rank 0".into()))
            }
        }
    }

    /// Sends a command and waits for its answer.
    fn call(&mut self, command: &str, answer: &str) -> Result<String> {
        self.send(command)?;
        let line = self.line()?;
        if field(&line, "cmd") != Some(answer) {
            return Err(trouble(format!(
                "the PMI server answered `{}` to `{}`",
                shown(&line),
                shown(command)
            )));
        }
        match field(&line, "rc") {
            None | Some("0") => Ok(line),
            Some(code) => Err(trouble(format!(
                "the PMI server refused `{}` with code {code}",
                shown(command)
            ))),
        }
    }

    fn send(&self, command: &str) -> Result<()> {
        let mut bytes = format!("{command}\n").into_bytes();
        while !bytes.is_empty() {
            match rustix::net::send(self.fd(), &bytes, SendFlags::NOSIGNAL) {
                Ok(n) => drop(bytes.drain(..n)),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => self.wait(PollFlags::OUT)?,
                Err(e) => {
                    return Err(trouble("the PMI server is gone".into()).with_source(io::Error::from(e)));
                }
            }
        }
        Ok(())
    }

    fn line(&mut self) -> Result<String> {
        loop {
            if let Some(end) = self.input.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.input.drain(..=end).collect();
                return Ok(String::from_utf8_lossy(&line[..end]).into_owned());
            }
            if self.input.len() > MAX_LINE {
                return Err(trouble("the PMI server sent a line that does not end".into()));
            }
            self.wait(PollFlags::IN)?;
            let mut buffer = [0u8; 1024];
            match rustix::io::read(self.fd(), &mut buffer) {
                Ok(0) => return Err(trouble("the PMI server closed the connection".into())),
                Ok(n) => self.input.extend_from_slice(&buffer[..n]),
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
                Err(e) => {
                    return Err(trouble("the PMI server is gone".into()).with_source(io::Error::from(e)));
                }
            }
        }
    }

    fn wait(&self, flags: PollFlags) -> Result<()> {
        loop {
            let Some(left) = remaining(self.deadline) else {
                return Err(Error::new(
                    ErrorKind::Timeout,
                    "not all ranks reached the launcher's PMI server in time (timeouts.connect)",
                ));
            };
            if wait(&[(self.fd(), flags)], left).map_err(|e| trouble("poll".into()).with_source(e))? {
                return Ok(());
            }
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match &self.connection {
            // SAFETY: the launcher opened it for the life of this process, and nothing here closes it.
            Connection::Inherited(fd) => unsafe { BorrowedFd::borrow_raw(*fd) },
            Connection::Own(fd) => fd.as_fd(),
        }
    }
}

impl Drop for Pmi {
    fn drop(&mut self) {
        match mpi_presence::look() {
            // MPI shares the descriptor and takes its leave itself.
            Mpi::Active | Mpi::Finalized if matches!(self.connection, Connection::Inherited(_)) => {}
            _ => {
                self.deadline = Instant::now() + Duration::from_millis(500);
                if let Err(e) = self.call("cmd=finalize", "finalize_ack") {
                    tracing::debug!("taking leave of the launcher's PMI server: {e}");
                }
            }
        }
    }
}

/// Checks that PMI_FD names an open socket, so that a stale variable harms nothing.
fn inherited(text: &str) -> Result<RawFd> {
    let stale = || {
        trouble(format!(
            "PMI_FD={text} is no open socket: this process was not started by the launcher that set it"
        ))
    };
    let fd: RawFd = text.trim().parse().ok().filter(|fd| *fd > 2).ok_or_else(stale)?;
    // SAFETY: only used for this call, which fails for a number that is not open.
    let stat = rustix::fs::fstat(unsafe { BorrowedFd::borrow_raw(fd) }).map_err(|_| stale())?;
    let is_socket = rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Socket;
    if is_socket { Ok(fd) } else { Err(stale()) }
}

/// The value of `key` in a line of `key=value` pairs.
fn field<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    line.split_ascii_whitespace()
        .find_map(|pair| pair.split_once('=').filter(|(k, _)| *k == key).map(|(_, v)| v))
}

/// The start of a line: its tail may hold the job's key.
fn shown(line: &str) -> &str {
    line.split_once(" value=").map_or(line, |(head, _)| head)
}

fn trouble(message: String) -> Error {
    Error::new(ErrorKind::System, message)
}

#[cfg(test)]
#[path = "pmi_tests.rs"]
mod tests;
