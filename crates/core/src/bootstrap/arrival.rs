//! The root's side of arrival: waits for all ranks of a job, tells each its parent, and watches until the tree stands.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use super::gate::{Admitted, GATE_TOKENS, Gate};
use super::handshake::{Claim, Purpose, Verdict};
use super::keys::{Key, random_bytes};
use super::link::{Fill, Link};
use super::record::{ArrivalMessage, MAX_MISSING, MemberRecord, Progress};
use super::report::Failure;
use super::service::{Interest, Registrar, Source};
use super::tree::Tree;
use crate::ErrorKind;

/// How often the waiting ranks are told how far the arrival is.
const PROGRESS: Duration = Duration::from_secs(1);
/// From when on, and how often, the waiting is worth a warning.
const WARN: Duration = Duration::from_secs(10);
/// How long a failed arrival stays to tell late ranks why.
const AFTERMATH: Duration = Duration::from_secs(3);
/// Worlds beyond this are refused: it is a damaged number.
pub(crate) const MAX_RANKS: u32 = 1 << 20;

struct Seat {
    link: Link,
    interest: Interest,
    address: SocketAddr,
    record: Option<MemberRecord>,
}

impl Seat {
    fn describe(&self) -> String {
        match &self.record {
            Some(record) => format!(
                "on {} (process {}, {})",
                record.host.hostname, record.pid, self.address
            ),
            None => format!("at {}", self.address),
        }
    }
}

enum Stage {
    /// Ranks arrive.
    Gathering,
    /// All are here and connect to their parents.
    Linking,
    /// The job cannot form; the time when this ends.
    Failed(Failure, Instant),
    /// Nothing left to do.
    Done,
}

/// The arrival of one job.
pub(crate) struct Arrival {
    gate: Gate,
    registrar: Option<Registrar>,
    seats: BTreeMap<u32, Seat>,
    size: Option<u32>,
    stage: Stage,
    first: Option<Instant>,
    told: Option<Instant>,
    warned: Option<Instant>,
}

impl Arrival {
    /// An arrival at `listeners`, for those who hold `key`. It waits without a limit of its own: the ranks have one.
    pub(crate) fn new(listeners: Vec<TcpListener>, key: Key) -> Self {
        Arrival {
            gate: Gate::new(listeners, key),
            registrar: None,
            seats: BTreeMap::new(),
            size: None,
            stage: Stage::Gathering,
            first: None,
            told: None,
            warned: None,
        }
    }

    fn gate_ready(&mut self, token: u32, now: Instant) {
        let Some(registrar) = self.registrar.clone() else {
            return;
        };
        let (stage, size, seats) = (&self.stage, self.size, &self.seats);
        let admitted = self.gate.ready(&registrar, token, now, &mut |purpose, claim, _| {
            decide(stage, size, seats, purpose, claim)
        });
        let Some(Admitted {
            purpose: Purpose::Arrive,
            claim,
            address,
            mut link,
        }) = admitted
        else {
            return;
        };
        if let Stage::Failed(failure, _) = &self.stage {
            link.queue(&ArrivalMessage::Failed(failure.clone()).encode(), now);
            let _ = link.flush();
            return;
        }
        if let Err(e) = registrar.add(link.fd(), claim.rank, Interest::Read) {
            tracing::warn!(%address, rank = claim.rank, "a rank that arrived cannot be watched: {e}");
            return;
        }
        self.size = Some(claim.size);
        self.first.get_or_insert(now);
        tracing::debug!(%address, rank = claim.rank, "a rank arrived");
        let seat = Seat {
            link,
            interest: Interest::Read,
            address,
            record: None,
        };
        self.seats.insert(claim.rank, seat);
    }

    fn seat_ready(&mut self, rank: u32, now: Instant) {
        let Some(seat) = self.seats.get_mut(&rank) else {
            return;
        };
        let filled = seat.link.fill(now);
        while let Some(seat) = self.seats.get_mut(&rank) {
            let message = match seat.link.next() {
                Ok(None) => break,
                Ok(Some(frame)) => ArrivalMessage::decode(&frame).map_err(|e| e.to_string()),
                Err(e) => Err(e.to_string()),
            };
            match message {
                Ok(ArrivalMessage::Record(record)) if seat.record.is_none() => {
                    seat.record = Some(record);
                    self.form(now);
                }
                Ok(ArrivalMessage::Linked) if matches!(self.stage, Stage::Linking) => self.linked(rank),
                Ok(ArrivalMessage::GiveUp(failure)) => {
                    self.remove(rank);
                    self.fail(failure, now);
                }
                Ok(_) => self.leave(rank, "it sent a message that is not its to send".into(), now),
                Err(e) => self.leave(rank, e, now),
            }
        }
        match filled {
            Ok(Fill::Open) => {}
            Ok(Fill::Closed) => self.leave(rank, "its process has ended".into(), now),
            Err(e) => self.leave(rank, e.to_string(), now),
        }
    }

