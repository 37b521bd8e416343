//! The control plane of one communicator, as its owner uses it: exchanges, failure, arbitration, orderly end.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::keys::Key;
use super::message::MAX_BLOB;
use super::plane_state::{Command, FailureHook, PlaneState, StatusSource};
use super::record::MemberRecord;
use super::report::{Failure, LateReport};
use super::service::Waker;
use super::settings::Settings;
use crate::{Error, ErrorKind, Result};

/// How long a dropped control plane waits for its last words to reach the kernel.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// One rank's part of a communicator's control plane. `Send` and `Sync`; dropping it says goodbye to the others.
pub(crate) struct ControlPlane {
    rank: u32,
    size: u32,
    key: Key,
    members: Vec<MemberRecord>,
    settings: Settings,
    local_ip: Option<IpAddr>,
    pub(super) state: Arc<PlaneState>,
    /// A communicator of one rank has no links and needs no thread.
    waker: Option<Waker>,
    /// The number of the next exchange; held while one is in progress.
    round: Mutex<u64>,
    process: u32,
    /// What must outlive the communicator and end with it.
    hold: Option<Box<dyn Send + Sync>>,
}

impl ControlPlane {
    /// A control plane whose member runs on the service thread (none for a single rank).
    pub(super) fn assemble(
        (rank, size): (u32, u32),
        key: Key,
        settings: Settings,
        state: Arc<PlaneState>,
        waker: Option<Waker>,
    ) -> Self {
        let process = std::process::id();
        ControlPlane {
            rank,
            size,
            key,
            members: Vec::new(),
            settings,
            local_ip: None,
            state,
            waker,
            round: Mutex::new(0),
            process,
            hold: None,
        }
    }

    /// Sets the records of all ranks, once they are known.
    pub(super) fn set_members(&mut self, members: Vec<MemberRecord>) {
        let hosts = members.iter().map(|m| m.host.hostname.clone()).collect();
        self.tell(Command::Hosts(hosts));
        self.members = members;
    }

    /// Sets the address over which this rank reached the root.
    pub(super) fn set_local_ip(&mut self, ip: Option<IpAddr>) {
        self.local_ip = ip;
    }

    /// The address of this rank over which it reached the root: one that is proven to lead to other ranks. `None` for a
    /// communicator of one.
    pub(crate) fn local_ip(&self) -> Option<IpAddr> {
        self.local_ip
    }

    /// Keeps `hold` until the communicator has ended.
    pub(super) fn keep(&mut self, hold: Box<dyn Send + Sync>) {
        self.hold = Some(hold);
    }

    /// This rank.
    pub(crate) fn rank(&self) -> u32 {
        self.rank
    }

    /// The number of ranks.
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    /// All ranks, by rank.
    pub(crate) fn members(&self) -> &[MemberRecord] {
        &self.members
    }

    fn host(&self, rank: u32) -> String {
        let member = usize::try_from(rank).ok().and_then(|rank| self.members.get(rank));
        member
            .map(|member| member.host.hostname.clone())
            .unwrap_or_default()
    }

    /// The settings it was made with.
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// A secret that all ranks of this communicator and nobody else hold, for the connections that carry data.
    pub(crate) fn key(&self) -> [u8; 32] {
        *self.key.derive("infiniccl data connections", &[]).bytes()
    }

    /// The key of the communicator that this one offers with `nonce`.
    pub(super) fn derive_key(&self, nonce: &[u8]) -> Key {
        self.key.derive("infiniccl offered communicator", &[nonce])
    }

    /// Gives `blob` (at most 1 MiB) and gets every rank's, by rank. Collective: all ranks call it in the same order with
    /// the same `what`. Blocks until all have come; calls from several threads are served one after the other.
    ///
    /// # Errors
    /// `Timeout` at `deadline`, naming the missing ranks; after that the communicator has failed on all ranks. The
    /// communicator's failure, when there is one.
    pub(crate) fn allgather(&self, what: &str, blob: &[u8], deadline: Instant) -> Result<Vec<Vec<u8>>> {
        self.allgather_watching(what, blob, deadline, &mut || Ok(()))
    }

