//! The worker: takes work for its channels and drives them, one thread at a time, without blocking.

use crate::address::{IDENTITY, WorkerAddress};
use crate::channel::{Channel, Phase, Trouble};
use crate::error::{Failure, Result, system, usage};
use crate::events::Events;
use crate::host::Host;
use crate::incoming::Door;
use crate::interfaces::{self, Interface};
use crate::listener;
use crate::options::Options;
use crate::receive::End;
use crate::send::completion;
use crate::slab::Slab;
use crate::wire::MAX_MESSAGE;
use infiniccl_plugin_api::{Completion, LogLevel, Status, WorkOp, WorkRequest};
use rustix::fd::AsFd;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Up to this many channels with work are tried directly; beyond it only those that the kernel reported.
const DIRECT: usize = 8;
/// Ends of work that may wait for `poll`; beyond it nothing is accepted.
const MAX_DONE: usize = 1 << 16;
/// While channels are set up the kernel is asked for events at every so-manieth poll, otherwise more rarely.
const POLLS_IN_SETUP: u32 = 4;
const POLLS_BETWEEN_EVENTS: u32 = 256;
/// Passes of a poll before which the caller may sleep; if there is more to do then, it is woken at once.
const PASSES_BEFORE_SLEEP: u32 = 64;

/// A worker with its listeners and channels.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) options: Options,
    pub(crate) host: Host,
    pub(crate) identity: [u8; IDENTITY],
    pub(crate) interfaces: Vec<Interface>,
    pub(crate) events: Events,
    pub(crate) door: Door,
    pub(crate) channels: Slab<Channel>,
    /// Channels that are not ready yet.
    pub(crate) setup: Vec<u32>,
    /// Channels with work.
    pub(crate) active: Vec<u32>,
    /// Whose turn it is among them.
    turn: usize,
    /// Channels that got a first message since the last call.
    touched: Vec<u32>,
    /// Channels that the kernel reported, while events are collected.
    pub(crate) woken: Vec<u32>,
    /// Ends of work that nobody fetched yet.
    pub(crate) done: VecDeque<Completion>,
    /// When setting up wants to be looked at without an event.
    pub(crate) next_timer: Option<Instant>,
    /// Something happened that concerns setting up.
    pub(crate) stirred: bool,
    polls: u32,
    /// The caller may sleep after the next poll, which therefore leaves nothing undone.
    pub(crate) armed: bool,
}

impl Worker {
    /// A worker that nobody can reach yet.
    pub(crate) fn open(options: Options, host: Host) -> Result<Self> {
        let interfaces = interfaces::list()
            .map_err(|error| system("cannot list the network interfaces of this host", error))?;
        Ok(Self {
            options,
            host,
            identity: crate::random::bytes(),
            interfaces,
            events: Events::new()?,
            door: Door::default(),
            channels: Slab::default(),
            setup: Vec::new(),
            active: Vec::new(),
            turn: 0,
            touched: Vec::new(),
            woken: Vec::new(),
            done: VecDeque::new(),
            next_timer: None,
            stirred: false,
            polls: 0,
            armed: false,
        })
    }

    /// Listens, if it does not yet, and returns the address for the peers.
    pub(crate) fn listen(&mut self) -> Result<Vec<u8>> {
        if self.door.listeners.is_empty() {
            let listeners = listener::open(&self.options)?;
            for listener in &listeners {
                self.events.watch_listener(listener.socket.as_fd())?;
            }
            self.door.listeners = listeners;
        }
        let entries = listener::advertised(&self.door.listeners, &self.interfaces);
        if entries.is_empty() {
            return Err(system("cannot listen", "no interface of this host is up"));
        }
        self.host
            .line(LogLevel::DEBUG, format_args!("listening on {entries:?}"));
        Ok(WorkerAddress {
            identity: self.identity,
            entries,
        }
        .encode())
    }

    /// The channel behind a handle.
    pub(crate) fn find(&self, handle: u64) -> Result<u32> {
        self.channels.index(handle).ok_or_else(|| {
            usage(format!(
                "{handle:#x} is no channel of this worker; was it closed before?"
            ))
        })
    }

    /// Takes requests in, in order; returns how many it took, and what is wrong with the one after them, if that is
    /// why it stopped.
    ///
    /// # Safety
    /// The memory of each request that is taken stays valid, readable for a SEND and writable and otherwise unused
    /// for a RECV, until its completion was polled, its channel or worker closed, or its channel aborted.
    pub(crate) unsafe fn post(&mut self, requests: &[WorkRequest]) -> (usize, Result<()>) {
        let mut taken = 0;
        let mut verdict = Ok(());
        for request in requests {
            // SAFETY: as this function's.
            match unsafe { self.take(request) } {
                Ok(true) => taken += 1,
                Ok(false) => break,
                Err(error) => {
                    verdict = Err(error);
                    break;
                }
            }
        }
        self.start_touched();
        (taken, verdict)
    }

