//! The door: connections that came in and have not proved themselves, and those that did but are not expected yet.

use crate::channel::Ends;
use crate::connector::{Shaken, shake};
use crate::handshake::{Handshake, Purpose};
use crate::listener::{Incoming, Listener};
use crate::slab::Slab;
use crate::worker::Worker;
use infiniccl_plugin_api::LogLevel;
use rustix::fd::{AsFd, OwnedFd};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Most connections that have not even asked for this worker; a new one pushes out the oldest.
const MAX_SILENT: usize = 128;
/// Most that have, but have not proved themselves; likewise.
const MAX_GREETED: usize = 1024;
/// How long a connection may take to prove itself. A rank answers only while it polls, so this is not short.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most connections that proved themselves and wait for `accept`.
const MAX_PARKED: usize = 4096;
/// Connections taken from one listener in one pass.
const ACCEPTS: usize = 32;
/// Pause after the host ran out of descriptors or memory.
const PAUSE: Duration = Duration::from_millis(100);

/// A connection that has not proved itself.
#[derive(Debug)]
struct Stranger {
    socket: OwnedFd,
    from: Option<SocketAddr>,
    handshake: Handshake,
    deadline: Instant,
    stirred: bool,
}

/// A connection that proved itself before its channel was opened here.
#[derive(Debug)]
struct Parked {
    ends: Ends,
    socket: OwnedFd,
}

/// Everything between the listeners and the channels.
#[derive(Debug, Default)]
pub(crate) struct Door {
    pub(crate) listeners: Vec<Listener>,
    strangers: Slab<Stranger>,
    parked: Vec<Parked>,
    /// A listener may have connections.
    pub(crate) knocking: bool,
    /// Nothing is accepted before then.
    closed_until: Option<Instant>,
    /// Connections that were dropped, and what became of the last.
    dropped: u64,
    last_dropped: String,
}

impl Door {
    /// Whether connections are proving themselves.
    pub(crate) fn is_busy(&self) -> bool {
        self.knocking || self.strangers.len() > 0
    }

    /// An event concerns the stranger with this index.
    pub(crate) fn stir(&mut self, index: u32) {
        if let Some(stranger) = self.strangers.get_mut(index) {
            stranger.stirred = true;
        }
    }

    /// When it wants to be looked at without an event.
    pub(crate) fn next(&self) -> Option<Instant> {
        let strangers = self
            .strangers
            .indices()
            .filter_map(|index| self.strangers.get(index));
        let patience = strangers.map(|stranger| stranger.deadline).min();
        self.closed_until.into_iter().chain(patience).min()
    }

    /// The oldest of those who asked for this worker, or of those who did not, if there are `most` of them.
    fn oldest_beyond(&self, greeted: bool, most: usize) -> Option<u32> {
        let (mut count, mut oldest) = (0, None);
        for index in self.strangers.indices() {
            let Some(stranger) = self.strangers.get(index) else {
                continue;
            };
            if stranger.handshake.greeted() == greeted {
                count += 1;
                if oldest.is_none_or(|(deadline, _)| stranger.deadline < deadline) {
                    oldest = Some((stranger.deadline, index));
                }
            }
        }
        oldest.filter(|_| count >= most).map(|(_, index)| index)
    }

    /// Takes the connection of a channel that is being opened, if it is here already.
    pub(crate) fn claim(&mut self, ends: Ends) -> Option<OwnedFd> {
        let position = self.parked.iter().position(|parked| parked.ends == ends)?;
        Some(self.parked.remove(position).socket)
    }

    /// A sentence on those who were turned away, for a channel that waited in vain.
    pub(crate) fn gossip(&self) -> String {
        let listening: Vec<String> = self
            .listeners
            .iter()
            .map(|listener| listener.address.to_string())
            .collect();
        let mut text = match listening.is_empty() {
            true => "this worker does not listen".to_owned(),
            false => format!("listening on {}", listening.join(", ")),
        };
        match self.dropped {
            0 => {}
            1 => text.push_str(&format!(
                "; one connection was turned away: {}",
                self.last_dropped
            )),
            many => {
                text.push_str(&format!(
                    "; {many} connections were turned away, the last: {}",
                    self.last_dropped
                ));
            }
        }
        text
    }
}

