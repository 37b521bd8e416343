//! The messages of the control tree and of arrival, and their encoding.

use super::report::{CallRecord, Failure, LateReport};
use super::wire::{Malformed, Reader, Writer, put_list};

/// Largest record that one rank may give to an exchange.
pub(crate) const MAX_BLOB: usize = 1 << 20;
/// Records travel in batches of about this size, so that small ones share frames and large ones do not pile up.
pub(crate) const BATCH: usize = 256 << 10;
const MAX_WHAT: usize = 64;
const MAX_ENTRIES: usize = 1 << 16;
const MAX_MISSING: usize = 64;

/// One rank's contribution to an exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) rank: u32,
    /// What this rank believes the exchange is for.
    pub(crate) what: String,
    pub(crate) blob: Vec<u8>,
}

/// A rank's answer to the question what it did as call `seq`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It called this.
    Called(CallRecord),
    /// It has not come there: how many calls it ended, and the one it is in.
    NotYet {
        completed: u64,
        current: Option<CallRecord>,
    },
    /// It has, so long ago that the record is gone.
    Forgotten,
}

/// What travels over the links of the control tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Message {
    /// Nothing but a sign of life.
    Beat,
    /// This side will close the connection; that is no death.
    Goodbye,
    /// Upwards: contributions to an exchange.
    Gather { round: u64, entries: Vec<Entry> },
    /// Downwards: everybody's contributions.
    Spread {
        round: u64,
        entries: Vec<(u32, Vec<u8>)>,
    },
    /// Downwards: an exchange is waiting for these ranks.
    Waiting {
        round: u64,
        count: u32,
        missing: Vec<u32>,
    },
    /// Both ways, to everybody: the communicator is unusable.
    Fail(Failure),
    /// Upwards: `rank` makes no progress in call `seq`; with `peer`, their digests differed in a data message.
    Stalled { rank: u32, seq: u64, peer: Option<u32> },
    /// Downwards: what did you call as `seq`?
    Ask { inquiry: u64, seq: u64 },
    /// Upwards: the answer of `rank`.
    Answer { inquiry: u64, rank: u32, answer: Answer },
    /// Downwards: who has not entered a call.
    Late(LateReport),
    /// Upwards, and to the children of the rank: it is done with the communicator, after this many calls.
    Left { rank: u32, calls: u64 },
    /// Downwards: all are done.
    AllLeft,
}

