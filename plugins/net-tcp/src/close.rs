//! How channels and workers end: at once, in good order, or because of trouble.

use crate::channel::{Channel, Over, Phase};
use crate::error::{Failure, Result};
use crate::socket::{self, Moved};
use crate::wire::Kind;
use crate::worker::Worker;
use infiniccl_plugin_api::{ChannelState, Status};
use rustix::fd::AsFd;
use rustix::net::Shutdown;
use std::time::{Duration, Instant};

/// Unread bytes that are thrown away before a socket is closed: closing with unread bytes resets the connection, and
/// that may overtake the goodbye.
const DISCARDS: usize = 16;

/// Longest sleep in which nobody looks whether the process is shutting down.
const NAP: Duration = Duration::from_millis(50);

impl Worker {
    /// Ends a channel at once: what waits completes with ABORTED, and the peer notices.
    pub(crate) fn channel_abort(&mut self, handle: u64) -> Result<()> {
        let index = self.find(handle)?;
        let Some(channel) = self.channels.get(index) else {
            return Ok(());
        };
        if matches!(channel.phase, Phase::Over(_)) {
            return Ok(());
        }
        if let Phase::Ready(link) = &channel.phase {
            socket::reset_on_close(link.socket.as_fd());
        }
        let text = format!(
            "the channel to rank {} was aborted by this end",
            channel.ends.remote
        );
        self.finish(index, Over::failed(Status::ABORTED, text));
        Ok(())
    }

    /// Ends a channel in good order: pending sends leave first, then a goodbye; receives that still wait complete
    /// with ABORTED. After `timeout` it is aborted. The handle is gone in any case.
    pub(crate) fn channel_close(&mut self, handle: u64, timeout: Duration) -> Result<()> {
        let index = self.find(handle)?;
        let flushed = self.say_goodbye(&[index], timeout);
        if flushed {
            self.drop_channel(index);
            return Ok(());
        }
        let text = match self.channels.get(index) {
            Some(channel) => {
                let (_, detail) = channel.state();
                format!(
                    "sends to rank {} had not left within {timeout:?}: {detail}",
                    channel.ends.remote
                )
            }
            None => String::new(),
        };
        self.channel_abort(handle)?;
        self.drop_channel(index);
        Err(Failure {
            status: Status::TIMEOUT,
            text,
        })
    }

    /// Ends all channels in good order, together, and then the worker.
    pub(crate) fn close(mut self, timeout: Duration) -> Result<()> {
        let indices: Vec<u32> = self.channels.indices().collect();
        let flushed = self.say_goodbye(&indices, timeout);
        let mut late = Vec::new();
        for index in indices {
            if let Some(channel) = self.channels.get(index)
                && unfinished(channel)
            {
                late.push(channel.ends.remote.to_string());
                self.channel_abort(self.channels.handle(index))?;
            }
            self.drop_channel(index);
        }
        match flushed {
            true => Ok(()),
            false => Err(Failure {
                status: Status::TIMEOUT,
                text: format!(
                    "sends had not left within {timeout:?}; to rank {}",
                    late.join(", ")
                ),
            }),
        }
    }

    /// Sends what waits and a goodbye on each channel; tells whether all of that left in time.
    fn say_goodbye(&mut self, indices: &[u32], timeout: Duration) -> bool {
        let deadline = crate::time::after(Instant::now(), timeout);
        for index in indices {
            let Some(channel) = self.channels.get_mut(*index) else {
                continue;
            };
            // A channel that has neither connection nor messages has nothing to say.
            let speaks = matches!(channel.phase, Phase::Ready(_)) || !channel.sends.is_empty();
            if speaks && !matches!(channel.phase, Phase::Over(_)) {
                channel.sends.push_control(Kind::Goodbye, 0);
                self.activate(*index);
            }
        }
        loop {
            // Everything goes on meanwhile: the peer may be waiting for this end in turn.
            self.arm();
            self.armed = false;
            while self.pass(usize::MAX) {
                if Instant::now() >= deadline {
                    break;
                }
            }
            let waiting = |index: &u32| self.channels.get(*index).is_some_and(unfinished);
            if !indices.iter().any(waiting) {
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || self.host.aborting() {
                return false;
            }
            self.events.sleep(left.min(NAP));
        }
    }

    /// Takes a channel out, with what is left of its connection.
    fn drop_channel(&mut self, index: u32) {
        let Some(channel) = self.channels.get(index) else {
            return;
        };
        if let Phase::Ready(link) = &channel.phase {
            let socket = link.socket.as_fd();
            // The goodbye is out; a peer that is gone already is none of our concern any more.
            let _ = rustix::net::shutdown(socket, Shutdown::Write);
            let mut bytes = vec![0; 64 << 10];
            for _ in 0..DISCARDS {
                if !matches!(socket::receive_into(socket, &mut bytes), Moved::Bytes(1..)) {
                    break;
                }
            }
        }
        let over = Over {
            state: ChannelState::CLOSED,
            status: Status::ABORTED,
            text: "closed by this end".to_owned(),
        };
        self.finish(index, over);
        self.active.retain(|other| *other != index);
        self.channels.remove(index);
    }

    /// Tells the peer, if the stream allows it, that its message had not the length of this end's receive.
    pub(crate) fn complain(&mut self, index: u32, posted: u64) {
        let handle = self.channels.handle(index);
        let Some(channel) = self.channels.get_mut(index) else {
            return;
        };
        let Phase::Ready(link) = &channel.phase else {
            return;
        };
        if !channel.sends.between_frames() {
            return;
        }
        channel.sends.fail(Status::ABORTED, handle, &mut self.done);
        channel.sends.push_control(Kind::WrongLength, posted);
        // If it does not go through, the peer learns less about the reason, but learns of the end all the same.
        let _ = channel.sends.step(link.socket.as_fd(), handle, &mut self.done);
    }

    /// Ends a channel: its socket is closed and what waits completes with the status of `over`.
    pub(crate) fn finish(&mut self, index: u32, over: Over) {
        self.setup.retain(|other| *other != index);
        let handle = self.channels.handle(index);
        let Some(channel) = self.channels.get_mut(index) else {
            return;
        };
        match &mut channel.phase {
            Phase::Ready(link) => {
                let socket = link.socket.as_fd();
                self.events.forget(socket);
                // A forked child may hold the socket too; the peer is to notice all the same.
                let _ = rustix::net::shutdown(socket, Shutdown::Both);
            }
            Phase::Connecting(connector) => connector.give_up(self.events.fd()),
            Phase::Accepting { .. } | Phase::Over(_) => {}
        }
        channel.finish(over, handle, &mut self.done);
    }
}

/// Whether messages, or the goodbye, wait to leave.
fn unfinished(channel: &Channel) -> bool {
    !matches!(channel.phase, Phase::Over(_)) && !channel.sends.is_empty()
}