impl Worker {
    /// Lets connections in and their handshakes go on; tells whether anything moved.
    pub(crate) fn answer_door(&mut self, now: Instant) -> bool {
        if self.door.closed_until.is_some_and(|until| now >= until) {
            self.door.closed_until = None;
            self.door.knocking = true;
        }
        let mut moved = false;
        if self.door.knocking && self.door.closed_until.is_none() {
            moved |= self.let_in(now);
        }
        let indices: Vec<u32> = self.door.strangers.indices().collect();
        for index in indices {
            moved |= self.question(index, now);
        }
        moved
    }

    fn let_in(&mut self, now: Instant) -> bool {
        let mut moved = false;
        self.door.knocking = false;
        for listener in 0..self.door.listeners.len() {
            for turn in 0.. {
                if turn == ACCEPTS {
                    self.door.knocking = true;
                    break;
                }
                match self.door.listeners[listener].accept() {
                    Incoming::Connection(socket, from) => self.greet(socket, from, now),
                    Incoming::Gone => {}
                    Incoming::Nothing => break,
                    Incoming::Exhausted(errno) => {
                        self.door.closed_until = Some(now + PAUSE);
                        let error = std::io::Error::from(errno);
                        self.host.line(
                            LogLevel::WARN,
                            format_args!("cannot accept connections for now: {error}"),
                        );
                        return moved;
                    }
                }
                moved = true;
            }
        }
        moved
    }

    fn greet(&mut self, socket: OwnedFd, from: Option<SocketAddr>, now: Instant) {
        for (greeted, most) in [(false, MAX_SILENT), (true, MAX_GREETED)] {
            if let Some(oldest) = self.door.oldest_beyond(greeted, most) {
                self.turn_away(oldest, "too many connections at once had not proved themselves");
            }
        }
        let handshake = Handshake::accepting(&self.options.secret, self.identity, crate::random::bytes());
        let stranger = Stranger {
            socket,
            from,
            handshake,
            deadline: now + PATIENCE,
            stirred: true,
        };
        let index = self.door.strangers.insert(stranger);
        let watched = match self.door.strangers.get(index) {
            Some(stranger) => self.events.watch_incoming(stranger.socket.as_fd(), index),
            None => Ok(()),
        };
        if let Err(error) = watched {
            self.turn_away(index, &error.text);
        }
    }

    fn question(&mut self, index: u32, now: Instant) -> bool {
        let Some(stranger) = self.door.strangers.get_mut(index) else {
            return false;
        };
        if std::mem::take(&mut stranger.stirred) {
            match shake(stranger.socket.as_fd(), &mut stranger.handshake) {
                Shaken::Pending => {}
                Shaken::Proven(purpose) => {
                    if let Some(stranger) = self.door.strangers.remove(index) {
                        self.welcome(purpose, stranger.socket);
                    }
                    return true;
                }
                Shaken::Refused(refusal) => {
                    self.turn_away(index, &refusal.to_string());
                    return true;
                }
                Shaken::Lost(text) => {
                    self.turn_away(index, &text);
                    return true;
                }
            }
        }
        if self
            .door
            .strangers
            .get(index)
            .is_some_and(|stranger| now >= stranger.deadline)
        {
            self.turn_away(index, "connected and said too little");
            return true;
        }
        false
    }

    /// A connection proved itself: it becomes the channel that waits for it, or waits for the channel.
    fn welcome(&mut self, purpose: Purpose, socket: OwnedFd) {
        let ends = Ends {
            local: purpose.to,
            remote: purpose.from,
            lane: purpose.lane,
        };
        if let Some(index) = self.waiting_for(ends) {
            self.establish(index, socket);
            return;
        }
        self.events.forget(socket.as_fd());
        // A peer that comes again has given up its earlier connection.
        self.door.parked.retain(|parked| parked.ends != ends);
        if self.door.parked.len() < MAX_PARKED {
            self.door.parked.push(Parked { ends, socket });
        }
    }

    /// Drops a connection and says so: the first time, and then each time their number has doubled.
    fn turn_away(&mut self, index: u32, why: &str) {
        let Some(stranger) = self.door.strangers.remove(index) else {
            return;
        };
        self.events.forget(stranger.socket.as_fd());
        let from = stranger
            .from
            .map_or_else(|| "an unknown address".to_owned(), |from| from.to_string());
        self.door.dropped += 1;
        self.door.last_dropped = format!("{from}: {why}");
        if self.door.dropped.is_power_of_two() {
            self.host.line(
                LogLevel::INFO,
                format_args!(
                    "turned a connection away, {} so far; the last: {}",
                    self.door.dropped, self.door.last_dropped
                ),
            );
        }
    }
}
