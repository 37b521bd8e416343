//! What ranks tell each other about themselves: what they are doing, and what went wrong.

use super::wire::{Malformed, Reader, Writer};
use crate::{Error, ErrorKind};

/// Longest text of a report, in bytes; longer ones are cut.
const MAX_TEXT: usize = 2048;
/// Longest description of a call.
const MAX_CALL: usize = 256;

/// One call of a rank, as far as others must agree with it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct CallRecord {
    /// Number of the call on its communicator, counted by every rank alike.
    pub(crate) seq: u64,
    /// Hash of all fields that must be equal on all ranks.
    pub(crate) digest: u32,
    /// The call for people: `AllReduce count=1000 float32 sum`.
    pub(crate) text: String,
    /// Set when the rank refused its own call: the argument and the reason.
    pub(crate) refused: Option<String>,
    /// What the rank does for the call at the moment.
    pub(crate) phase: String,
}

impl CallRecord {
    pub(crate) fn encode(&self, w: &mut Writer) {
        w.u64(self.seq).u32(self.digest).text(&self.text, MAX_CALL);
        w.option(self.refused.as_deref(), |w, text| {
            w.text(text, MAX_CALL);
        });
        w.text(&self.phase, MAX_CALL);
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(CallRecord {
            seq: r.u64()?,
            digest: r.u32()?,
            text: r.text(MAX_CALL)?,
            refused: r.option(|r| r.text(MAX_CALL))?,
            phase: r.text(MAX_CALL)?,
        })
    }
}

/// What a rank is doing; the owner of a communicator provides it whenever the service thread asks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct StatusReport {
    /// The call that is in progress.
    pub(crate) current: Option<CallRecord>,
    /// For how long it has made no progress, in milliseconds.
    pub(crate) waiting_ms: u64,
    /// The last calls that ended, refused ones included; 64 are enough.
    pub(crate) recent: Vec<CallRecord>,
    /// How many calls have ended.
    pub(crate) completed: u64,
}

/// Why a communicator is unusable; every rank holds the same one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The kind of error that every call answers with from now on.
    pub(crate) kind: ErrorKind,
    /// The rank that caused it, where one did.
    pub(crate) rank: Option<u32>,
    /// The host of that rank.
    pub(crate) host: String,
    /// The call in progress.
    pub(crate) seq: Option<u64>,
    /// That call for people.
    pub(crate) collective: String,
    /// What was going on.
    pub(crate) phase: String,
    /// What happened and what to look at.
    pub(crate) message: String,
    /// The rank that noticed it.
    pub(crate) detected_by: u32,
}

impl Failure {
    /// A failure without details yet.
    pub(crate) fn new(kind: ErrorKind, detected_by: u32, message: impl Into<String>) -> Self {
        Failure {
            kind,
            rank: None,
            host: String::new(),
            seq: None,
            collective: String::new(),
            phase: String::new(),
            message: message.into(),
            detected_by,
        }
    }

    /// Names the rank that caused it, and its host.
    #[must_use]
    pub(crate) fn by(mut self, rank: u32, host: impl Into<String>) -> Self {
        self.rank = Some(rank);
        self.host = host.into();
        self
    }

    /// Adds the call in progress, unless one is named already.
    #[must_use]
    pub(crate) fn during(mut self, call: Option<&CallRecord>) -> Self {
        if let (None, Some(call)) = (self.seq, call) {
            self.seq = Some(call.seq);
            self.collective.clone_from(&call.text);
            self.phase.clone_from(&call.phase);
        }
        self
    }

    /// The error that calls return.
    pub(crate) fn to_error(&self) -> Error {
        let mut error = Error::new(self.kind, self.message.clone());
        if let Some(rank) = self.rank {
            error = error.with("rank", rank);
        }
        for (key, value) in [
            ("host", &self.host),
            ("collective", &self.collective),
            ("phase", &self.phase),
        ] {
            if !value.is_empty() {
                error = error.with(key, value);
            }
        }
        if let Some(seq) = self.seq {
            error = error.with("seq", seq);
        }
        error.with("detected_by", self.detected_by)
    }

    pub(crate) fn encode(&self, w: &mut Writer) {
        w.u32(self.kind.code()).option(self.rank, |w, rank| {
            w.u32(rank);
        });
        w.text(&self.host, MAX_CALL).option(self.seq, |w, seq| {
            w.u64(seq);
        });
        w.text(&self.collective, MAX_CALL)
            .text(&self.phase, MAX_CALL)
            .text(&self.message, MAX_TEXT);
        w.u32(self.detected_by);
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Failure {
            kind: kind_from_code(r.u32()?)?,
            rank: r.option(|r| r.u32())?,
            host: r.text(MAX_CALL)?,
            seq: r.option(|r| r.u64())?,
            collective: r.text(MAX_CALL)?,
            phase: r.text(MAX_CALL)?,
            message: r.text(MAX_TEXT)?,
            detected_by: r.u32()?,
        })
    }
}

