//! The active end of a channel that is not there yet: tries the peer's addresses in turn until one proves itself.

use crate::handshake::{Handshake, Nonce, Purpose, Refusal};
use crate::options::Options;
use crate::socket::{self, Moved};
use infiniccl_plugin_api::Status;
use rustix::event::epoll;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// How long one of several addresses may take to answer at all, in the first round; doubled in each later one.
const FIRST_OPEN: Duration = Duration::from_millis(500);
/// How long one of several addresses may take to prove itself, in the first round; doubled in each later one. The
/// peer answers only while its rank polls, so it is no sign of anything if that takes a while.
const FIRST_PROVE: Duration = Duration::from_secs(2);
/// Pause after the first round in which nobody answered; doubled up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// After so many rounds in which everybody who was asked refused in terms, nothing else is to be expected.
const ROUNDS_OF_REFUSAL: u32 = 4;

/// What a connector needs from its worker.
pub(crate) struct Surroundings<'a> {
    pub(crate) epoll: BorrowedFd<'a>,
    pub(crate) options: &'a Options,
    /// What events of its sockets are to carry.
    pub(crate) event: u64,
    pub(crate) now: Instant,
    /// A fresh random number for each call.
    pub(crate) nonce: fn() -> Nonce,
}

/// Where an attempt stands.
#[derive(Debug)]
pub(crate) enum Advance {
    Pending,
    /// This socket leads to the peer; it is in the epoll set.
    Proven(OwnedFd),
    /// No use, for this reason.
    Failed(Status, String),
}

#[derive(Debug)]
struct Candidate {
    address: SocketAddr,
    tries: u32,
    last: String,
}

#[derive(Debug)]
enum State {
    /// Until then, nothing; then the current candidate.
    Pausing(Instant),
    /// The connection is being opened.
    Opening(OwnedFd, Instant),
    /// It is open; the ends prove themselves.
    Proving(OwnedFd, Box<Handshake>, Instant),
}

/// An attempt to reach a worker.
#[derive(Debug)]
pub(crate) struct Connector {
    purpose: Purpose,
    candidates: Vec<Candidate>,
    current: usize,
    round: u32,
    /// Refusals in terms during this round, and rounds on end that had nothing else.
    refusals: usize,
    rounds_of_refusal: u32,
    started: Instant,
    deadline: Instant,
    state: State,
    /// An event came, or nobody looked yet.
    pub(crate) stirred: bool,
}

impl Connector {
    /// Looks for `purpose.worker` at `addresses`, best first.
    pub(crate) fn new(purpose: Purpose, addresses: Vec<SocketAddr>, now: Instant, timeout: Duration) -> Self {
        let candidate = |address| Candidate {
            address,
            tries: 0,
            last: String::new(),
        };
        Self {
            purpose,
            candidates: addresses.into_iter().map(candidate).collect(),
            current: 0,
            round: 0,
            refusals: 0,
            rounds_of_refusal: 0,
            started: now,
            deadline: crate::time::after(now, timeout),
            state: State::Pausing(now),
            stirred: true,
        }
    }

    /// When it wants to be looked at without an event.
    pub(crate) fn next(&self) -> Instant {
        let (State::Pausing(until) | State::Opening(_, until) | State::Proving(_, _, until)) = self.state;
        until.min(self.deadline)
    }

    /// One line on where it stands.
    pub(crate) fn describe(&self) -> String {
        let candidate = self.candidates.get(self.current);
        let mut text = match candidate {
            Some(candidate) => {
                format!(
                    "connecting to rank {} at {} (try {})",
                    self.purpose.to,
                    candidate.address,
                    candidate.tries.max(1)
                )
            }
            None => format!("connecting to rank {}", self.purpose.to),
        };
        self.report(&mut text);
        text
    }

