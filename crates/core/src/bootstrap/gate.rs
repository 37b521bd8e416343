//! The door of a control listener: accepts connections, runs their handshakes without blocking, and limits strangers.

use std::collections::BTreeMap;
use std::io::{ErrorKind as IoKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::handshake::{Claim, HandshakeError, Purpose, Request, Responder, Verdict};
use super::keys::{Key, random_bytes};
use super::link::Link;
use super::service::{Interest, Registrar};
use crate::Result;

/// Tokens below this belong to the gate's owner; those from here on to the gate.
pub(crate) const GATE_TOKENS: u32 = 1 << 30;
/// A handshake takes two round trips; whoever needs longer is cut off.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);
/// How long accepting pauses when the process is out of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
const MAX_UNPROVEN: usize = 256;
/// One round of accepting takes no more than this, so that a flood does not starve proven peers.
const ACCEPT_BATCH: usize = 64;

struct Unproven {
    stream: TcpStream,
    address: SocketAddr,
    responder: Responder,
    since: Instant,
}

/// A peer that proved the key, and was accepted.
pub(crate) struct Admitted {
    pub(crate) purpose: Purpose,
    pub(crate) claim: Claim,
    pub(crate) address: SocketAddr,
    pub(crate) link: Link,
}

/// What the gate has turned away so far.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Rejections {
    /// Connections that never proved the key.
    pub(crate) strangers: u64,
    /// The last peer that spoke the protocol and was turned away: its address and the reason.
    pub(crate) last: Option<String>,
}

/// Listeners and the handshakes in progress on them.
pub(crate) struct Gate {
    listeners: Vec<TcpListener>,
    key: Key,
    unproven: BTreeMap<u32, Unproven>,
    next_token: u32,
    limit: usize,
    paused_until: Option<Instant>,
    pub(crate) rejections: Rejections,
}

impl Gate {
    /// A gate over non-blocking `listeners`, whose visitors must hold `key`.
    pub(crate) fn new(listeners: Vec<TcpListener>, key: Key) -> Self {
        // A quarter of the descriptors at most, so that strangers cannot use up what the job needs.
        let descriptors = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let quarter = descriptors.map_or(MAX_UNPROVEN, |n| usize::try_from(n / 4).unwrap_or(MAX_UNPROVEN));
        Gate {
            listeners,
            key,
            unproven: BTreeMap::new(),
            next_token: 0,
            limit: quarter.clamp(8, MAX_UNPROVEN),
            paused_until: None,
            rejections: Rejections::default(),
        }
    }

    /// Starts to watch the listeners.
    pub(crate) fn open(&mut self, registrar: &Registrar) -> std::io::Result<()> {
        self.next_token = GATE_TOKENS;
        for listener in &self.listeners {
            registrar.add(listener.as_fd(), self.next_token, Interest::Read)?;
            self.next_token += 1;
        }
        Ok(())
    }

    /// Stops listening and drops all handshakes in progress.
    pub(crate) fn close(&mut self, registrar: &Registrar) {
        for unproven in std::mem::take(&mut self.unproven).into_values() {
            registrar.remove(unproven.stream.as_fd());
        }
        for listener in self.listeners.drain(..) {
            registrar.remove(listener.as_fd());
        }
    }

    /// Handles readiness of one of the gate's tokens. `decide` judges proven claims.
    pub(crate) fn ready(
        &mut self,
        registrar: &Registrar,
        token: u32,
        now: Instant,
        decide: &mut dyn FnMut(Purpose, &Claim, SocketAddr) -> Verdict,
    ) -> Option<Admitted> {
        let index = usize::try_from(token - GATE_TOKENS).unwrap_or(usize::MAX);
        if index < self.listeners.len() {
            self.accept(registrar, index, now);
            return None;
        }
        let mut unproven = self.unproven.remove(&token)?;
        match advance(&mut unproven, decide) {
            Ok(Progress::Waiting) => {
                self.unproven.insert(token, unproven);
                None
            }
            Ok(Progress::Accepted(purpose, claim, framing)) => {
                registrar.remove(unproven.stream.as_fd());
                let link = Link::new(unproven.stream, framing, now);
                Some(Admitted {
                    purpose,
                    claim,
                    address: unproven.address,
                    link,
                })
            }
            Ok(Progress::Refused(reason)) => {
                registrar.remove(unproven.stream.as_fd());
                tracing::warn!(address = %unproven.address, "refused a rank: {reason}");
                self.rejections.last = Some(format!("{} ({reason})", unproven.address));
                None
            }
            Err(error) => {
                registrar.remove(unproven.stream.as_fd());
                self.turn_away(&unproven, error.as_ref());
                None
            }
        }
    }

    /// Cuts off handshakes that take too long and resumes accepting after a pause; returns when to look again.
    pub(crate) fn tick(&mut self, registrar: &Registrar, now: Instant) -> Option<Instant> {
        if self.paused_until.is_some_and(|until| until <= now) {
            self.paused_until = None;
            for (listener, token) in self.listeners.iter().zip(GATE_TOKENS..) {
                let _ = registrar.add(listener.as_fd(), token, Interest::Read);
            }
        }
        // Tokens grow with age, so the oldest come first.
        while let Some(entry) = self.unproven.first_entry() {
            if entry.get().since + HANDSHAKE_LIMIT > now {
                break;
            }
            let unproven = entry.remove();
            registrar.remove(unproven.stream.as_fd());
            self.turn_away(&unproven, None);
        }
        let oldest = self
            .unproven
            .first_key_value()
            .map(|(_, u)| u.since + HANDSHAKE_LIMIT);
        [oldest, self.paused_until].into_iter().flatten().min()
    }

