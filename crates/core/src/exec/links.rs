//! The network side of an engine: one worker, and a channel to each rank that it exchanges messages with.

use crate::error::Result;
use crate::plugin::NetPlugin;
use infiniccl_plugin_api::{ChannelParams, ChannelState, Completion, Status, WorkOp, WorkRequest};
use std::collections::VecDeque;
use std::time::Duration;

/// Completions taken in one poll.
const BATCH: usize = 32;

/// One network plugin's worker and its channels.
pub(crate) struct Links {
    plugin: NetPlugin,
    worker: u64,
    me: u32,
    /// Addresses of the workers of all ranks.
    addresses: Vec<Vec<u8>>,
    /// Channel handles by rank; zero: not opened.
    channels: Vec<u64>,
    channel_timeout: Duration,
    /// Requests not yet accepted by the plugin.
    outbox: VecDeque<WorkRequest>,
    /// Requests accepted and not completed.
    in_flight: usize,
    wait_fd: Option<i32>,
}

// SAFETY: the addresses in queued requests are those of submitted calls, see `Submission`.
unsafe impl Send for Links {}

/// A message of this rank that ended.
pub(super) struct Arrival {
    pub(super) token: u64,
    pub(super) status: Status,
    pub(super) imm: u32,
    pub(super) bytes: u64,
    pub(super) channel: u64,
}

impl Links {
    /// Wraps an open worker; `addresses` are those that all ranks' workers listen on.
    pub(crate) fn new(
        plugin: NetPlugin,
        worker: u64,
        me: u32,
        addresses: Vec<Vec<u8>>,
        channel_timeout: Duration,
    ) -> Self {
        let wait_fd = plugin.wait_fd(worker);
        Links {
            plugin,
            worker,
            me,
            channels: vec![0; addresses.len()],
            addresses,
            channel_timeout,
            outbox: VecDeque::new(),
            in_flight: 0,
            wait_fd,
        }
    }

    /// Queues one message; [`Self::flush`] gives it to the plugin.
    pub(super) fn queue(
        &mut self,
        op: WorkOp,
        peer: u32,
        addr: *mut u8,
        len: u64,
        imm: u32,
        token: u64,
    ) -> Result<()> {
        let channel = self.channel(peer)?;
        self.outbox.push_back(WorkRequest {
            op,
            imm,
            channel,
            addr,
            len,
            key: 0,
            token,
            remote_addr: 0,
            remote_key: 0,
            flags: 0,
            reserved: [0; 2],
        });
        Ok(())
    }

    /// Gives queued messages to the plugin, as many as it takes.
    pub(super) fn flush(&mut self) -> Result<bool> {
        let mut moved = false;
        while !self.outbox.is_empty() {
            let (front, _) = self.outbox.as_slices();
            let offered = front.len();
            let (status, accepted) = self.plugin.post(self.worker, front);
            self.outbox.drain(..accepted);
            self.in_flight += accepted;
            moved |= accepted > 0;
            if status.is_error() {
                return Err(self.plugin.error(status, "post"));
            }
            if accepted < offered {
                break;
            }
        }
        Ok(moved)
    }

    /// Drives the plugin and hands over what ended.
    pub(super) fn poll(&mut self, arrivals: &mut Vec<Arrival>) -> Result<bool> {
        if self.in_flight == 0 && self.outbox.is_empty() {
            return Ok(false);
        }
        let mut done = [EMPTY; BATCH];
        let (status, count) = self.plugin.poll(self.worker, &mut done);
        if status.is_error() {
            return Err(self.plugin.error(status, "poll"));
        }
        self.in_flight -= count;
        arrivals.extend(done[..count].iter().map(|c| Arrival {
            token: c.token,
            status: c.status,
            imm: c.imm,
            bytes: c.bytes,
            channel: c.channel,
        }));
        if count > 0 && !self.outbox.is_empty() {
            self.flush()?;
        }
        Ok(count > 0)
    }

    /// Whether messages are under way.
    pub(super) fn is_busy(&self) -> bool {
        self.in_flight > 0 || !self.outbox.is_empty()
    }

    /// Prepares to sleep: the descriptor to wait for, if the plugin has one.
    pub(super) fn arm(&self) -> Option<i32> {
        let fd = self.wait_fd?;
        (!self.plugin.arm(self.worker).is_error()).then_some(fd)
    }

    /// The rank at the other end of a channel.
    pub(super) fn peer_of(&self, channel: u64) -> Option<u32> {
        let rank = self.channels.iter().position(|c| *c == channel && channel != 0)?;
        u32::try_from(rank).ok()
    }

    /// Why the channel to `peer` does not work, in the plugin's words, or how it is connected.
    pub(crate) fn describe(&self, peer: u32) -> Option<(ChannelState, String)> {
        let channel = *self.channels.get(peer as usize)?;
        (channel != 0).then(|| self.plugin.channel_state(self.worker, channel))
    }

    /// Name of the plugin.
    pub(crate) fn plugin_name(&self) -> &str {
        self.plugin.name()
    }

    /// Ends all channels at once, and takes back every buffer that was posted.
    pub(super) fn abort(&mut self) {
        self.outbox.clear();
        for channel in self.channels.iter().filter(|c| **c != 0) {
            self.plugin.channel_abort(self.worker, *channel);
        }
        let mut done = [EMPTY; BATCH];
        while self.in_flight > 0 {
            let (status, count) = self.plugin.poll(self.worker, &mut done);
            if status.is_error() || count == 0 {
                break;
            }
            self.in_flight -= count;
        }
    }

    /// Closes the worker in good order within `limit`.
    pub(crate) fn close(&mut self, limit: Duration) {
        if self.worker != 0 {
            self.plugin.worker_close(self.worker, limit);
            self.worker = 0;
        }
    }

    fn channel(&mut self, peer: u32) -> Result<u64> {
        let slot = peer as usize;
        if self.channels[slot] == 0 {
            let params = ChannelParams {
                local_rank: self.me,
                remote_rank: peer,
                lane: 0,
                flags: 0,
                timeout_ns: u64::try_from(self.channel_timeout.as_nanos()).unwrap_or(u64::MAX),
                reserved: [0; 2],
            };
            // The lower rank connects: a fixed rule, so that both ends agree without a word.
            self.channels[slot] = if self.me < peer {
                self.plugin.connect(self.worker, &self.addresses[slot], &params)?
            } else {
                self.plugin.accept(self.worker, &params)?
            };
        }
        Ok(self.channels[slot])
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        self.close(Duration::ZERO);
    }
}

const EMPTY: Completion = Completion {
    token: 0,
    channel: 0,
    bytes: 0,
    status: Status::OK,
    imm: 0,
    reserved: [0; 2],
};
