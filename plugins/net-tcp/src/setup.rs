//! How channels come to be: connect, accept, and everything that has a time limit; and what the kernel reports.

use crate::address::{WorkerAddress, candidates};
use crate::channel::{Channel, Ends, Link, Over, Phase, Trouble};
use crate::connector::{Advance, Connector, Surroundings};
use crate::error::{Failure, Result, usage};
use crate::events::{Edge, Source};
use crate::handshake::Purpose;
use crate::interfaces;
use crate::socket;
use crate::worker::Worker;
use infiniccl_plugin_api::{ChannelState, LogLevel, Status};
use rustix::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

impl Worker {
    /// Opens the active end of a channel to the worker with this address.
    pub(crate) fn connect(&mut self, address: &[u8], ends: Ends, timeout: Duration) -> Result<u64> {
        let address = WorkerAddress::decode(address)?;
        let order = candidates(&address.entries, &self.interfaces);
        if order.is_empty() {
            return Err(Failure {
                status: Status::UNSUPPORTED,
                text: format!(
                    "rank {} can only be reached at {:?}, which are link-local, and no interface here has such an \
                     address",
                    ends.remote, address.entries
                ),
            });
        }
        let purpose = Purpose {
            from: ends.local,
            to: ends.remote,
            lane: ends.lane,
            worker: address.identity,
        };
        let connector = Connector::new(purpose, order, Instant::now(), timeout);
        let index = self
            .channels
            .insert(Channel::new(ends, Phase::Connecting(Box::new(connector))));
        self.setup.push(index);
        self.stirred = true;
        Ok(self.channels.handle(index))
    }

    /// Opens the passive end of a channel.
    pub(crate) fn accept(&mut self, ends: Ends, timeout: Duration) -> Result<u64> {
        if self.door.listeners.is_empty() {
            return Err(usage("accept before listen: nobody can connect to this worker"));
        }
        if self.waiting_for(ends).is_some() {
            return Err(usage(format!(
                "a channel to rank {} with lane {} waits for its connection already",
                ends.remote, ends.lane
            )));
        }
        let since = Instant::now();
        let deadline = crate::time::after(since, timeout);
        let index = self
            .channels
            .insert(Channel::new(ends, Phase::Accepting { since, deadline }));
        self.setup.push(index);
        if let Some(socket) = self.door.claim(ends) {
            self.establish(index, socket);
        }
        self.stirred = true;
        Ok(self.channels.handle(index))
    }

    /// State of a channel and a line about it.
    pub(crate) fn channel_state(&self, handle: u64) -> Result<(ChannelState, String)> {
        let index = self.find(handle)?;
        match self.channels.get(index) {
            Some(channel) => Ok(channel.state()),
            None => Err(usage("the channel is gone")),
        }
    }

    /// The channel that waits for a connection between these ends.
    pub(crate) fn waiting_for(&self, ends: Ends) -> Option<u32> {
        self.setup.iter().copied().find(|index| {
            self.channels.get(*index).is_some_and(|channel| {
                channel.ends == ends && matches!(channel.phase, Phase::Accepting { .. })
            })
        })
    }

    /// Gives a channel its connection.
    pub(crate) fn establish(&mut self, index: u32, socket: OwnedFd) {
        self.setup.retain(|other| *other != index);
        let Some(channel) = self.channels.get_mut(index) else {
            return;
        };
        let (local, peer) = socket::ends(socket.as_fd());
        let description = match (local, peer) {
            (Some(local), Some(peer)) => {
                format!(
                    "{local} -> {peer} ({})",
                    interfaces::name_of(&self.interfaces, local.ip())
                )
            }
            (Some(local), None) => format!("{local} -> nobody any more"),
            (None, _) => "a socket without addresses".to_owned(),
        };
        self.host.line(
            LogLevel::DEBUG,
            format_args!(
                "rank {} lane {}: {description}",
                channel.ends.remote, channel.ends.lane
            ),
        );
        let watched = socket::configure(socket.as_fd(), &self.options)
            .and_then(|()| self.events.watch_channel(socket.as_fd(), index));
        channel.phase = Phase::Ready(Link {
            socket,
            description,
            readable: true,
            writable: true,
            attention: true,
            muted: false,
        });
        match watched {
            Ok(()) => self.activate(index),
            Err(errno) => self.end(index, Trouble::Sending(errno)),
        }
    }

