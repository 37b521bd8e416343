//! The epoll set of a worker: what it watches, and the one descriptor that a sleeper waits on.
//!
//! Sockets are watched edge-triggered and registered once, so that a message costs no system call here. Whoever is
//! told of an edge tries until the kernel has no more, or remembers to try again.

use crate::error::{Result, system};
use rustix::event::{Timespec, epoll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags};
use std::mem::MaybeUninit;
use std::time::Duration;

const BATCH: usize = 64;

/// What an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// One of the listeners.
    Listener,
    /// A connection that has not proved itself.
    Incoming(u32),
    /// A channel that is connecting or ready.
    Channel(u32),
    /// The timer.
    Timer,
}

impl Source {
    /// The number that events carry.
    pub(crate) fn event(self) -> u64 {
        match self {
            Source::Listener => 1 << 32,
            Source::Incoming(index) => 2 << 32 | u64::from(index),
            Source::Channel(index) => 3 << 32 | u64::from(index),
            Source::Timer => 4 << 32,
        }
    }

    fn of(event: u64) -> Option<Self> {
        let index = (event & u64::from(u32::MAX)) as u32;
        match event >> 32 {
            1 => Some(Source::Listener),
            2 => Some(Source::Incoming(index)),
            3 => Some(Source::Channel(index)),
            4 => Some(Source::Timer),
            _ => None,
        }
    }
}

/// What happened to a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Edge {
    pub(crate) source: Source,
    /// There may be something to read, or the other end is gone.
    pub(crate) readable: bool,
    /// There may be room to write, or the other end is gone.
    pub(crate) writable: bool,
}

/// The set.
#[derive(Debug)]
pub(crate) struct Events {
    epoll: OwnedFd,
    timer: OwnedFd,
}

const QUIET: epoll::EventFlags = epoll::EventFlags::OUT
    .union(epoll::EventFlags::RDHUP)
    .union(epoll::EventFlags::ET);
const ALL: epoll::EventFlags = QUIET.union(epoll::EventFlags::IN);

impl Events {
    pub(crate) fn new() -> Result<Self> {
        let refused = |errno: Errno| system("cannot watch sockets", std::io::Error::from(errno));
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(refused)?;
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags).map_err(refused)?;
        let this = Self { epoll, timer };
        this.add(
            this.timer.as_fd(),
            Source::Timer,
            epoll::EventFlags::IN | epoll::EventFlags::ET,
        )?;
        Ok(this)
    }

    /// The descriptor to sleep on.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    fn add(&self, socket: BorrowedFd<'_>, source: Source, interest: epoll::EventFlags) -> Result<()> {
        epoll::add(
            &self.epoll,
            socket,
            epoll::EventData::new_u64(source.event()),
            interest,
        )
        .map_err(|errno| system("cannot watch a socket", std::io::Error::from(errno)))
    }

    pub(crate) fn watch_listener(&self, socket: BorrowedFd<'_>) -> Result<()> {
        self.add(
            socket,
            Source::Listener,
            epoll::EventFlags::IN | epoll::EventFlags::ET,
        )
    }

    pub(crate) fn watch_incoming(&self, socket: BorrowedFd<'_>, index: u32) -> Result<()> {
        self.add(socket, Source::Incoming(index), ALL)
    }

    /// Watches the socket of a channel, whether it was watched before as something else or not; what is there already
    /// is reported once more.
    pub(crate) fn watch_channel(&self, socket: BorrowedFd<'_>, index: u32) -> rustix::io::Result<()> {
        self.change(socket, index, ALL)
    }

    /// Leaves out what comes in, until it is watched again.
    pub(crate) fn mute_channel(&self, socket: BorrowedFd<'_>, index: u32) -> rustix::io::Result<()> {
        self.change(socket, index, QUIET)
    }

    fn change(
        &self,
        socket: BorrowedFd<'_>,
        index: u32,
        interest: epoll::EventFlags,
    ) -> rustix::io::Result<()> {
        let data = epoll::EventData::new_u64(Source::Channel(index).event());
        match epoll::modify(&self.epoll, socket, data, interest) {
            Err(Errno::NOENT) => epoll::add(&self.epoll, socket, data, interest),
            other => other,
        }
    }

    /// Takes a socket out; to be called before it is closed, since a forked child may hold it too and closing it
    /// would then not do so.
    pub(crate) fn forget(&self, socket: BorrowedFd<'_>) {
        // A socket that is not in the set needs not be taken out.
        let _ = epoll::delete(&self.epoll, socket);
    }

    /// Hands over what happened since the last call.
    pub(crate) fn take(&self, mut each: impl FnMut(Edge)) {
        let mut batch = [const { MaybeUninit::uninit() }; BATCH];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        loop {
            let events = match epoll::wait(&self.epoll, &mut batch[..], Some(&now)) {
                Ok((events, _)) => events,
                Err(Errno::INTR) => continue,
                // The set is valid as long as this struct; no other failure is documented.
                Err(_) => return,
            };
            for event in events.iter() {
                let flags = event.flags;
                let gone = flags.intersects(epoll::EventFlags::ERR | epoll::EventFlags::HUP);
                let readable = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
                if let Some(source) = Source::of(event.data.u64()) {
                    each(Edge {
                        source,
                        readable: gone || flags.intersects(readable),
                        writable: gone || flags.intersects(epoll::EventFlags::OUT),
                    });
                }
            }
            if events.len() < BATCH {
                return;
            }
        }
    }

    /// Makes the descriptor readable after `delay`; None: never.
    pub(crate) fn set_timer(&self, delay: Option<Duration>) {
        let zero = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let value = delay.map_or(zero, |delay| {
            // Zero would mean never.
            let delay = delay.max(Duration::from_nanos(1));
            Timespec {
                tv_sec: i64::try_from(delay.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: i64::from(delay.subsec_nanos()),
            }
        });
        let spec = Itimerspec {
            it_interval: zero,
            it_value: value,
        };
        // The timer is valid and the value in range; no other failure is documented.
        let _ = rustix::time::timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &spec);
    }

    /// Sleeps until something happens, at most `limit`.
    pub(crate) fn sleep(&self, limit: Duration) {
        let limit = Timespec {
            tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(limit.subsec_nanos()),
        };
        let mut set = [rustix::event::PollFd::new(
            &self.epoll,
            rustix::event::PollFlags::IN,
        )];
        // An interruption only makes the caller look earlier.
        let _ = rustix::event::poll(&mut set, Some(&limit));
    }
}
