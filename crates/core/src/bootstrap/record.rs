//! What a rank tells the others about itself when it arrives, and the messages of arrival.

use std::net::SocketAddr;

use super::host_identity::HostIdentity;
use super::keys::KEY_BYTES;
use super::report::Failure;
use super::unique_id::{decode_address, encode_address};
use super::wire::{Malformed, Reader, Writer, put_list};

const MAX_NOTE: usize = 1024;
/// More missing ranks than this are only counted.
pub(crate) const MAX_MISSING: usize = 32;
/// How many addresses a rank may name.
const MAX_ADDRESSES: usize = 3;

/// One rank of a communicator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MemberRecord {
    /// Where it runs.
    pub(crate) host: HostIdentity,
    /// Its process.
    pub(crate) pid: u32,
    /// Where its children in the control tree find it, best first; empty when it has none.
    pub(crate) addresses: Vec<SocketAddr>,
}

impl MemberRecord {
    /// The record as bytes.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut w = Writer::new();
        self.encode(&mut w);
        w.finish()
    }

    /// Reads a record.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(bytes);
        let record = Self::decode(&mut r)?;
        r.end()?;
        Ok(record)
    }

    fn encode(&self, w: &mut Writer) {
        self.host.encode(w);
        w.u32(self.pid);
        put_list(
            w,
            &self.addresses[..self.addresses.len().min(MAX_ADDRESSES)],
            |w, address| {
                w.raw(&encode_address(address));
            },
        );
    }

    fn decode(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(MemberRecord {
            host: HostIdentity::decode(r)?,
            pid: r.u32()?,
            addresses: r.list(MAX_ADDRESSES, |r| {
                decode_address(&r.array()?)?.ok_or(Malformed("an empty address in a record"))
            })?,
        })
    }
}

/// How far the arrival has come.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Progress {
    pub(crate) arrived: u32,
    pub(crate) size: u32,
    /// The first missing ranks.
    pub(crate) missing: Vec<u32>,
    /// Who was turned away last, and why.
    pub(crate) note: String,
}

impl Progress {
    /// `41 of 64 ranks arrived; missing 3, 7-9`.
    pub(crate) fn describe(&self) -> String {
        let total = usize::try_from(self.size - self.arrived.min(self.size)).unwrap_or(usize::MAX);
        let missing = super::tree::describe_ranks(&self.missing, total);
        let mut text = format!(
            "{} of {} ranks arrived; missing {missing}",
            self.arrived, self.size
        );
        if !self.note.is_empty() {
            text.push_str("; turned away: ");
            text.push_str(&self.note);
        }
        text
    }
}

/// What travels between a rank and the root while the job forms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ArrivalMessage {
    /// To the root: this rank's record.
    Record(MemberRecord),
    /// To the root: the control tree works for this rank.
    Linked,
    /// To the root: this rank gives up; what it tells.
    GiveUp(Failure),
    /// To a rank: how far the arrival is.
    Progress(Progress),
    /// To a rank: everybody is here; the seed of the communicator's key, and the parent's record.
    World {
        seed: [u8; KEY_BYTES],
        parent: Option<MemberRecord>,
    },
    /// To a rank: the job cannot form.
    Failed(Failure),
}

impl ArrivalMessage {
    /// The encoding, which begins with the kind of message.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        match self {
            ArrivalMessage::Record(record) => record.encode(w.u8(0)),
            ArrivalMessage::Linked => {
                w.u8(1);
            }
            ArrivalMessage::GiveUp(failure) => failure.encode(w.u8(2)),
            ArrivalMessage::Progress(p) => {
                w.u8(3).u32(p.arrived).u32(p.size);
                put_list(
                    &mut w,
                    &p.missing[..p.missing.len().min(MAX_MISSING)],
                    |w, rank| {
                        w.u32(*rank);
                    },
                );
                w.text(&p.note, MAX_NOTE);
            }
            ArrivalMessage::World { seed, parent } => {
                w.u8(4)
                    .raw(seed)
                    .option(parent.as_ref(), |w, record| record.encode(w));
            }
            ArrivalMessage::Failed(failure) => failure.encode(w.u8(5)),
        }
        w.finish()
    }

    /// Reads one message.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(bytes);
        let message = match r.u8()? {
            0 => ArrivalMessage::Record(MemberRecord::decode(&mut r)?),
            1 => ArrivalMessage::Linked,
            2 => ArrivalMessage::GiveUp(Failure::decode(&mut r)?),
            3 => ArrivalMessage::Progress(Progress {
                arrived: r.u32()?,
                size: r.u32()?,
                missing: r.list(MAX_MISSING, |r| r.u32())?,
                note: r.text(MAX_NOTE)?,
            }),
            4 => ArrivalMessage::World {
                seed: r.array()?,
                parent: r.option(MemberRecord::decode)?,
            },
            5 => ArrivalMessage::Failed(Failure::decode(&mut r)?),
            _ => return Err(Malformed("an unknown kind of arrival message")),
        };
        r.end()?;
        Ok(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn messages_travel_and_no_prefix_of_them_decodes() {
        let record = MemberRecord {
            host: HostIdentity {
                id: 7,
                hostname: "n1/a".into(),
            },
            pid: 99,
            addresses: vec!["10.0.0.1:5".parse().unwrap(), "[fd00::1]:6".parse().unwrap()],
        };
        let progress = Progress {
            arrived: 41,
            size: 64,
            missing: vec![3, 7],
            note: "10.0.0.9:1 (no)".into(),
        };
        assert_eq!(
            progress.describe(),
            "41 of 64 ranks arrived; missing 3, 7 and 21 more; turned away: 10.0.0.9:1 (no)"
        );
        let failure = Failure::new(ErrorKind::Timeout, 3, "late");
        for message in [
            ArrivalMessage::Record(record.clone()),
            ArrivalMessage::Linked,
            ArrivalMessage::GiveUp(failure.clone()),
            ArrivalMessage::Progress(progress),
            ArrivalMessage::World {
                seed: [9; 32],
                parent: Some(record.clone()),
            },
            ArrivalMessage::World {
                seed: [9; 32],
                parent: None,
            },
            ArrivalMessage::Failed(failure),
        ] {
            let bytes = message.encode();
            assert_eq!(ArrivalMessage::decode(&bytes), Ok(message.clone()));
            for end in 0..bytes.len() {
                assert!(
                    ArrivalMessage::decode(&bytes[..end]).is_err(),
                    "{message:?} cut at {end}"
                );
            }
        }
        assert_eq!(MemberRecord::from_bytes(&record.to_bytes()), Ok(record));
    }
}