    /// Everything on the way to channels goes on as far as it can; tells whether anything moved.
    pub(crate) fn set_up(&mut self) -> bool {
        let now = Instant::now();
        self.stirred = false;
        let mut moved = self.answer_door(now);
        let mut position = 0;
        while let Some(index) = self.setup.get(position).copied() {
            moved |= self.advance_setup(index, now);
            // A channel that is set up, or failed, leaves the list, and another takes its place.
            if self.setup.get(position) == Some(&index) {
                position += 1;
            }
        }
        let waiting = self
            .setup
            .iter()
            .filter_map(|index| match &self.channels.get(*index)?.phase {
                Phase::Connecting(connector) => Some(connector.next()),
                Phase::Accepting { deadline, .. } => Some(*deadline),
                Phase::Ready(_) | Phase::Over(_) => None,
            });
        self.next_timer = waiting.chain(self.door.next()).min();
        self.stirred |= self.door.knocking;
        moved
    }

    fn advance_setup(&mut self, index: u32, now: Instant) -> bool {
        let Some(channel) = self.channels.get_mut(index) else {
            return false;
        };
        match &mut channel.phase {
            Phase::Connecting(connector) => {
                if !connector.stirred && now < connector.next() {
                    return false;
                }
                let around = Surroundings {
                    epoll: self.events.fd(),
                    options: &self.options,
                    event: Source::Channel(index).event(),
                    now,
                    nonce: crate::random::bytes,
                };
                match connector.advance(&around) {
                    Advance::Pending => false,
                    Advance::Proven(socket) => {
                        self.establish(index, socket);
                        true
                    }
                    Advance::Failed(status, text) => {
                        self.finish(index, Over::failed(status, text));
                        true
                    }
                }
            }
            Phase::Accepting { since, deadline } if now >= *deadline => {
                let text = format!(
                    "rank {} did not connect (lane {}) within {:.1} s; {}",
                    channel.ends.remote,
                    channel.ends.lane,
                    (now - *since).as_secs_f64(),
                    self.door.gossip()
                );
                self.finish(index, Over::failed(Status::TIMEOUT, text));
                true
            }
            Phase::Accepting { .. } => false,
            Phase::Ready(_) | Phase::Over(_) => {
                self.setup.retain(|other| *other != index);
                false
            }
        }
    }

    /// Notes what the kernel reports, without acting on it.
    pub(crate) fn collect_events(&mut self) {
        let Self {
            events,
            channels,
            door,
            stirred,
            ..
        } = self;
        let mut woken = std::mem::take(&mut self.woken);
        events.take(|edge| {
            let Edge {
                source,
                readable,
                writable,
            } = edge;
            match source {
                Source::Listener => {
                    door.knocking = true;
                    *stirred = true;
                }
                Source::Incoming(index) => {
                    door.stir(index);
                    *stirred = true;
                }
                Source::Timer => *stirred = true,
                Source::Channel(index) => match channels.get_mut(index).map(|channel| &mut channel.phase) {
                    Some(Phase::Connecting(connector)) => {
                        connector.stirred = true;
                        *stirred = true;
                    }
                    Some(Phase::Ready(link)) => {
                        link.readable |= readable;
                        link.writable |= writable;
                        link.attention |= readable;
                        if readable {
                            woken.push(index);
                        }
                    }
                    Some(Phase::Accepting { .. } | Phase::Over(_)) | None => {}
                },
            }
        });
        for index in woken.drain(..) {
            self.activate(index);
        }
        self.woken = woken;
    }

    /// From now on the descriptor becomes readable when there is something to do; the caller polls once more, and
    /// sleeps only if that completes nothing.
    pub(crate) fn arm(&mut self) {
        self.collect_events();
        if self.stirred {
            self.set_up();
        }
        let now = Instant::now();
        self.events
            .set_timer(self.next_timer.map(|timer| timer.saturating_duration_since(now)));
        self.armed = true;
    }
}