    /// When every rank has given its record: tells each its parent and the seed of the communicator's key.
    fn form(&mut self, now: Instant) {
        let Some(size) = self.size else { return };
        let complete = self.seats.values().filter(|seat| seat.record.is_some()).count();
        if u32::try_from(complete) != Ok(size) {
            return;
        }
        let seed = match random_bytes() {
            Ok(seed) => seed,
            Err(e) => return self.fail(Failure::new(e.kind(), 0, e.message()), now),
        };
        let tree = Tree::new(size);
        let records: BTreeMap<u32, MemberRecord> = self
            .seats
            .iter()
            .filter_map(|(rank, seat)| Some((*rank, seat.record.clone()?)))
            .collect();
        for (rank, seat) in &mut self.seats {
            let parent = tree
                .parent(*rank)
                .and_then(|parent| records.get(&parent).cloned());
            seat.link
                .queue(&ArrivalMessage::World { seed, parent }.encode(), now);
        }
        self.stage = Stage::Linking;
        if let (Some(first), Some(_)) = (self.first, self.warned) {
            tracing::warn!(
                "all {size} ranks arrived after {:.1} s",
                now.duration_since(first).as_secs_f64()
            );
        }
        if let Some(registrar) = &self.registrar {
            self.gate.close(registrar);
        }
    }

    /// A rank needs the root no more; closing its connection tells it that the root took note.
    fn linked(&mut self, rank: u32) {
        self.remove(rank);
        if self.seats.is_empty() {
            self.stage = Stage::Done;
        }
    }

    fn remove(&mut self, rank: u32) -> Option<Seat> {
        let seat = self.seats.remove(&rank)?;
        if let Some(registrar) = &self.registrar {
            registrar.remove(seat.link.fd());
        }
        Some(seat)
    }

    /// A rank that arrived has gone again.
    fn leave(&mut self, rank: u32, why: String, now: Instant) {
        let Some(seat) = self.remove(rank) else { return };
        if matches!(self.stage, Stage::Gathering | Stage::Linking) {
            let host = seat
                .record
                .as_ref()
                .map_or_else(|| seat.address.to_string(), |r| r.host.hostname.clone());
            let message = format!(
                "rank {rank} {} left while the job was forming: {why}",
                seat.describe()
            );
            self.fail(Failure::new(ErrorKind::Remote, 0, message).by(rank, host), now);
        }
    }

    fn fail(&mut self, failure: Failure, now: Instant) {
        if matches!(self.stage, Stage::Failed(..) | Stage::Done) {
            return;
        }
        tracing::debug!("arrival failed: {}", failure.message);
        for seat in self.seats.values_mut() {
            seat.link
                .queue(&ArrivalMessage::Failed(failure.clone()).encode(), now);
        }
        self.stage = Stage::Failed(failure, now + AFTERMATH);
    }

    fn progress(&self) -> Progress {
        let size = self.size.unwrap_or(0);
        let missing = (0..size)
            .filter(|rank| !self.seats.contains_key(rank))
            .take(MAX_MISSING)
            .collect();
        let mut note = self.gate.rejections.last.clone().unwrap_or_default();
        if self.gate.rejections.strangers > 0 {
            let separator = if note.is_empty() { "" } else { "; " };
            note.push_str(&format!(
                "{separator}{} connections that proved nothing",
                self.gate.rejections.strangers
            ));
        }
        Progress {
            arrived: u32::try_from(self.seats.len()).unwrap_or(size),
            size,
            missing,
            note,
        }
    }