fn kind_from_code(code: u32) -> Result<ErrorKind, Malformed> {
    [
        ErrorKind::Unhandled,
        ErrorKind::System,
        ErrorKind::Internal,
        ErrorKind::InvalidArgument,
        ErrorKind::InvalidUsage,
        ErrorKind::Remote,
        ErrorKind::InProgress,
        ErrorKind::NotSupported,
        ErrorKind::Timeout,
        ErrorKind::Aborted,
    ]
    .into_iter()
    .find(|kind| kind.code() == code)
    .ok_or(Malformed("an unknown error kind"))
}

/// A rank that has not entered the call that others wait in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LateRank {
    /// The rank.
    pub(crate) rank: u32,
    /// Its host.
    pub(crate) host: String,
    /// How many calls it has ended; `None` when it did not answer.
    pub(crate) completed: Option<u64>,
    /// The call it is in.
    pub(crate) current: Option<CallRecord>,
}

/// Who has not entered a call, as the root found out last.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct LateReport {
    /// The call.
    pub(crate) seq: u64,
    /// How many ranks are missing.
    pub(crate) count: u32,
    /// The first of them.
    pub(crate) ranks: Vec<LateRank>,
}

impl LateReport {
    /// More late ranks than this are only counted.
    pub(crate) const SHOWN: usize = 32;

    /// One sentence for an error text.
    pub(crate) fn describe(&self) -> String {
        use std::fmt::Write as _;
        if self.count == 0 {
            return format!("all ranks have entered call {}", self.seq);
        }
        let ranks: Vec<u32> = self.ranks.iter().map(|l| l.rank).collect();
        let total = usize::try_from(self.count).unwrap_or(usize::MAX);
        let list = super::tree::describe_ranks(&ranks, total);
        let mut text = match total {
            1 => format!("rank {list} has not entered call {}", self.seq),
            _ => format!("ranks {list} have not entered call {}", self.seq),
        };
        for late in self.ranks.iter().take(4) {
            let _ = match (&late.completed, &late.current) {
                (None, _) => write!(text, "; rank {} on {} does not answer", late.rank, late.host),
                (Some(_), Some(call)) => {
                    write!(
                        text,
                        "; rank {} on {} is in call {} {}",
                        late.rank, late.host, call.seq, call.text
                    )
                }
                (Some(n), None) => {
                    write!(
                        text,
                        "; rank {} on {} is outside the library after {n} calls",
                        late.rank, late.host
                    )
                }
            };
        }
        text
    }

    pub(crate) fn encode(&self, w: &mut Writer) {
        w.u64(self.seq).u32(self.count);
        super::wire::put_list(w, &self.ranks, |w, late| {
            w.u32(late.rank)
                .text(&late.host, MAX_CALL)
                .option(late.completed, |w, n| {
                    w.u64(n);
                });
            w.option(late.current.as_ref(), |w, call| call.encode(w));
        });
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(LateReport {
            seq: r.u64()?,
            count: r.u32()?,
            ranks: r.list(Self::SHOWN, |r| {
                Ok(LateRank {
                    rank: r.u32()?,
                    host: r.text(MAX_CALL)?,
                    completed: r.option(|r| r.u64())?,
                    current: r.option(CallRecord::decode)?,
                })
            })?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call() -> CallRecord {
        CallRecord {
            seq: 17,
            digest: 9,
            text: "AllReduce count=1001 float32 sum".into(),
            refused: Some("root".into()),
            phase: "reduce".into(),
        }
    }

    #[test]
    fn a_failure_becomes_an_error_with_its_context() {
        let failure = Failure::new(ErrorKind::Remote, 1, "rank 2 went silent")
            .by(2, "node7")
            .during(Some(&call()));
        let error = failure.to_error();
        assert_eq!(error.kind(), ErrorKind::Remote);
        assert_eq!(error.get("rank"), Some("2"));
        assert_eq!(error.get("host"), Some("node7"));
        assert_eq!(error.get("seq"), Some("17"));
        assert_eq!(error.get("collective"), Some("AllReduce count=1001 float32 sum"));
        assert_eq!(error.get("phase"), Some("reduce"));
        assert_eq!(error.get("detected_by"), Some("1"));
    }

    #[test]
    fn failures_and_late_reports_travel() {
        let mut failure = Failure::new(ErrorKind::Timeout, 4, "x".repeat(5000));
        let mut w = Writer::new();
        failure.encode(&mut w);
        failure.message.truncate(2048);
        let bytes = w.finish();
        assert_eq!(Failure::decode(&mut Reader::new(&bytes)), Ok(failure));

        let late = LateRank {
            rank: 3,
            host: "n1".into(),
            completed: Some(16),
            current: Some(call()),
        };
        let report = LateReport {
            seq: 17,
            count: 5,
            ranks: vec![late],
        };
        let mut w = Writer::new();
        report.encode(&mut w);
        let bytes = w.finish();
        assert_eq!(LateReport::decode(&mut Reader::new(&bytes)), Ok(report.clone()));
        let text = report.describe();
        assert!(
            text.starts_with("ranks 3 and 4 more have not entered call 17; rank 3 on n1 is in call 17"),
            "{text}"
        );
        assert!(kind_from_code(11).is_err() && kind_from_code(0).is_err());
    }
}
