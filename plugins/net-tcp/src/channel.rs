//! A channel between two ranks: its phase, its two halves, and what is said of it.

use crate::connector::Connector;
use crate::options::Options;
use crate::receive::{End, Receiver};
use crate::send::SendQueue;
use crate::socket;
use infiniccl_plugin_api::{ChannelState, Completion, Status};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::time::Instant;

/// Whom a channel joins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ends {
    pub(crate) local: u32,
    pub(crate) remote: u32,
    pub(crate) lane: u32,
}

/// A channel.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) ends: Ends,
    pub(crate) sends: SendQueue,
    pub(crate) receiver: Receiver,
    pub(crate) phase: Phase,
    /// Whether it stands in the worker's list of channels with work.
    pub(crate) active: bool,
}

/// How far a channel is.
#[derive(Debug)]
pub(crate) enum Phase {
    /// This end looks for the other one.
    Connecting(Box<Connector>),
    /// This end waits for the other one.
    Accepting { since: Instant, deadline: Instant },
    /// Both ends proved themselves.
    Ready(Link),
    /// It ended.
    Over(Over),
}

/// The connection of a channel.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) socket: OwnedFd,
    /// `10.0.0.1:4000 -> 10.0.0.2:4001 (eth0)`.
    pub(crate) description: String,
    /// False: reading was tried in vain, and the kernel has not reported anything since.
    pub(crate) readable: bool,
    /// The same for writing.
    pub(crate) writable: bool,
    /// Something came while no receive waited.
    pub(crate) attention: bool,
    /// The kernel was told not to report what comes, since no receive waits and no more can be read ahead.
    pub(crate) muted: bool,
}

/// How a channel ended.
#[derive(Debug)]
pub(crate) struct Over {
    pub(crate) state: ChannelState,
    /// What later work completes with.
    pub(crate) status: Status,
    pub(crate) text: String,
}

impl Over {
    /// Unusable for good.
    pub(crate) fn failed(status: Status, text: impl Into<String>) -> Self {
        Self {
            state: ChannelState::FAILED,
            status,
            text: text.into(),
        }
    }
}

/// What stopped a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    Sending(Errno),
    Receiving(End),
}

/// What an attempt on a channel did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Progress {
    /// Bytes moved or something completed.
    pub(crate) moved: bool,
    /// What comes need not be reported until a receive is posted.
    pub(crate) mute: bool,
}

impl Channel {
    pub(crate) fn new(ends: Ends, phase: Phase) -> Self {
        Self {
            ends,
            sends: SendQueue::default(),
            receiver: Receiver::default(),
            phase,
            active: false,
        }
    }

    /// Whether an attempt could do anything, now or later.
    pub(crate) fn has_work(&self) -> bool {
        match &self.phase {
            Phase::Ready(link) => !self.sends.is_empty() || !self.receiver.is_idle() || link.attention,
            Phase::Connecting(_) | Phase::Accepting { .. } | Phase::Over(_) => false,
        }
    }

    /// Tries each direction once. `direct`: without asking what the kernel reported.
    #[inline]
    pub(crate) fn progress(
        &mut self,
        handle: u64,
        direct: bool,
        done: &mut VecDeque<Completion>,
    ) -> Result<Progress, Trouble> {
        let Phase::Ready(link) = &mut self.phase else {
            return Ok(Progress::default());
        };
        let mut progress = Progress::default();
        if !self.sends.is_empty() && (direct || link.writable) {
            match self.sends.step(link.socket.as_fd(), handle, done) {
                Ok(moved) => {
                    link.writable = moved;
                    progress.moved |= moved;
                }
                Err(errno) => return Err(self.last_words(handle, errno, done)),
            }
        }
        if !self.receiver.is_idle() {
            link.attention = false;
            if direct || link.readable || self.receiver.holds() {
                let moved = self
                    .receiver
                    .step(link.socket.as_fd(), handle, done)
                    .map_err(Trouble::Receiving)?;
                link.readable = moved;
                progress.moved |= moved;
            }
        } else if link.attention {
            link.attention = false;
            progress.mute = self
                .receiver
                .peek(link.socket.as_fd(), handle, done)
                .map_err(Trouble::Receiving)?;
        }
        Ok(progress)
    }

