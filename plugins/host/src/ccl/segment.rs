//! A rank's typed view of its communicator's shared segment, and the flags that end all waiting.

use super::bell::{Bell, bit};
use super::layout::{CELLS, LINE, Layout, MAX_RANKS};
use super::shared::Mapping;
use super::write::Writer;
use infiniccl_plugin_api::{Failure, Status};
use rustix::thread::CpuSet;
use std::cell::UnsafeCell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Marks a segment of this library, and the layout of everything in it.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"ICCLhost");
/// Grows when any structure here or the order of steps changes: ranks of different versions refuse each other.
pub(crate) const VERSION: u32 = 1;
/// Bytes of a contribution that travel in the line of the arrival itself.
pub(crate) const INLINE: usize = 48;

/// First page of the segment.
#[repr(C)]
pub(crate) struct Header {
    pub(crate) magic: AtomicU64,
    pub(crate) version: AtomicU32,
    pub(crate) ranks: AtomicU32,
    pub(crate) slot: AtomicU64,
    pub(crate) ring: AtomicU64,
    /// One when rank 0 has written all above.
    pub(crate) ready: AtomicU32,
    /// Rank + 1 of who found the segment unusable.
    pub(crate) refused: AtomicU32,
    /// What each rank writes to prove that all look at the same memory.
    pub(crate) attached: [AtomicU64; MAX_RANKS],
    /// Bits of the processors that any rank may run on.
    processors: [AtomicU64; CpuSet::MAX_CPU / 64],
    failed: Failed,
}

/// First failure of any rank: status in the upper half, rank + 1 in the lower.
#[repr(C, align(64))]
struct Failed(AtomicU64);

/// A rank's arrival at a collective; calls alternate between two of them.
#[repr(C, align(64))]
pub(crate) struct Mailbox {
    /// Number of the call; stored last.
    pub(crate) call: AtomicU32,
    /// Whether the first chunk lies in the slot already.
    pub(crate) early: AtomicU32,
    /// Equal on all ranks that mean the same call.
    pub(crate) signature: AtomicU64,
    /// A contribution that is small enough.
    pub(crate) payload: UnsafeCell<[u8; INLINE]>,
}

/// How far a rank is, in chunks counted over the life of the communicator.
#[repr(C, align(64))]
pub(crate) struct Progress {
    /// Chunks that lie in its slot.
    pub(crate) filled: AtomicU64,
    /// Chunks whose share it has reduced.
    pub(crate) folded: AtomicU64,
    /// Chunks that it has read from all slots.
    pub(crate) drained: AtomicU64,
}

/// What a rank called last, for messages; stored before the arrival.
#[repr(C, align(64))]
pub(crate) struct Record {
    pub(crate) collective: AtomicU32,
    pub(crate) dtype: AtomicU32,
    pub(crate) op: AtomicU32,
    pub(crate) root: AtomicU32,
    pub(crate) count: AtomicU64,
    pub(crate) check: AtomicU64,
    /// One when the rank has left the communicator.
    gone: AtomicU32,
}

/// The lines that one rank writes and all others read.
#[repr(C)]
pub(crate) struct Board {
    pub(crate) mailboxes: [Mailbox; 2],
    pub(crate) progress: Progress,
    pub(crate) bell: Bell,
    pub(crate) record: Record,
    _spare: [[u8; LINE]; 3],
}

/// The header of a message from one rank to another, with the message itself if it is small.
#[repr(C, align(64))]
pub(crate) struct Cell {
    /// Number of the message, from one; stored last.
    pub(crate) number: AtomicU32,
    _reserved: u32,
    pub(crate) len: AtomicU64,
    pub(crate) check: AtomicU64,
    pub(crate) payload: UnsafeCell<[u8; CELL_INLINE]>,
}

/// Bytes of a message that travel in its header.
pub(crate) const CELL_INLINE: usize = 40;

/// What one end of a pair has done, alone in its line; both wrap.
#[repr(C, align(64))]
pub(crate) struct Counters {
    pub(crate) bytes: AtomicU64,
    pub(crate) messages: AtomicU32,
}

/// Control lines of the messages from one rank to another.
#[repr(C)]
pub(crate) struct Pair {
    /// What the sender has put into the ring.
    pub(crate) written: Counters,
    /// What the receiver has taken out.
    pub(crate) taken: Counters,
    pub(crate) cells: [Cell; CELLS],
}

// SAFETY: payloads are written by their owner before it stores the counter that readers acquire, and not again
// before the readers have stored theirs; all else is atomic.
unsafe impl Sync for Board {}
// SAFETY: as above.
unsafe impl Sync for Pair {}

/// One rank's view.
#[derive(Debug)]
pub(crate) struct Segment {
    mapping: Mapping,
    layout: Layout,
    me: usize,
    /// Set by `abort` of this process, so that even a damaged segment cannot hold a thread.
    aborted: AtomicBool,
    failure: OnceLock<Failure>,
    /// Whether there are more ranks than processors to run them.
    crowded: bool,
    writer: Writer,
    cache: usize,
}