    /// Goes on as far as that is possible without waiting.
    pub(crate) fn advance(&mut self, around: &Surroundings<'_>) -> Advance {
        self.stirred = false;
        loop {
            if around.now >= self.deadline {
                let waited = (around.now - self.started).as_secs_f64();
                let waiting = match self.state {
                    State::Pausing(_) => None,
                    State::Opening(..) => Some("no answer yet"),
                    State::Proving(..) => Some("connected, but the peer has not proved itself yet"),
                };
                if let (Some(waiting), Some(candidate)) = (waiting, self.candidates.get_mut(self.current)) {
                    candidate.last = waiting.into();
                }
                return self.fail(Status::TIMEOUT, format!("within {waited:.1} s"), around);
            }
            let step = match &mut self.state {
                State::Pausing(until) if around.now < *until => return Advance::Pending,
                State::Pausing(_) => self.open(around),
                State::Opening(socket, until) => match opened(socket) {
                    Ok(true) => Step::Opened,
                    Ok(false) if around.now < *until => return Advance::Pending,
                    Ok(false) => Step::Missed(String::from("no answer"), false),
                    Err(errno) => Step::Missed(std::io::Error::from(errno).to_string(), false),
                },
                State::Proving(socket, handshake, until) => match shake(socket.as_fd(), handshake) {
                    Shaken::Proven(_) => Step::Proven,
                    Shaken::Pending if around.now < *until => return Advance::Pending,
                    Shaken::Pending => Step::Missed("connected, but nobody proved itself".into(), false),
                    Shaken::Refused(refusal) => Step::Missed(refusal.to_string(), true),
                    Shaken::Lost(text) => Step::Missed(text, false),
                },
            };
            match step {
                Step::Again => {}
                Step::Opened => self.prove(around),
                Step::Proven => {
                    if let State::Proving(socket, ..) =
                        std::mem::replace(&mut self.state, State::Pausing(self.deadline))
                    {
                        return Advance::Proven(socket);
                    }
                }
                Step::Missed(text, refused) => {
                    if let Some(end) = self.miss(text, refused, around) {
                        return end;
                    }
                }
            }
        }
    }

    /// Starts on the current candidate.
    fn open(&mut self, around: &Surroundings<'_>) -> Step {
        let Some(candidate) = self.candidates.get_mut(self.current) else {
            return Step::Missed("there is no address to try".into(), true);
        };
        candidate.tries += 1;
        let limit = self.limit(FIRST_OPEN, around);
        let address = self.candidates[self.current].address;
        let opened = socket::create(&address).and_then(|socket| {
            socket::configure(socket.as_fd(), around.options)?;
            let connected = match rustix::net::connect(&socket, &address) {
                Ok(()) => true,
                // An interrupted connect goes on by itself.
                Err(Errno::INPROGRESS | Errno::INTR) => false,
                Err(errno) => return Err(errno),
            };
            let interest = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
            epoll::add(
                around.epoll,
                &socket,
                epoll::EventData::new_u64(around.event),
                interest,
            )?;
            Ok((socket, connected))
        });
        match opened {
            Ok((socket, connected)) => {
                self.state = State::Opening(socket, limit);
                if connected { Step::Opened } else { Step::Again }
            }
            Err(errno) => Step::Missed(std::io::Error::from(errno).to_string(), false),
        }
    }

    /// Starts the handshake on the connection that was opened.
    fn prove(&mut self, around: &Surroundings<'_>) {
        let limit = self.limit(FIRST_PROVE, around);
        let handshake = Handshake::connecting(&around.options.secret, self.purpose, (around.nonce)());
        let state = std::mem::replace(&mut self.state, State::Pausing(around.now));
        if let State::Opening(socket, _) = state {
            self.state = State::Proving(socket, Box::new(handshake), limit);
        }
    }

    /// How long the current candidate may take for something; the only one may take all the time there is.
    fn limit(&self, first: Duration, around: &Surroundings<'_>) -> Instant {
        match self.candidates.len() {
            0 | 1 => self.deadline,
            _ => crate::time::after(around.now, first * (1 << self.round.min(6))),
        }
    }