    /// As [`ControlPlane::allgather`]; `interrupted` is asked several times a second, and its error ends the wait.
    pub(super) fn allgather_watching(
        &self,
        what: &str,
        blob: &[u8],
        deadline: Instant,
        interrupted: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Vec<Vec<u8>>> {
        self.usable()?;
        if blob.len() > MAX_BLOB {
            let message = format!(
                "a record of {} bytes is more than one exchange carries ({MAX_BLOB})",
                blob.len()
            );
            return Err(Error::new(ErrorKind::Internal, message).with("exchange", what));
        }
        let mut round = self.round.lock().unwrap_or_else(PoisonError::into_inner);
        self.usable()?;
        if self.waker.is_none() {
            return Ok(vec![blob.to_vec()]);
        }
        let begun = Instant::now();
        self.tell(Command::Gather {
            round: *round,
            what: what.to_owned(),
            blob: blob.to_vec(),
        });
        loop {
            let slice = deadline.min(Instant::now() + Duration::from_millis(50));
            let found = self.state.wait(slice, |board| {
                match board.gathered.take_if(|(at, _)| *at == *round) {
                    Some((_, records)) => Some(Ok(records)),
                    None => self.state.failure().map(|failure| Err(failure.to_error())),
                }
            });
            match found {
                Some(Ok(records)) => {
                    *round += 1;
                    return Ok(records);
                }
                Some(Err(error)) => return Err(error),
                None => interrupted()?,
            }
            if Instant::now() >= deadline {
                let (sentence, only) = self.state.who_waits(*round, self.size);
                let waited = begun.elapsed().as_secs_f64();
                let message = format!(
                    "`{what}` did not end within {waited:.1} s on rank {}: {sentence}",
                    self.rank
                );
                let mut failure = Failure::new(ErrorKind::Timeout, self.rank, message);
                if let Some(rank) = only {
                    failure = failure.by(rank, self.host(rank));
                }
                what.clone_into(&mut failure.phase);
                self.fail(failure.clone());
                return Err(failure.to_error());
            }
        }
    }

    /// Waits until all ranks have called it.
    ///
    /// # Errors
    /// As [`ControlPlane::allgather`].
    pub(crate) fn barrier(&self, what: &str, deadline: Instant) -> Result<()> {
        self.allgather(what, &[], deadline).map(|_| ())
    }

    /// This rank declares the communicator failed, here at once and everywhere soon. Never blocks; the first failure
    /// stays.
    pub(crate) fn fail(&self, failure: Failure) {
        if self.is_foreign() {
            return;
        }
        self.state.set_failure(failure.clone());
        if self.waker.is_some() {
            self.tell(Command::Fail(failure));
        } else {
            self.state.call_hooks();
        }
    }

    /// The failure, once the communicator has failed.
    pub(crate) fn failure(&self) -> Option<Failure> {
        self.state.failure().cloned()
    }

    /// Set once the communicator has failed: one load on the way of every call.
    pub(crate) fn failed_flag(&self) -> &AtomicBool {
        self.state.failed_flag()
    }

    /// Sets who tells what this rank is doing. The service thread calls it, so it must not block.
    pub(crate) fn set_status_source(&self, source: StatusSource) {
        self.state.set_status_source(Some(source));
    }

    /// Has `hook` called with the failure, once, on the service thread; at once when the communicator has failed.
    pub(crate) fn on_failure(&self, hook: FailureHook) {
        self.state.add_hook(hook);
    }

    /// This rank saw data of call `seq` from `peer` that belongs to another call: the ranks' records are compared at
    /// once, and the failure that follows names who differs.
    pub(crate) fn disagree(&self, seq: u64, peer: u32) {
        self.tell(Command::Disagree { seq, peer });
    }

    /// A call has begun to wait: its status is looked at soon, also when this rank was idle before.
    pub(crate) fn nudge(&self) {
        self.tell(Command::Nudge);
    }

    /// Which ranks have not entered call `seq`, as the root found out last; `None` when nobody asked yet.
    pub(crate) fn who_is_missing(&self, seq: u64) -> Option<LateReport> {
        self.state
            .read(|board| board.late.clone())
            .filter(|report| report.seq == seq)
    }

    /// Ends this rank's part in order: the others do not see a death. Waits until all ranks have come so far, at most
    /// until `deadline`; after that the service thread goes on for those that still use the communicator.
    pub(crate) fn close(&self, deadline: Instant) {
        self.leave(deadline, true);
    }

    fn leave(&self, deadline: Instant, for_all: bool) {
        if self.waker.is_none() || self.is_foreign() {
            return;
        }
        self.tell(Command::Leave);
        self.state.wait(deadline, |board| {
            (board.ended || (board.said && !for_all)).then_some(())
        });
    }

    fn tell(&self, command: Command) {
        if self.is_foreign() {
            return;
        }
        if let Some(waker) = &self.waker {
            self.state.command(command);
            waker.wake();
        }
    }

    /// Whether this process is a fork of the one that owns the communicator: nothing here is its own then.
    fn is_foreign(&self) -> bool {
        std::process::id() != self.process
    }

    fn usable(&self) -> Result<()> {
        if self.is_foreign() {
            return Err(Error::new(
                ErrorKind::InvalidUsage,
                "this communicator was used after fork: it belongs to the parent process; make a new one in the child",
            ));
        }
        match self.state.failure() {
            Some(failure) if self.state.failed_flag().load(Ordering::Acquire) => Err(failure.to_error()),
            _ => Ok(()),
        }
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        if self.is_foreign() {
            // The locks of the copy may be held for ever by threads that exist in the parent only.
            std::mem::forget(self.waker.take());
            return std::mem::forget(self.hold.take());
        }
        let ended = self.state.read(|board| board.ended);
        if !ended {
            self.leave(Instant::now() + LAST_WORDS, false);
        }
    }
}