impl Segment {
    /// A view for rank `me`; the mapping must be at least `layout.total()` long.
    pub(crate) fn new(mapping: Mapping, layout: Layout, me: usize) -> Segment {
        assert!(mapping.len() >= layout.total() && me < layout.ranks);
        Segment {
            mapping,
            layout,
            me,
            aborted: AtomicBool::new(false),
            failure: OnceLock::new(),
            crowded: layout.ranks > own_processors().1,
            writer: Writer::default(),
            cache: last_cache(),
        }
    }

    fn at<T>(&self, offset: usize) -> *mut T {
        debug_assert!(offset + size_of::<T>() <= self.layout.total());
        // SAFETY: `new` checked that the layout fits into the mapping, and the layout's offsets lie within itself.
        unsafe { self.mapping.base().as_ptr().add(offset).cast() }
    }

    /// This rank.
    pub(crate) fn me(&self) -> usize {
        self.me
    }

    /// Ranks of the communicator.
    pub(crate) fn ranks(&self) -> usize {
        self.layout.ranks
    }

    /// Sizes of the parts.
    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Adds the processors of this rank to those of all; before it shows that it has joined.
    pub(crate) fn add_processors(&self) {
        for cpu in own_processors().0 {
            self.header().processors[cpu / 64].fetch_or(1 << (cpu % 64), Ordering::SeqCst);
        }
    }

    /// Counts the processors of all, which may be one each; after all have joined.
    pub(crate) fn count_processors(&mut self) {
        let (own, usable) = own_processors();
        let bits = |word: &AtomicU64| word.load(Ordering::SeqCst).count_ones() as usize;
        let all: usize = self.header().processors.iter().map(bits).sum();
        // A quota on processor time counts for all ranks, as far as this one knows.
        let limit = if usable < own.len() {
            usable
        } else {
            all.max(usable)
        };
        self.crowded = self.layout.ranks > limit;
    }

    /// Whether ranks must take turns on the processors.
    pub(crate) fn crowded(&self) -> bool {
        self.crowded
    }

    /// Bytes of the last cache of a processor.
    pub(crate) fn cache(&self) -> usize {
        self.cache
    }

    /// How this rank writes into the segment.
    pub(crate) fn writer(&self) -> &Writer {
        &self.writer
    }

    /// The first page.
    pub(crate) fn header(&self) -> &Header {
        // SAFETY: within the mapping, aligned to a page, and made of atomics only.
        unsafe { &*self.at(0) }
    }

    /// The control lines of a rank.
    pub(crate) fn board(&self, rank: usize) -> &Board {
        debug_assert!(rank < self.ranks());
        // SAFETY: within the mapping, aligned to a line; shared access is sound as `Board` says.
        unsafe { &*self.at(self.layout.board(rank)) }
    }

    /// The control lines of messages from one rank to another.
    pub(crate) fn pair(&self, from: usize, to: usize) -> &Pair {
        debug_assert!(from < self.ranks() && to < self.ranks());
        // SAFETY: as for `board`.
        unsafe { &*self.at(self.layout.pair(from, to)) }
    }

    /// A rank's slot: `layout().slot` bytes.
    pub(crate) fn slot(&self, rank: usize) -> *mut u8 {
        self.at(self.layout.slot(rank))
    }

    /// The data of messages from one rank to another: `layout().ring` bytes.
    pub(crate) fn ring(&self, from: usize, to: usize) -> *mut u8 {
        self.at(self.layout.ring(from, to))
    }

    /// Wakes every rank that sleeps until this one publishes; call after a sequentially consistent store.
    #[inline]
    pub(crate) fn announce(&self) {
        let mine = bit(self.me);
        for rank in 0..self.ranks() {
            if rank != self.me {
                self.board(rank).bell.ring(mine);
            }
        }
    }

    /// Wakes one rank, as [`Segment::announce`]; this rank's own threads if it is this one.
    #[inline]
    pub(crate) fn announce_to(&self, rank: usize) {
        self.board(rank).bell.ring(bit(self.me));
    }

    /// Makes the communicator fail on this rank and, through the segment, on all; keeps the first failure.
    pub(crate) fn fail(&self, failure: Failure, culprit: usize) -> Failure {
        let status = u64::from(failure.status.0.unsigned_abs());
        let word = status << 32 | (culprit as u64 + 1);
        // A peer may have been faster; its word says the same or is as good.
        let _ = self
            .header()
            .failed
            .0
            .compare_exchange(0, word, Ordering::SeqCst, Ordering::SeqCst);
        let first = self.failure.get_or_init(|| failure).clone();
        self.wake_all();
        first
    }

    /// Ends all waiting on every rank with ABORTED.
    pub(crate) fn abort(&self) {
        let text = format!("rank {} aborted the communicator", self.me);
        self.fail(Failure::new(Status::ABORTED, text), self.me);
        self.aborted.store(true, Ordering::SeqCst);
        self.wake_all();
    }

    /// Tells the peers that this rank will not answer any more.
    pub(crate) fn leave(&self) {
        self.board(self.me).record.gone.store(1, Ordering::SeqCst);
        self.announce();
    }