    /// Takes one request, unless its channel has too many already.
    ///
    /// # Safety
    /// As of [`Self::post`].
    #[inline]
    unsafe fn take(&mut self, request: &WorkRequest) -> Result<bool> {
        let index = self.find(request.channel)?;
        if request.len > MAX_MESSAGE {
            return Err(usage(format!(
                "a message of {} bytes; net-tcp carries at most {MAX_MESSAGE}",
                request.len
            )));
        }
        if request.addr.is_null() && request.len > 0 {
            return Err(usage(format!(
                "a message of {} bytes at a null address",
                request.len
            )));
        }
        if self.done.len() >= MAX_DONE {
            return Ok(false);
        }
        let Some(channel) = self.channels.get_mut(index) else {
            return Ok(false);
        };
        if !matches!(request.op, WorkOp::SEND | WorkOp::RECV) {
            return Err(Failure {
                status: Status::UNSUPPORTED,
                text: format!(
                    "net-tcp carries SEND and RECV only, not {}",
                    request.op.name().unwrap_or("that")
                ),
            });
        }
        if let Phase::Over(over) = &channel.phase {
            self.done
                .push_back(completion(request.token, request.channel, 0, over.status));
            return Ok(true);
        }
        if request.op == WorkOp::SEND {
            if channel.sends.is_full() {
                return Ok(false);
            }
            if channel.sends.is_empty() {
                self.touched.push(index);
            }
            // SAFETY: the caller vouches for the memory.
            unsafe {
                channel
                    .sends
                    .push(request.addr, request.len, request.imm, request.token)
            };
        } else {
            if channel.receiver.is_full() {
                return Ok(false);
            }
            // SAFETY: the caller vouches for the memory.
            unsafe { channel.receiver.push(request.addr, request.len, request.token) };
            if let Phase::Ready(link) = &mut channel.phase
                && link.muted
            {
                link.muted = false;
                if let Err(errno) = self.events.watch_channel(link.socket.as_fd(), index) {
                    self.end(index, Trouble::Sending(errno));
                }
            }
        }
        self.activate(index);
        Ok(true)
    }

    /// Starts the first message of each channel that had none, so that it travels while the caller does other things.
    fn start_touched(&mut self) {
        while let Some(index) = self.touched.pop() {
            let handle = self.channels.handle(index);
            let Some(channel) = self.channels.get_mut(index) else {
                continue;
            };
            let Phase::Ready(link) = &mut channel.phase else {
                continue;
            };
            match channel.sends.step(link.socket.as_fd(), handle, &mut self.done) {
                Ok(moved) => link.writable = moved,
                Err(errno) => {
                    let trouble = channel.last_words(handle, errno, &mut self.done);
                    self.end(index, trouble);
                }
            }
        }
    }

    /// Puts a channel with work into the list of those.
    pub(crate) fn activate(&mut self, index: u32) {
        if let Some(channel) = self.channels.get_mut(index)
            && !channel.active
            && channel.has_work()
        {
            channel.active = true;
            self.active.push(index);
        }
    }

    /// Drives progress and stores ends of work; returns how many.
    ///
    /// # Safety
    /// `completions` has `capacity` places that are writable and used by nobody else.
    pub(crate) unsafe fn poll(&mut self, completions: *mut Completion, capacity: usize) -> usize {
        let armed = std::mem::take(&mut self.armed);
        let enough = capacity.max(1);
        let mut passes = 0;
        while self.done.len() < enough {
            let moved = self.pass(enough);
            passes += 1;
            // A caller that may sleep next must not leave behind what no event will report again.
            if !(armed && moved && self.done.is_empty()) {
                break;
            }
            if passes == PASSES_BEFORE_SLEEP {
                self.events.set_timer(Some(Duration::ZERO));
                break;
            }
        }
        let count = capacity.min(self.done.len());
        for (position, end) in self.done.drain(..count).enumerate() {
            // SAFETY: `position` is below `capacity`; the caller's promise.
            unsafe { completions.add(position).write(end) };
        }
        count
    }

    /// Tries everything that has a chance once, until `enough` ends of work wait; tells whether anything moved.
    pub(crate) fn pass(&mut self, enough: usize) -> bool {
        let direct = self.active.len() <= DIRECT;
        self.polls = self.polls.wrapping_add(1);
        let in_setup = !self.setup.is_empty() || self.door.is_busy();
        let pause = if in_setup {
            POLLS_IN_SETUP
        } else {
            POLLS_BETWEEN_EVENTS
        };
        if !direct || self.active.is_empty() || self.polls.is_multiple_of(pause) {
            self.collect_events();
        }
        let due = self.next_timer.is_some_and(|timer| Instant::now() >= timer);
        let mut moved = (self.stirred || due) && self.set_up();
        for _ in 0..self.active.len() {
            if self.done.len() >= enough || self.active.is_empty() {
                break;
            }
            if self.turn >= self.active.len() {
                self.turn = 0;
            }
            let index = self.active[self.turn];
            moved |= self.advance(index, direct);
            match self.channels.get_mut(index) {
                Some(channel) if channel.has_work() => self.turn += 1,
                left => {
                    if let Some(channel) = left {
                        channel.active = false;
                    }
                    self.active.swap_remove(self.turn);
                }
            }
        }
        moved
    }

    /// Tries one channel; tells whether anything moved.
    #[inline]
    fn advance(&mut self, index: u32, direct: bool) -> bool {
        let handle = self.channels.handle(index);
        let Some(channel) = self.channels.get_mut(index) else {
            return false;
        };
        match channel.progress(handle, direct, &mut self.done) {
            Ok(progress) => {
                if progress.mute
                    && let Phase::Ready(link) = &mut channel.phase
                {
                    link.muted = self.events.mute_channel(link.socket.as_fd(), index).is_ok();
                }
                progress.moved
            }
            Err(trouble) => {
                self.end(index, trouble);
                true
            }
        }
    }

    /// Ends a channel that met trouble.
    pub(crate) fn end(&mut self, index: u32, trouble: Trouble) {
        let Some(channel) = self.channels.get(index) else {
            return;
        };
        let over = channel.explain(trouble, &self.options);
        self.host.line(LogLevel::DEBUG, format_args!("{}", over.text));
        if let Trouble::Receiving(End::Mismatch { posted, .. }) = trouble {
            self.complain(index, posted);
        }
        self.finish(index, over);
    }
}