impl Message {
    /// The encoding, which begins with the kind of message.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        match self {
            Message::Beat => {
                w.u8(0);
            }
            Message::Goodbye => {
                w.u8(1);
            }
            Message::Gather { round, entries } => {
                w.u8(2).u64(*round);
                put_list(&mut w, entries, |w, e| {
                    w.u32(e.rank).text(&e.what, MAX_WHAT).bytes(&e.blob);
                });
            }
            Message::Spread { round, entries } => {
                w.u8(3).u64(*round);
                put_list(&mut w, entries, |w, (rank, blob)| {
                    w.u32(*rank).bytes(blob);
                });
            }
            Message::Waiting {
                round,
                count,
                missing,
            } => {
                w.u8(4).u64(*round).u32(*count);
                put_list(&mut w, &missing[..missing.len().min(MAX_MISSING)], |w, rank| {
                    w.u32(*rank);
                });
            }
            Message::Fail(failure) => {
                w.u8(5);
                failure.encode(&mut w);
            }
            Message::Stalled { rank, seq, peer } => {
                w.u8(6).u32(*rank).u64(*seq).option(*peer, |w, peer| {
                    w.u32(peer);
                });
            }
            Message::Ask { inquiry, seq } => {
                w.u8(7).u64(*inquiry).u64(*seq);
            }
            Message::Answer {
                inquiry,
                rank,
                answer,
            } => {
                w.u8(8).u64(*inquiry).u32(*rank);
                match answer {
                    Answer::Called(call) => call.encode(w.u8(0)),
                    Answer::NotYet { completed, current } => {
                        w.u8(1)
                            .u64(*completed)
                            .option(current.as_ref(), |w, call| call.encode(w));
                    }
                    Answer::Forgotten => {
                        w.u8(2);
                    }
                }
            }
            Message::Late(report) => {
                w.u8(9);
                report.encode(&mut w);
            }
            Message::Left { rank, calls } => {
                w.u8(10).u32(*rank).u64(*calls);
            }
            Message::AllLeft => {
                w.u8(11);
            }
        }
        w.finish()
    }

    /// Reads one message.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(bytes);
        let message = match r.u8()? {
            0 => Message::Beat,
            1 => Message::Goodbye,
            2 => Message::Gather {
                round: r.u64()?,
                entries: r.list(MAX_ENTRIES, |r| {
                    Ok(Entry {
                        rank: r.u32()?,
                        what: r.text(MAX_WHAT)?,
                        blob: r.bytes(MAX_BLOB)?.to_vec(),
                    })
                })?,
            },
            3 => Message::Spread {
                round: r.u64()?,
                entries: r.list(MAX_ENTRIES, |r| Ok((r.u32()?, r.bytes(MAX_BLOB)?.to_vec())))?,
            },
            4 => Message::Waiting {
                round: r.u64()?,
                count: r.u32()?,
                missing: r.list(MAX_MISSING, |r| r.u32())?,
            },
            5 => Message::Fail(Failure::decode(&mut r)?),
            6 => Message::Stalled {
                rank: r.u32()?,
                seq: r.u64()?,
                peer: r.option(|r| r.u32())?,
            },
            7 => Message::Ask {
                inquiry: r.u64()?,
                seq: r.u64()?,
            },
            8 => Message::Answer {
                inquiry: r.u64()?,
                rank: r.u32()?,
                answer: match r.u8()? {
                    0 => Answer::Called(CallRecord::decode(&mut r)?),
                    1 => Answer::NotYet {
                        completed: r.u64()?,
                        current: r.option(CallRecord::decode)?,
                    },
                    2 => Answer::Forgotten,
                    _ => return Err(Malformed("an unknown kind of answer")),
                },
            },
            9 => Message::Late(LateReport::decode(&mut r)?),
            10 => Message::Left {
                rank: r.u32()?,
                calls: r.u64()?,
            },
            11 => Message::AllLeft,
            _ => return Err(Malformed("an unknown kind of message")),
        };
        r.end()?;
        Ok(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    fn samples() -> Vec<Message> {
        let call = CallRecord {
            seq: 4,
            digest: 7,
            text: "Barrier".into(),
            refused: None,
            phase: "wait".into(),
        };
        let entry = |rank, what: &str, blob: &[u8]| Entry {
            rank,
            what: what.into(),
            blob: blob.to_vec(),
        };
        vec![
            Message::Beat,
            Message::Goodbye,
            Message::Gather {
                round: 3,
                entries: vec![entry(5, "agreement", b"x"), entry(90, "", b"")],
            },
            Message::Spread {
                round: u64::MAX,
                entries: vec![(1, vec![1; 300]), (0, vec![])],
            },
            Message::Waiting {
                round: 1,
                count: 70,
                missing: vec![3, 7],
            },
            Message::Fail(
                Failure::new(ErrorKind::Aborted, 2, "stop")
                    .by(1, "h")
                    .during(Some(&call)),
            ),
            Message::Stalled {
                rank: 1,
                seq: 2,
                peer: Some(3),
            },
            Message::Ask { inquiry: 1, seq: 2 },
            Message::Answer {
                inquiry: 1,
                rank: 2,
                answer: Answer::Called(call.clone()),
            },
            Message::Answer {
                inquiry: 1,
                rank: 2,
                answer: Answer::NotYet {
                    completed: 3,
                    current: Some(call),
                },
            },
            Message::Answer {
                inquiry: 1,
                rank: 2,
                answer: Answer::Forgotten,
            },
            Message::Late(LateReport {
                seq: 1,
                count: 0,
                ranks: vec![],
            }),
            Message::Left { rank: 8, calls: 5 },
            Message::AllLeft,
        ]
    }

    #[test]
    fn every_message_has_one_encoding_and_no_prefix_of_it_decodes() {
        for message in samples() {
            let bytes = message.encode();
            assert_eq!(Message::decode(&bytes), Ok(message.clone()));
            for end in 0..bytes.len() {
                assert!(
                    Message::decode(&bytes[..end]).is_err(),
                    "{message:?} cut at {end}"
                );
            }
            assert!(Message::decode(&[&bytes[..], &[0]].concat()).is_err());
        }
    }

    #[test]
    fn altered_messages_decode_to_something_bounded_or_not_at_all() {
        for message in samples() {
            let bytes = message.encode();
            for at in 0..bytes.len() {
                for flip in [1, 0x80, 0xff] {
                    let mut altered = bytes.clone();
                    altered[at] ^= flip;
                    // Whatever decodes is re-encoded without growing: nothing was made up from lengths alone.
                    if let Ok(other) = Message::decode(&altered) {
                        assert!(other.encode().len() <= altered.len());
                    }
                }
            }
        }
    }
}
