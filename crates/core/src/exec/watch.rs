//! What this rank is doing, for the other ranks to compare; and what the control plane says of them.

use crate::bootstrap::{CallRecord, ControlPlane, Failure, StatusReport};
use crate::call::{Collective, RedOp};
use crate::error::{Error, ErrorKind};
use infiniccl_reduce::DataType;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Calls that are remembered for a comparison.
const REMEMBERED: usize = 64;
/// How long an error of a link waits for the control plane to know the cause.
const CAUSE: Duration = Duration::from_secs(1);
/// How long a disagreement waits for the ranks' records to be compared.
const VERDICT: Duration = Duration::from_secs(3);

/// A call, in the fields that all ranks must agree on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallEntry {
    pub(crate) collective: Collective,
    pub(crate) dtype: DataType,
    pub(crate) op: RedOp,
    pub(crate) count: u64,
    pub(crate) root: u32,
    /// Equal on ranks that mean the same call.
    pub(crate) digest: u32,
    /// The argument that was refused, and why.
    pub(crate) refused: Option<String>,
}

impl CallEntry {
    fn text(&self) -> String {
        let mut text = format!("{} count={} {}", self.collective, self.count, self.dtype);
        if self.collective.reduces() {
            text.push(' ');
            text.push_str(self.op.name());
        }
        if self.collective.has_root() {
            text.push_str(&format!(" root={}", self.root));
        }
        text
    }

    fn record(&self, seq: u64, phase: &str) -> CallRecord {
        CallRecord {
            seq,
            digest: self.digest,
            text: self.text(),
            refused: self.refused.clone(),
            phase: phase.to_string(),
        }
    }
}

/// What a batch is, for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Label {
    /// The collective with this sequence number.
    Collective(u64),
    /// Messages between ranks, the first of them with `peer`.
    Messages { sends: bool, peer: u32, bytes: u64 },
}

#[derive(Default)]
struct Journal {
    next_seq: u64,
    completed: u64,
    recent: VecDeque<(u64, CallEntry)>,
    current: Option<(Label, Instant)>,
}

/// One rank's journal, and its line to the others.
pub(crate) struct Watch {
    control: Arc<ControlPlane>,
    journal: Arc<Mutex<Journal>>,
    aborted: AtomicBool,
    first: OnceLock<Error>,
}

impl Watch {
    /// Starts to report this rank's calls to the control plane.
    pub(crate) fn new(control: Arc<ControlPlane>) -> Self {
        let journal = Arc::new(Mutex::new(Journal::default()));
        let shared = journal.clone();
        control.set_status_source(Arc::new(move || report(&lock(&shared))));
        Watch {
            control,
            journal,
            aborted: AtomicBool::new(false),
            first: OnceLock::new(),
        }
    }

    /// Notes a collective that this rank calls, and numbers it.
    pub(crate) fn note(&self, entry: CallEntry) -> u64 {
        let mut journal = lock(&self.journal);
        let seq = journal.next_seq;
        journal.next_seq += 1;
        if entry.refused.is_some() {
            journal.completed = journal.next_seq;
        }
        if journal.recent.len() == REMEMBERED {
            journal.recent.pop_front();
        }
        journal.recent.push_back((seq, entry));
        seq
    }

    pub(super) fn entered(&self, label: Label) {
        lock(&self.journal).current = Some((label, Instant::now()));
    }

    pub(super) fn left(&self, label: Label) {
        let mut journal = lock(&self.journal);
        journal.current = None;
        if let Label::Collective(seq) = label {
            journal.completed = seq + 1;
        }
    }

    /// This rank waits for others: the control plane looks at it soon.
    pub(super) fn waits(&self) {
        self.control.nudge();
    }

    /// Whether this or another rank has ended the communicator.
    pub(crate) fn has_failed(&self) -> bool {
        self.control.failed_flag().load(Ordering::Acquire) || self.aborted.load(Ordering::Acquire)
    }

    /// Why the communicator has ended.
    pub(crate) fn failure(&self) -> Error {
        if let Some(first) = self.first.get() {
            return first.clone();
        }
        let error = match self.control.failure() {
            Some(failure) => self.located(failure.to_error()),
            None => Error::new(ErrorKind::Aborted, "the communicator was aborted by this process"),
        };
        self.first.get_or_init(|| error).clone()
    }

    /// Ends the communicator on this rank, and tells the others.
    pub(crate) fn abort(&self) {
        self.aborted.store(true, Ordering::Release);
        let rank = self.control.rank();
        let failure = Failure::new(
            ErrorKind::Aborted,
            rank,
            format!("rank {rank} aborted the communicator"),
        )
        .by(rank, self.host(rank));
        self.control.fail(failure);
    }