    /// The current candidate did not lead to the peer; goes to the next, after a pause if it was the last.
    fn miss(&mut self, text: String, refused: bool, around: &Surroundings<'_>) -> Option<Advance> {
        self.leave(around.epoll, State::Pausing(around.now));
        if let Some(candidate) = self.candidates.get_mut(self.current) {
            candidate.last = text;
        }
        self.refusals += usize::from(refused);
        self.current += 1;
        if self.current < self.candidates.len() {
            return None;
        }
        let only_refusals = self.refusals > 0 && self.refusals >= self.candidates.len();
        self.rounds_of_refusal = if only_refusals {
            self.rounds_of_refusal + 1
        } else {
            0
        };
        if self.rounds_of_refusal >= ROUNDS_OF_REFUSAL {
            return Some(self.fail(
                Status::REMOTE,
                "since everyone who answers refuses".into(),
                around,
            ));
        }
        let pause = LONGEST_PAUSE.min(FIRST_PAUSE * (1 << self.round.min(10)));
        // Between half and all of it, so that ranks that started together do not return together.
        let [low, high, ..] = (around.nonce)();
        let share = u32::from(u16::from_le_bytes([low, high]));
        let pause = pause / 2 + pause * share / (2 * u32::from(u16::MAX));
        self.state = State::Pausing(crate::time::after(around.now, pause));
        (self.current, self.refusals) = (0, 0);
        self.round += 1;
        None
    }

    /// Drops the socket in use, if there is one.
    fn leave(&mut self, epoll: BorrowedFd<'_>, next: State) {
        if let State::Opening(socket, _) | State::Proving(socket, ..) =
            std::mem::replace(&mut self.state, next)
        {
            // A forked child may hold the socket too, so that closing it would not take it out of the set.
            let _ = rustix::event::epoll::delete(epoll, &socket);
        }
    }

    /// Drops everything.
    pub(crate) fn give_up(&mut self, epoll: BorrowedFd<'_>) {
        self.leave(epoll, State::Pausing(self.deadline));
    }

    fn fail(&mut self, status: Status, how: String, around: &Surroundings<'_>) -> Advance {
        self.leave(around.epoll, State::Pausing(self.deadline));
        let mut text = format!(
            "no connection to rank {} (lane {}) {how}",
            self.purpose.to, self.purpose.lane
        );
        self.report(&mut text);
        Advance::Failed(status, text)
    }

    /// Appends what became of each candidate that was tried.
    fn report(&self, text: &mut String) {
        let mut separator = ": ";
        for candidate in self
            .candidates
            .iter()
            .filter(|candidate| !candidate.last.is_empty())
        {
            let plural = if candidate.tries == 1 { "y" } else { "ies" };
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "{separator}{}: {} ({} tr{plural})",
                candidate.address, candidate.last, candidate.tries
            );
            separator = "; ";
        }
    }
}

enum Step {
    Again,
    Opened,
    Proven,
    /// Why, and whether the other end refused in terms.
    Missed(String, bool),
}

/// Whether an opening connection is open.
fn opened(socket: &OwnedFd) -> Result<bool, Errno> {
    rustix::net::sockopt::socket_error(socket)??;
    match rustix::net::getpeername(socket) {
        Ok(_) => Ok(true),
        Err(Errno::NOTCONN) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// What an attempt on a handshake did.
#[derive(Debug)]
pub(crate) enum Shaken {
    Pending,
    Proven(Purpose),
    Refused(Refusal),
    Lost(String),
}

/// Moves a handshake's bytes as far as that is possible without waiting.
pub(crate) fn shake(socket: BorrowedFd<'_>, handshake: &mut Handshake) -> Shaken {
    let lost = |errno| Shaken::Lost(format!("connected, then {}", std::io::Error::from(errno)));
    loop {
        while !handshake.output().is_empty() {
            match socket::send_from(socket, handshake.output()) {
                Moved::Bytes(count) => handshake.wrote(count),
                Moved::Blocked => return Shaken::Pending,
                Moved::Broken(errno) => {
                    return match handshake.refused_in_any_case() {
                        Some(refusal) => Shaken::Refused(refusal),
                        None => lost(errno),
                    };
                }
            }
        }
        if let Some(purpose) = handshake.proven() {
            return Shaken::Proven(purpose);
        }
        if let Some(refusal) = handshake.refused() {
            return Shaken::Refused(refusal);
        }
        let mut bytes = [0; 128];
        let wanted = handshake.wants().min(bytes.len());
        match socket::receive_into(socket, &mut bytes[..wanted]) {
            Moved::Bytes(0) => return Shaken::Lost("connected, then closed before it proved itself".into()),
            Moved::Bytes(count) => handshake.read(&bytes[..count]),
            Moved::Blocked => return Shaken::Pending,
            Moved::Broken(errno) => return lost(errno),
        }
    }
}
