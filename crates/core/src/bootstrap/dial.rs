//! Connecting to another rank: every candidate address in turn, with handshake, back-off and one deadline.

use std::io::{self, ErrorKind as IoKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, Protocol, Socket, Type};

use super::handshake::{Claim, HandshakeError, Initiator, Purpose, Reply};
use super::keys::{Key, random_bytes};
use super::link::Link;
use crate::{Error, ErrorKind, Result};

/// First wait after a round in which no candidate answered; it doubles up to [`MAX_PAUSE`], with jitter.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const MAX_PAUSE: Duration = Duration::from_millis(500);
/// One connection attempt: beyond the kernel's first SYN retransmissions (1 s, 3 s).
const ATTEMPT: Duration = Duration::from_secs(4);
/// Whoever answers at all does so soon.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// Long attempts look around this often.
const SLICE: Duration = Duration::from_millis(50);
/// How often a warning says that connecting still fails.
const REPORT: Duration = Duration::from_secs(5);

/// Whom to connect to, and as whom.
pub(crate) struct Dial<'a> {
    /// Addresses in the order to try them.
    pub(crate) candidates: &'a [SocketAddr],
    /// The key that both sides prove.
    pub(crate) key: &'a Key,
    /// What the connection is for.
    pub(crate) purpose: Purpose,
    /// Who this rank is and whom it wants.
    pub(crate) claim: Claim,
    /// When to give up.
    pub(crate) deadline: Instant,
}

impl Dial<'_> {
    /// Connects and proves both sides. `interrupted` is asked several times a second, and its error ends the attempt.
    ///
    /// # Errors
    /// `Timeout` at the deadline, with what each candidate answered last; `Remote` when a proven peer refuses the claim.
    pub(crate) fn connect(&self, interrupted: &mut dyn FnMut() -> Result<()>) -> Result<Link> {
        let begun = Instant::now();
        let mut pause = FIRST_PAUSE;
        let mut last: Vec<Answers> = vec![Answers::default(); self.candidates.len()];
        let mut reported = begun;
        loop {
            for (address, answer) in self.candidates.iter().zip(&mut last) {
                match self.attempt(*address, interrupted)? {
                    Ok(link) => return Ok(link),
                    Err(Failed::Refused(reason)) => {
                        let rank = self.claim.rank;
                        let message = format!("{} refused rank {rank}: {reason}", self.target());
                        return Err(Error::new(ErrorKind::Remote, message).with("address", address));
                    }
                    Err(Failed::Transient(reason)) => answer.last = Some(reason),
                    Err(Failed::Unproven(reason)) => {
                        answer.last = Some(reason.clone());
                        answer.telling = Some(reason);
                    }
                }
                if Instant::now() >= self.deadline {
                    return Err(self.give_up(begun, &last));
                }
            }
            if reported.elapsed() >= REPORT {
                reported = Instant::now();
                tracing::warn!("still trying to reach {}: {}", self.target(), self.answers(&last));
            }
            let until = (Instant::now() + jitter(pause)?).min(self.deadline);
            while let Some(left) = remaining(until) {
                interrupted()?;
                std::thread::sleep(left.min(SLICE));
            }
            if Instant::now() >= self.deadline {
                return Err(self.give_up(begun, &last));
            }
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }

    fn target(&self) -> String {
        match self.purpose {
            Purpose::Arrive | Purpose::Probe => "the root of the job".to_owned(),
            Purpose::Link => format!("rank {}", self.claim.target),
        }
    }

    fn answers(&self, last: &[Answers]) -> String {
        let answers = self.candidates.iter().zip(last).map(|(address, answers)| {
            let last = answers.last.as_deref().unwrap_or("not tried");
            match &answers.telling {
                Some(telling) if telling != last => format!("{address}: {last}; before that: {telling}"),
                _ => format!("{address}: {last}"),
            }
        });
        answers.collect::<Vec<_>>().join("; ")
    }

    fn give_up(&self, begun: Instant, last: &[Answers]) -> Error {
        Error::new(
            ErrorKind::Timeout,
            format!(
                "rank {} could not reach {} within {:.1} s; {}",
                self.claim.rank,
                self.target(),
                begun.elapsed().as_secs_f64(),
                self.answers(last)
            ),
        )
        .with("rank", self.claim.rank)
    }

    fn attempt(
        &self,
        address: SocketAddr,
        interrupted: &mut dyn FnMut() -> Result<()>,
    ) -> Result<std::result::Result<Link, Failed>> {
        let limit = (Instant::now() + ATTEMPT).min(self.deadline);
        let stream = match open(address, limit, interrupted)? {
            Ok(stream) => stream,
            Err(e) => return Ok(Err(Failed::Transient(e.to_string()))),
        };
        let limit = (Instant::now() + HANDSHAKE).min(self.deadline);
        self.shake_hands(stream, limit, interrupted)
    }

    fn shake_hands(
        &self,
        stream: TcpStream,
        limit: Instant,
        interrupted: &mut dyn FnMut() -> Result<()>,
    ) -> Result<std::result::Result<Link, Failed>> {
        let transient = |reason: String| Ok(Err(Failed::Transient(reason)));
        let (mut machine, hello) =
            Initiator::start(self.key.clone(), self.purpose, self.claim, random_bytes()?);
        if let Err(e) = (&stream).write_all(&hello) {
            return transient(e.to_string());
        }
        let mut buffer = [0u8; 256];
        loop {
            let want = machine.wants().min(buffer.len());
            match (&stream).read(&mut buffer[..want]) {
                Ok(0) => return transient("the connection was closed during the handshake".into()),
                Ok(n) => match machine.receive(&buffer[..n]) {
                    Ok(Reply::Wait) => {}
                    Ok(Reply::Send(bytes)) => {
                        if let Err(e) = (&stream).write_all(&bytes) {
                            return transient(e.to_string());
                        }
                    }
                    Ok(Reply::Done(framing)) => return Ok(Ok(Link::new(stream, framing, Instant::now()))),
                    Err(HandshakeError::Refused(reason)) => return Ok(Err(Failed::Refused(reason))),
                    Err(error) => return Ok(Err(Failed::Unproven(error.to_string()))),
                },
                Err(e) if e.kind() == IoKind::Interrupted => {}
                Err(e) if e.kind() == IoKind::WouldBlock => {
                    let Some(left) = remaining(limit) else {
                        return transient("no answer to the handshake".into());
                    };
                    interrupted()?;
                    if let Err(e) = wait(&[(stream.as_fd(), PollFlags::IN)], left.min(SLICE)) {
                        return transient(e.to_string());
                    }
                }
                Err(e) => return transient(e.to_string()),
            }
        }
    }
}