    /// Sending failed: takes what the peer said before, which may complete receives and tell why.
    pub(crate) fn last_words(
        &mut self,
        handle: u64,
        errno: Errno,
        done: &mut VecDeque<Completion>,
    ) -> Trouble {
        let Phase::Ready(link) = &self.phase else {
            return Trouble::Sending(errno);
        };
        let socket = link.socket.as_fd();
        loop {
            let looked = match self.receiver.is_idle() {
                true => self.receiver.peek(socket, handle, done).map(|_| false),
                false => self.receiver.step(socket, handle, done),
            };
            match looked {
                Ok(true) => {}
                Ok(false) => return Trouble::Sending(errno),
                Err(End::Eof | End::Broken(_)) => return Trouble::Sending(errno),
                Err(end) => return Trouble::Receiving(end),
            }
        }
    }

    /// Puts the trouble of a channel that was ready into words.
    pub(crate) fn explain(&self, trouble: Trouble, options: &Options) -> Over {
        let Phase::Ready(link) = &self.phase else {
            return Over::failed(Status::SYSTEM, "trouble on a channel without a connection");
        };
        let rank = self.ends.remote;
        let on = &link.description;
        match trouble {
            Trouble::Receiving(End::Goodbye) => Over {
                state: ChannelState::CLOSED,
                status: Status::REMOTE,
                text: format!("rank {rank} closed the channel ({on})"),
            },
            Trouble::Receiving(End::Eof) => Over::failed(
                Status::REMOTE,
                format!("rank {rank} is gone: its connection ended without a goodbye ({on})"),
            ),
            Trouble::Receiving(End::Broken(errno)) | Trouble::Sending(errno) => {
                let mut text = format!(
                    "the connection to rank {rank} is lost: {} ({on})",
                    std::io::Error::from(errno)
                );
                if errno == Errno::TIMEDOUT {
                    let silence = socket::silence(link.socket.as_fd());
                    let silence = silence
                        .map_or_else(|| "unknown".into(), |idle| format!("{:.1} s", idle.as_secs_f64()));
                    let keepalive = match options.keepalive {
                        0 => "off".into(),
                        seconds => format!("{seconds} s"),
                    };
                    text.push_str(&format!("; silent for {silence}, keepalive is {keepalive}"));
                }
                Over::failed(Status::REMOTE, text)
            }
            // The receive itself completed with MISMATCH; what was posted behind it never had its chance.
            Trouble::Receiving(End::Mismatch { posted, sent }) => Over::failed(
                Status::ABORTED,
                format!("rank {rank} sent {sent} bytes where this end's receive had {posted} ({on})"),
            ),
            Trouble::Receiving(End::PeerMismatch { posted }) => Over::failed(
                Status::REMOTE,
                format!("rank {rank}'s receive had {posted} bytes, which is not what this end sent ({on})"),
            ),
            Trouble::Receiving(End::Garbage) => Over::failed(
                Status::REMOTE,
                format!(
                    "what came from rank {rank} is not a message; something between the ends alters bytes ({on})"
                ),
            ),
        }
    }

    /// Ends the channel: all that waits, and later work, completes with the status of `over`.
    pub(crate) fn finish(&mut self, over: Over, handle: u64, done: &mut VecDeque<Completion>) {
        let status = over.status;
        self.phase = Phase::Over(over);
        self.sends.fail(status, handle, done);
        self.receiver.fail(status, handle, done);
    }

    /// State and text for the core.
    pub(crate) fn state(&self) -> (ChannelState, String) {
        let rank = self.ends.remote;
        match &self.phase {
            Phase::Connecting(connector) => (ChannelState::CONNECTING, connector.describe()),
            Phase::Accepting { since, .. } => (
                ChannelState::CONNECTING,
                format!(
                    "waiting for rank {rank} to connect, for {:.1} s so far",
                    since.elapsed().as_secs_f64()
                ),
            ),
            Phase::Ready(link) => (ChannelState::READY, link.description.clone()),
            Phase::Over(over) => (over.state, over.text.clone()),
        }
    }
}