    fn wake_all(&self) {
        for rank in 0..self.ranks() {
            self.board(rank).bell.ring(u64::MAX);
        }
    }

    /// The failure that this rank met, if any.
    pub(crate) fn failure(&self) -> Option<&Failure> {
        self.failure.get()
    }

    /// Whether a rank has left.
    pub(crate) fn is_gone(&self, rank: usize) -> bool {
        self.board(rank).record.gone.load(Ordering::SeqCst) != 0
    }

    /// Why waiting is over, if it is; asked by whoever did not find what it waits for.
    pub(crate) fn stopped(&self) -> Result<(), Failure> {
        if self.header().failed.0.load(Ordering::Acquire) != 0 || self.aborted.load(Ordering::Acquire) {
            return Err(self.why());
        }
        Ok(())
    }

    #[cold]
    fn why(&self) -> Failure {
        if let Some(failure) = self.failure() {
            return failure.clone();
        }
        let word = self.header().failed.0.load(Ordering::Acquire);
        let status = Status(i32::try_from(word >> 32).unwrap_or(Status::REMOTE.0));
        let rank = (word & 0xffff_ffff).saturating_sub(1);
        let text = match status {
            Status::ABORTED => format!("rank {rank} aborted the communicator"),
            Status::MISMATCH => {
                format!("the ranks disagree about a call: rank {rank} differs from the others")
            }
            _ => format!("rank {rank} failed: {}", status.name()),
        };
        self.failure.get_or_init(|| Failure::new(status, text)).clone()
    }
}

/// The processors that this thread may run on, and how many of them its quota lets it use.
fn own_processors() -> (Vec<usize>, usize) {
    let usable = std::thread::available_parallelism().map_or(1, usize::from);
    let own = rustix::thread::sched_getaffinity(None).map_or_else(
        |_| Vec::new(),
        |set| (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect(),
    );
    (own, usable)
}

/// Bytes of the first processor's last cache, as the kernel tells, or what is common.
fn last_cache() -> usize {
    const COMMON: usize = 32 << 20;
    let read = |index: u32| {
        let text =
            std::fs::read_to_string(format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size")).ok()?;
        text.trim()
            .strip_suffix('K')?
            .parse::<usize>()
            .ok()?
            .checked_mul(1024)
    };
    (2..=4).filter_map(read).max().unwrap_or(COMMON)
}

/// A segment in memory of this process alone.
#[cfg(test)]
pub(crate) fn for_tests(ranks: usize, slot: usize) -> Vec<Segment> {
    use std::os::fd::AsFd;
    let layout = Layout::new(ranks, Some(slot));
    let file = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).expect("memory");
    super::shared::reserve(file.as_fd(), layout.total()).expect("reserved");
    (0..ranks)
        .map(|me| {
            Segment::new(
                Mapping::new(file.as_fd(), layout.total()).expect("mapped"),
                layout,
                me,
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_sizes_that_the_layout_assumes() {
        assert!(size_of::<Header>() <= 4096);
        assert_eq!(size_of::<Board>(), 8 * LINE);
        assert_eq!(size_of::<Pair>(), (2 + CELLS) * LINE);
        assert_eq!(size_of::<Mailbox>(), LINE);
        assert_eq!(size_of::<Cell>(), LINE);
        assert_eq!(std::mem::offset_of!(Mailbox, payload) % 16, 0);
    }

    #[test]
    fn the_first_failure_reaches_every_rank_and_stays() {
        let ranks = for_tests(3, 1);
        assert!(ranks.iter().all(|rank| rank.stopped().is_ok()));
        ranks[1].fail(Failure::new(Status::MISMATCH, "rank 2 passed another count"), 2);
        ranks[0].abort();
        assert_eq!(
            ranks[1].stopped().expect_err("failed").text,
            "rank 2 passed another count"
        );
        let far = ranks[2].stopped().expect_err("failed");
        assert_eq!(far.status, Status::MISMATCH);
        assert!(far.text.contains("rank 2"), "{}", far.text);
        assert_eq!(ranks[0].stopped().expect_err("failed").status, Status::ABORTED);
    }

    #[test]
    fn ranks_on_processors_of_their_own_are_not_crowded() {
        let mut ranks = for_tests(3, 1);
        let mine = own_processors().0.len();
        for rank in &ranks {
            rank.add_processors();
        }
        ranks[1].count_processors();
        assert_eq!(ranks[1].crowded(), 3 > mine);
        // As if the others were bound to processors that this test may not use.
        let far = &ranks[0].header().processors[CpuSet::MAX_CPU / 64 - 1];
        far.fetch_or(0b111, Ordering::SeqCst);
        ranks[2].count_processors();
        assert!(!ranks[2].crowded());
    }

    #[test]
    fn who_leaves_is_seen() {
        let ranks = for_tests(2, 1);
        assert!(!ranks[0].is_gone(1));
        ranks[1].leave();
        assert!(ranks[0].is_gone(1) && !ranks[0].is_gone(0));
    }
}