/// What one candidate answered: last, and last among what tells more than an address that nobody serves.
#[derive(Clone, Default)]
struct Answers {
    last: Option<String>,
    telling: Option<String>,
}

enum Failed {
    /// A proven peer said no.
    Refused(String),
    /// Somebody answered and is not who was looked for; worth another try.
    Unproven(String),
    /// Worth another try.
    Transient(String),
}

/// A connected, non-blocking socket with the options of control connections.
fn open(
    address: SocketAddr,
    limit: Instant,
    interrupted: &mut dyn FnMut() -> Result<()>,
) -> Result<io::Result<TcpStream>> {
    let socket = match prepare(address) {
        Ok(socket) => socket,
        Err(e) => return Ok(Err(e)),
    };
    match socket.connect(&address.into()) {
        Ok(()) => {}
        // An interrupted connect goes on in the kernel, as one in progress does.
        Err(e) if in_progress(&e) => loop {
            let Some(left) = remaining(limit) else {
                return Ok(Err(IoKind::TimedOut.into()));
            };
            interrupted()?;
            match wait(&[(socket.as_fd(), PollFlags::OUT)], left.min(SLICE)) {
                Ok(false) => {}
                Ok(true) => match socket.take_error() {
                    Ok(None) => break,
                    Ok(Some(e)) | Err(e) => return Ok(Err(e)),
                },
                Err(e) => return Ok(Err(e)),
            }
        },
        Err(e) => return Ok(Err(e)),
    }
    let stream = TcpStream::from(socket);
    // A connect to a free local port from the ephemeral range can meet itself.
    let itself = matches!((stream.local_addr(), stream.peer_addr()), (Ok(a), Ok(b)) if a == b);
    Ok(if itself {
        Err(IoKind::ConnectionRefused.into())
    } else {
        Ok(stream)
    })
}

fn prepare(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM.cloexec(),
        Some(Protocol::TCP),
    )?;
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    Ok(socket)
}

fn in_progress(error: &io::Error) -> bool {
    error.kind() == IoKind::Interrupted
        || rustix::io::Errno::from_io_error(error) == Some(rustix::io::Errno::INPROGRESS)
}

/// Waits until one of `fds` is ready or `limit` has passed; says whether one is.
pub(crate) fn wait(fds: &[(BorrowedFd<'_>, PollFlags)], limit: Duration) -> io::Result<bool> {
    let mut polled: Vec<PollFd<'_>> = fds
        .iter()
        .map(|(fd, flags)| PollFd::from_borrowed_fd(*fd, *flags))
        .collect();
    let seconds = i64::try_from(limit.as_secs()).unwrap_or(i64::MAX);
    let timeout = Timespec {
        tv_sec: seconds,
        tv_nsec: i64::from(limit.subsec_nanos()),
    };
    match poll(&mut polled, Some(&timeout)) {
        Ok(n) => Ok(n > 0),
        // The caller looks at its deadline and comes back.
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

/// The time left until `deadline`, `None` once it has passed.
pub(crate) fn remaining(deadline: Instant) -> Option<Duration> {
    deadline
        .checked_duration_since(Instant::now())
        .filter(|left| !left.is_zero())
}

/// Between half of `pause` and all of it, so that ranks which started together do not come back together.
fn jitter(pause: Duration) -> Result<Duration> {
    let random = u32::from(u16::from_le_bytes(random_bytes()?));
    Ok(pause / 2 + (pause / 2) * random / (1 << 16))
}