    fn accept(&mut self, registrar: &Registrar, index: usize, now: Instant) {
        for _ in 0..ACCEPT_BATCH {
            let (stream, address) = match self.listeners[index].accept() {
                Ok(accepted) => accepted,
                Err(e) if e.kind() == IoKind::WouldBlock => return,
                Err(e) if e.kind() == IoKind::Interrupted => continue,
                Err(e) if is_peers_fault(&e) => continue,
                Err(e) => return self.pause(registrar, now, &e),
            };
            if let Err(e) = self.admit(registrar, stream, address, now) {
                tracing::debug!(%address, "a connection could not be served: {e}");
            }
        }
    }

    fn admit(
        &mut self,
        registrar: &Registrar,
        stream: TcpStream,
        address: SocketAddr,
        now: Instant,
    ) -> Result<()> {
        let system = |e: std::io::Error| crate::Error::new(crate::ErrorKind::System, "accept").with_source(e);
        stream
            .set_nonblocking(true)
            .and_then(|()| stream.set_nodelay(true))
            .map_err(system)?;
        let responder = Responder::new(self.key.clone(), random_bytes()?);
        if self.unproven.len() >= self.limit
            && let Some((_, oldest)) = self.unproven.pop_first()
        {
            registrar.remove(oldest.stream.as_fd());
            self.turn_away(&oldest, None);
        }
        registrar
            .add(stream.as_fd(), self.next_token, Interest::Read)
            .map_err(system)?;
        self.unproven.insert(
            self.next_token,
            Unproven {
                stream,
                address,
                responder,
                since: now,
            },
        );
        self.next_token = self.next_token.checked_add(1).unwrap_or(GATE_TOKENS + (1 << 20));
        Ok(())
    }

    /// Out of descriptors or memory: the listener would be ready for ever, so it rests, and the oldest visitor goes.
    fn pause(&mut self, registrar: &Registrar, now: Instant, error: &std::io::Error) {
        tracing::warn!("accepting control connections pauses: {error}");
        for listener in &self.listeners {
            registrar.remove(listener.as_fd());
        }
        self.paused_until = Some(now + ACCEPT_PAUSE);
        // An honest handshake is done by then.
        let is_old = |unproven: &Unproven| unproven.since + 4 * ACCEPT_PAUSE <= now;
        if let Some(entry) = self.unproven.first_entry().filter(|entry| is_old(entry.get())) {
            let oldest = entry.remove();
            registrar.remove(oldest.stream.as_fd());
            self.turn_away(&oldest, None);
        }
    }

    fn turn_away(&mut self, unproven: &Unproven, error: Option<&HandshakeError>) {
        self.rejections.strangers += 1;
        let address = unproven.address;
        match error {
            Some(error @ (HandshakeError::Key | HandshakeError::Version(..))) => {
                tracing::warn!(%address, "turned away a connection: {error}");
                self.rejections.last = Some(format!("{address} ({error})"));
                if let Some(bytes) = unproven.responder.farewell(error) {
                    // A fresh socket takes so few bytes at once; if not, the peer sees the connection end.
                    let _ = (&unproven.stream).write(&bytes);
                }
            }
            Some(error) => tracing::debug!(%address, "turned away a connection: {error}"),
            None => tracing::debug!(%address, "turned away a connection that proved nothing in time"),
        }
    }
}

enum Progress {
    Waiting,
    Accepted(Purpose, Claim, super::frame::Framing),
    Refused(String),
}

/// Moves one handshake on. `Err(None)` is a connection that ended.
fn advance(
    unproven: &mut Unproven,
    decide: &mut dyn FnMut(Purpose, &Claim, SocketAddr) -> Verdict,
) -> std::result::Result<Progress, Option<HandshakeError>> {
    let mut buffer = [0u8; 256];
    loop {
        let want = unproven.responder.wants().min(buffer.len());
        let n = match unproven.stream.read(&mut buffer[..want]) {
            Ok(0) => return Err(None),
            Ok(n) => n,
            Err(e) if e.kind() == IoKind::Interrupted => continue,
            Err(e) if e.kind() == IoKind::WouldBlock => return Ok(Progress::Waiting),
            Err(_) => return Err(None),
        };
        match unproven.responder.receive(&buffer[..n]).map_err(Some)? {
            Request::Wait => {}
            Request::Send(bytes) => send_whole(&unproven.stream, &bytes)?,
            Request::Claimed(purpose, claim) => {
                let verdict = decide(purpose, &claim, unproven.address);
                let (bytes, framing) = unproven.responder.answer(&verdict);
                send_whole(&unproven.stream, &bytes)?;
                return Ok(match (verdict, framing) {
                    (Verdict::Refused(reason), _) => Progress::Refused(reason),
                    (Verdict::Accepted, Some(framing)) => Progress::Accepted(purpose, claim, framing),
                    (Verdict::Accepted, None) => return Err(None),
                });
            }
        }
    }
}

/// Sends a few bytes on a fresh socket; a peer whose window is closed already is given up.
fn send_whole(mut stream: &TcpStream, bytes: &[u8]) -> std::result::Result<(), Option<HandshakeError>> {
    stream.write_all(bytes).map_err(|_| None)
}

/// Errors of `accept` that belong to the one connection and not to the listener (accept(2), "Error handling").
fn is_peers_fault(error: &std::io::Error) -> bool {
    use rustix::io::Errno;
    matches!(
        Errno::from_io_error(error),
        Some(
            Errno::CONNABORTED
                | Errno::PROTO
                | Errno::PERM
                | Errno::NETDOWN
                | Errno::NOPROTOOPT
                | Errno::HOSTDOWN
                | Errno::NONET
                | Errno::HOSTUNREACH
                | Errno::OPNOTSUPP
                | Errno::NETUNREACH
        )
    )
}
