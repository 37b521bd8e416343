//! The one service thread of a process: sleeps in epoll, and runs the sources of all communicators when they have work.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};

use crate::{Error, ErrorKind, Result};

/// Something that the service thread runs. Nothing in it may block.
pub(crate) trait Source: Send {
    /// Registers the first descriptors.
    fn start(&mut self, registrar: Registrar, now: Instant);
    /// A descriptor registered with `token` is ready.
    fn ready(&mut self, token: u32, now: Instant);
    /// Does what is due, including work that other threads left before [`Waker::wake`]; returns when to be called again.
    fn tick(&mut self, now: Instant) -> Option<Instant>;
    /// Whether the source is to be dropped.
    fn finished(&self) -> bool;
    /// The source panicked and will be dropped.
    fn panicked(&mut self);
}

/// Which readiness a descriptor is watched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interest {
    /// Bytes to read, or an error.
    Read,
    /// Also room to write.
    ReadWrite,
}

impl Interest {
    fn flags(self) -> epoll::EventFlags {
        let read = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
        match self {
            Interest::Read => read,
            Interest::ReadWrite => read | epoll::EventFlags::OUT,
        }
    }
}

/// Lets one source watch its descriptors.
#[derive(Clone)]
pub(crate) struct Registrar {
    shared: Arc<Shared>,
    source: u32,
}

impl Registrar {
    fn data(&self, token: u32) -> epoll::EventData {
        epoll::EventData::new_u64(u64::from(self.source) << 32 | u64::from(token))
    }

    /// Watches `fd`; the source hears of it under `token`.
    pub(crate) fn add(&self, fd: BorrowedFd<'_>, token: u32, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(
            &self.shared.epoll,
            fd,
            self.data(token),
            interest.flags(),
        )?)
    }

    /// Changes what `fd` is watched for.
    pub(crate) fn modify(&self, fd: BorrowedFd<'_>, token: u32, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(
            &self.shared.epoll,
            fd,
            self.data(token),
            interest.flags(),
        )?)
    }

    /// Stops watching `fd`.
    pub(crate) fn remove(&self, fd: BorrowedFd<'_>) {
        // It fails only for a descriptor that is not watched, which is the state asked for.
        let _ = epoll::delete(&self.shared.epoll, fd);
    }
}

/// Wakes the service thread for one source.
#[derive(Clone)]
pub(crate) struct Waker {
    shared: Arc<Shared>,
    source: u32,
}

impl Waker {
    /// Has the source ticked soon. Never blocks.
    pub(crate) fn wake(&self) {
        lock(&self.shared.inbox).woken.push(self.source);
        self.shared.ring();
    }
}

struct Shared {
    epoll: OwnedFd,
    bell: OwnedFd,
    inbox: Mutex<Inbox>,
}

#[derive(Default)]
struct Inbox {
    added: Vec<(u32, Box<dyn Source>)>,
    woken: Vec<u32>,
}

impl Shared {
    fn ring(&self) {
        // A full counter (EAGAIN) means that the bell rings already.
        while rustix::io::write(&self.bell, &1u64.to_ne_bytes()) == Err(rustix::io::Errno::INTR) {}
    }
}

/// The running thread of this process, and the number of the next source.
struct Running {
    shared: Arc<Shared>,
    process: u32,
    next_source: u32,
}

static SERVICE: Mutex<Option<Running>> = Mutex::new(None);
/// Events with this source number are the bell's.
const BELL: u32 = u32::MAX;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives `source` to the service thread, which is started if there is none.
///
/// # Errors
/// `System` when the thread or its descriptors cannot be made.
pub(crate) fn add(source: Box<dyn Source>) -> Result<Waker> {
    let mut service = lock(&SERVICE);
    let process = std::process::id();
    // After a fork the thread lives in the parent only; its descriptors are left alone, they are the parent's.
    if let Some(stale) = service.take_if(|running| running.process != process) {
        std::mem::forget(stale);
    }
    let running = match &mut *service {
        Some(running) => running,
        none => none.insert(spawn(process)?),
    };
    let id = running.next_source;
    running.next_source = running
        .next_source
        .checked_add(1)
        .filter(|n| *n != BELL)
        .unwrap_or(0);
    lock(&running.shared.inbox).added.push((id, source));
    running.shared.ring();
    Ok(Waker {
        shared: Arc::clone(&running.shared),
        source: id,
    })
}

fn spawn(process: u32) -> Result<Running> {
    let failed = |what: &'static str| {
        move |e: io::Error| {
            Error::new(
                ErrorKind::System,
                format!("cannot start the control service ({what})"),
            )
            .with_source(e)
        }
    };
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|e| failed("epoll")(e.into()))?;
    let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
        .map_err(|e| failed("eventfd")(e.into()))?;
    let data = epoll::EventData::new_u64(u64::from(BELL) << 32);
    epoll::add(&epoll, &bell, data, epoll::EventFlags::IN).map_err(|e| failed("epoll")(e.into()))?;
    let shared = Arc::new(Shared {
        epoll,
        bell,
        inbox: Mutex::new(Inbox::default()),
    });
    let thread = Arc::clone(&shared);
    let blocked = SignalMask::block_all();
    let spawned = std::thread::Builder::new()
        .name("infiniccl-ctl".into())
        .spawn(move || run(&thread));
    drop(blocked);
    spawned.map_err(failed("thread"))?;
    Ok(Running {
        shared,
        process,
        next_source: 0,
    })
}