    /// Tells everybody how far the arrival is; returns when to do so again.
    fn tell(&mut self, now: Instant) -> Option<Instant> {
        let first = self.first.filter(|_| matches!(self.stage, Stage::Gathering))?;
        let due = self.told.unwrap_or(first) + PROGRESS;
        if now < due {
            return Some(due);
        }
        self.told = Some(now);
        let progress = self.progress();
        let waited = now.duration_since(first);
        if self.warned.unwrap_or(first) + WARN <= now {
            self.warned = Some(now);
            tracing::warn!("{} after {:.0} s", progress.describe(), waited.as_secs_f64());
        } else {
            tracing::info!("{} after {:.0} s", progress.describe(), waited.as_secs_f64());
        }
        let message = ArrivalMessage::Progress(progress).encode();
        self.seats
            .values_mut()
            .for_each(|seat| seat.link.queue(&message, now));
        Some(now + PROGRESS)
    }

    /// Sends what is queued, to the ranks of this process last: it may end as soon as it hears of a failure.
    fn flush(&mut self) {
        let Some(registrar) = &self.registrar else { return };
        let here = std::process::id();
        let is_here = |seat: &Seat| seat.record.as_ref().is_some_and(|record| record.pid == here);
        for turn in [false, true] {
            for (rank, seat) in self.seats.iter_mut().filter(|(_, seat)| is_here(seat) == turn) {
                // An error shows again when reading.
                let _ = seat.link.flush();
                let wanted = if seat.link.pending() {
                    Interest::ReadWrite
                } else {
                    Interest::Read
                };
                if wanted != seat.interest && registrar.modify(seat.link.fd(), *rank, wanted).is_ok() {
                    seat.interest = wanted;
                }
            }
        }
    }
}

/// Judges a proven claim.
fn decide(
    stage: &Stage,
    size: Option<u32>,
    seats: &BTreeMap<u32, Seat>,
    purpose: Purpose,
    claim: &Claim,
) -> Verdict {
    let Claim {
        rank, size: claimed, ..
    } = *claim;
    match (purpose, stage) {
        (Purpose::Probe, _) => return Verdict::Accepted,
        (Purpose::Link, _) => return Verdict::Refused("this is the root's address for arrivals".into()),
        // It hears of the failure in the same way as those that came in time.
        (Purpose::Arrive, Stage::Failed(..)) => return Verdict::Accepted,
        (Purpose::Arrive, Stage::Linking | Stage::Done) => {
            return Verdict::Refused(
                "this job is complete already: use a fresh unique id for each communicator".into(),
            );
        }
        (Purpose::Arrive, Stage::Gathering) => {}
    }
    if claimed == 0 || claimed > MAX_RANKS || rank >= claimed {
        return Verdict::Refused(format!("rank {rank} of {claimed} is not possible"));
    }
    if let Some(size) = size.filter(|size| *size != claimed) {
        let (first, seat) = seats.first_key_value().expect("the size came with a seat");
        return Verdict::Refused(format!(
            "rank {rank} says that the job has {claimed} ranks, rank {first} {} says {size}",
            seat.describe()
        ));
    }
    if let Some(seat) = seats.get(&rank) {
        return Verdict::Refused(format!(
            "rank {rank} has arrived already, from {}: two processes have the same rank, or two jobs the same id",
            seat.describe()
        ));
    }
    Verdict::Accepted
}

impl Source for Arrival {
    fn start(&mut self, registrar: Registrar, _: Instant) {
        if let Err(e) = self.gate.open(&registrar) {
            tracing::error!("the root cannot watch its listeners: {e}");
            self.stage = Stage::Done;
        }
        self.registrar = Some(registrar);
    }

    fn ready(&mut self, token: u32, now: Instant) {
        if token >= GATE_TOKENS {
            self.gate_ready(token, now);
        } else {
            self.seat_ready(token, now);
        }
        self.flush();
    }

    fn tick(&mut self, now: Instant) -> Option<Instant> {
        let told = self.tell(now);
        self.flush();
        let gate = self
            .registrar
            .as_ref()
            .and_then(|registrar| self.gate.tick(registrar, now));
        let end = match &self.stage {
            Stage::Failed(_, until) if *until <= now => {
                self.stage = Stage::Done;
                None
            }
            Stage::Failed(_, until) => Some(*until),
            _ => None,
        };
        [told, gate, end].into_iter().flatten().min()
    }

    fn finished(&self) -> bool {
        matches!(self.stage, Stage::Done)
    }

    fn panicked(&mut self) {
        self.stage = Stage::Done;
    }
}