    /// The first cause behind `error`, which this rank met: what the control plane knows, if it knows more.
    pub(super) fn explain(&self, error: Error) -> Error {
        if self.first.get().is_none() && error.get("cause").is_none() {
            // A rank that died is known at once; one that left, or that means another call and so broke the link,
            // when the ranks have been asked.
            let peer = error.get("peer").and_then(|peer| peer.parse().ok());
            match (peer, self.current()) {
                (Some(peer), Some(call)) => self.control.disagree(call.seq, peer),
                _ => self.waits(),
            }
            self.await_failure(CAUSE);
        }
        if self.has_failed() {
            return self.failure();
        }
        let error = self.located(error);
        let rank = self.control.rank();
        // Of a link that failed, the other end is the likelier place to look at.
        let place = error
            .get("peer")
            .and_then(|peer| peer.parse().ok())
            .unwrap_or(rank);
        let text = format!("rank {rank} on {} reports: {}", self.host(rank), error.message());
        let failure = Failure::new(error.kind(), rank, text)
            .by(place, self.host(place))
            .during(self.current().as_ref());
        self.control.fail(failure);
        self.first.get_or_init(|| error).clone()
    }

    /// The error of a call that did not end within `limit`; tells all ranks.
    pub(super) fn timed_out(&self, label: Label, limit: Duration) -> Error {
        let call = self.current();
        let what = call
            .as_ref()
            .map_or_else(|| describe(label), |c| format!("{} (call {})", c.text, c.seq));
        let mut text = format!("{what} did not end within {:.1} s", limit.as_secs_f64());
        if let Some(missing) = call.as_ref().and_then(|c| self.control.who_is_missing(c.seq)) {
            text.push_str(": ");
            text.push_str(&missing.describe());
        }
        let rank = self.control.rank();
        let failure = Failure::new(ErrorKind::Timeout, rank, text).during(call.as_ref());
        self.control.fail(failure);
        self.failure()
    }

    /// The error of a call whose messages show that ranks do not mean the same: who differs, if that is found out.
    pub(super) fn disagreement(&self, label: Label, peer: Option<u32>, seen: &Error) -> Error {
        if let Label::Collective(seq) = label {
            let other = peer.unwrap_or_else(|| self.control.rank());
            self.control.disagree(seq, other);
            self.await_failure(VERDICT);
        }
        if self.has_failed() {
            return self.failure();
        }
        let mut text = format!("ranks disagree about {}: {}", describe(label), seen.message());
        if let Some(peer) = peer {
            text.push_str(&format!(" (rank {} and rank {peer})", self.control.rank()));
        }
        self.located(Error::new(ErrorKind::Remote, text))
            .with("cause", "disagreement")
    }

    /// `error` with rank, host, collective and sequence number.
    pub(crate) fn located(&self, error: Error) -> Error {
        let rank = self.control.rank();
        let error = error.with("rank", rank).with("host", self.host(rank));
        let current = lock(&self.journal).current;
        match (current, self.current()) {
            (_, Some(call)) => error.with("collective", call.text).with("seq", call.seq),
            (Some((label, _)), None) => error.with("collective", describe(label)),
            (None, None) => error,
        }
    }

    /// Host of a rank, for messages.
    pub(crate) fn host(&self, rank: u32) -> String {
        self.control
            .members()
            .get(rank as usize)
            .map(|m| m.host.hostname.clone())
            .unwrap_or_default()
    }

    fn current(&self) -> Option<CallRecord> {
        report(&lock(&self.journal)).current
    }

    fn await_failure(&self, limit: Duration) {
        let until = Instant::now() + limit;
        while !self.has_failed() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

fn describe(label: Label) -> String {
    match label {
        Label::Collective(seq) => format!("call {seq}"),
        Label::Messages {
            sends: true,
            peer,
            bytes,
        } => format!("send of {bytes} bytes to rank {peer}"),
        Label::Messages {
            sends: false,
            peer,
            bytes,
        } => format!("recv of {bytes} bytes from rank {peer}"),
    }
}

fn report(journal: &Journal) -> StatusReport {
    let find = |seq: u64| {
        journal
            .recent
            .iter()
            .find(|(s, _)| *s == seq)
            .map(|(_, entry)| entry)
    };
    let current = match journal.current {
        Some((Label::Collective(seq), _)) => find(seq).map(|entry| entry.record(seq, "running")),
        // Messages concern two ranks, so that there is nothing that all could compare.
        Some((Label::Messages { .. }, _)) | None => None,
    };
    let waiting = match (&current, journal.current) {
        (Some(_), Some((_, since))) => since.elapsed(),
        _ => Duration::ZERO,
    };
    StatusReport {
        current,
        waiting_ms: u64::try_from(waiting.as_millis()).unwrap_or(u64::MAX),
        recent: journal
            .recent
            .iter()
            .map(|(seq, entry)| entry.record(*seq, ""))
            .collect(),
        completed: journal.completed,
    }
}

fn lock(journal: &Mutex<Journal>) -> MutexGuard<'_, Journal> {
    journal.lock().unwrap_or_else(PoisonError::into_inner)
}