/// Blocks all signals while a thread is made, which inherits the mask: handlers of the application run on its threads.
struct SignalMask(libc::sigset_t);

impl SignalMask {
    fn block_all() -> Self {
        // SAFETY: both sets are plain data that the calls fill in; the calls touch this thread's mask only.
        unsafe {
            let mut all = std::mem::zeroed();
            let mut before = std::mem::zeroed();
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
            SignalMask(before)
        }
    }
}

impl Drop for SignalMask {
    fn drop(&mut self) {
        // SAFETY: restores the mask that `block_all` read on this thread.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut());
        }
    }
}

struct Slot {
    source: Box<dyn Source>,
    due: Option<Instant>,
}

fn run(shared: &Arc<Shared>) {
    let mut slots: BTreeMap<u32, Slot> = BTreeMap::new();
    let mut events: Vec<epoll::Event> = Vec::with_capacity(128);
    loop {
        let timeout = slots.values().filter_map(|slot| slot.due).min().map(until);
        match epoll::wait(
            &shared.epoll,
            rustix::buffer::spare_capacity(&mut events),
            timeout.as_ref(),
        ) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => {
                tracing::error!("the control service ends: epoll_wait: {e}");
                return;
            }
        }
        let now = Instant::now();
        let mut touched: Vec<u32> = Vec::new();
        for event in events.drain(..) {
            let data = event.data.u64();
            let (id, token) = ((data >> 32) as u32, (data & u64::from(u32::MAX)) as u32);
            if id == BELL {
                let mut count = [0u8; 8];
                let _ = rustix::io::read(&shared.bell, &mut count);
                continue;
            }
            guarded(&mut slots, id, |slot| slot.source.ready(token, now));
            touched.push(id);
        }
        let Inbox { added, woken } = std::mem::take(&mut *lock(&shared.inbox));
        for (id, source) in added {
            slots.insert(id, Slot { source, due: None });
            let registrar = Registrar {
                shared: Arc::clone(shared),
                source: id,
            };
            guarded(&mut slots, id, |slot| slot.source.start(registrar, now));
            touched.push(id);
        }
        touched.extend(woken);
        touched.extend(
            slots
                .iter()
                .filter(|(_, slot)| slot.due.is_some_and(|due| due <= now))
                .map(|(id, _)| *id),
        );
        touched.sort_unstable();
        touched.dedup();
        for id in touched {
            guarded(&mut slots, id, |slot| slot.due = slot.source.tick(now));
        }
        slots.retain(|_, slot| !slot.source.finished());
        if slots.is_empty() {
            let mut service = lock(&SERVICE);
            let inbox = lock(&shared.inbox);
            if inbox.added.is_empty() {
                // Nobody can add to this thread any more once the entry is gone.
                if service
                    .as_ref()
                    .is_some_and(|running| Arc::ptr_eq(&running.shared, shared))
                {
                    *service = None;
                }
                return;
            }
        }
    }
}

/// Runs `work` on a source; one that panics is dropped, and the others go on.
fn guarded(slots: &mut BTreeMap<u32, Slot>, id: u32, work: impl FnOnce(&mut Slot)) {
    let Some(slot) = slots.get_mut(&id) else { return };
    if catch_unwind(AssertUnwindSafe(|| work(slot))).is_err() {
        tracing::error!("a control source panicked; its communicator fails");
        let _ = catch_unwind(AssertUnwindSafe(|| slot.source.panicked()));
        slots.remove(&id);
    }
}

fn until(due: Instant) -> Timespec {
    // Rounded up to a millisecond, so that a tick is not called just before it is due.
    let left = due.saturating_duration_since(Instant::now()) + Duration::from_micros(999);
    Timespec {
        tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(left.subsec_nanos()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};

    struct Probe {
        said: Sender<&'static str>,
        ticks: u32,
        panics: bool,
    }

    impl Source for Probe {
        fn start(&mut self, _: Registrar, _: Instant) {
            let _ = self.said.send("start");
        }
        fn ready(&mut self, _: u32, _: Instant) {}
        fn tick(&mut self, now: Instant) -> Option<Instant> {
            assert!(!self.panics || self.ticks == 0, "told to panic");
            self.ticks += 1;
            let _ = self.said.send("tick");
            Some(now + Duration::from_millis(1))
        }
        fn finished(&self) -> bool {
            self.ticks >= 3
        }
        fn panicked(&mut self) {
            let _ = self.said.send("panicked");
        }
    }

    #[test]
    fn sources_tick_finish_and_may_panic_without_harm_to_others() {
        let (said, heard) = channel();
        let limit = Duration::from_secs(10);
        let good = add(Box::new(Probe {
            said,
            ticks: 0,
            panics: false,
        }))
        .unwrap();
        let (said, bad_heard) = channel();
        let bad = add(Box::new(Probe {
            said,
            ticks: 0,
            panics: true,
        }))
        .unwrap();
        good.wake();
        bad.wake();
        for expected in ["start", "tick", "tick", "tick"] {
            assert_eq!(heard.recv_timeout(limit), Ok(expected));
        }
        for expected in ["start", "tick", "panicked"] {
            assert_eq!(bad_heard.recv_timeout(limit), Ok(expected));
        }
        assert!(heard.recv_timeout(limit).is_err(), "the source was dropped");
        assert!(bad_heard.recv_timeout(limit).is_err());
        good.wake();
    }
}
