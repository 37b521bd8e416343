//! How ranks find their segment: rank 0 makes it, all prove that they see the same memory, and the name goes.

use super::handoff::{self, Giver};
use super::layout::{Layout, MAX_RANKS};
use super::segment::{MAGIC, Segment, VERSION};
use super::shared::{self, Mapping, Reserve, SharedFile};
use infiniccl_plugin_api::{Failure, HostServices, LogLevel, Status};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Bytes of an id.
pub(crate) const ID: usize = 40;
const ID_MAGIC: &[u8; 8] = b"ICCLhid1";

/// A new id: nobody can guess it, nor the name that follows from it.
pub(crate) fn new_id() -> Result<[u8; ID], Failure> {
    let mut id = [0; ID];
    id[..8].copy_from_slice(ID_MAGIC);
    let mut rest = &mut id[8..];
    while !rest.is_empty() {
        let got = crate::error::uninterrupted(|| {
            rustix::rand::getrandom(&mut *rest, rustix::rand::GetRandomFlags::empty())
        })
        .map_err(|errno| crate::error::system("random bytes for an id", errno))?;
        rest = &mut rest[got..];
    }
    Ok(id)
}

/// Who joins, and how long it may take.
pub(crate) struct Joiner<'a> {
    pub(crate) id: &'a [u8],
    pub(crate) rank: usize,
    pub(crate) size: usize,
    pub(crate) timeout: Duration,
    /// Bytes of a rank's slot that the configuration asks for.
    pub(crate) slot: Option<usize>,
    pub(crate) host: Option<&'static HostServices>,
    pub(crate) reserve: Reserve,
}

impl Joiner<'_> {
    /// Joins; returns when all ranks have.
    pub(crate) fn join(&self) -> Result<Segment, Failure> {
        if self.id.len() != ID || &self.id[..8] != ID_MAGIC {
            return Err(crate::error::usage(
                "the id was not made by comm_unique_id of this plugin",
            ));
        }
        if self.size == 0 || self.rank >= self.size {
            let text = format!("rank {} of a communicator of {} ranks", self.rank, self.size);
            return Err(crate::error::usage(text));
        }
        if self.size > MAX_RANKS {
            let text = format!("{} ranks; this plugin serves at most {MAX_RANKS}", self.size);
            return Err(Failure::new(Status::UNSUPPORTED, text));
        }
        let start = Instant::now();
        let deadline = start.checked_add(self.timeout);
        let expired = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
        let mut joined = if self.rank == 0 {
            self.make(&expired)
        } else {
            self.attach(&expired)
        };
        match &mut joined {
            Ok(segment) => segment.count_processors(),
            // Rank 0 may have died before it could.
            Err(_) => shared::remove(&self.name()),
        }
        joined
    }

    fn hash(&self, purpose: &str) -> blake3::Hash {
        let mut hasher =
            blake3::Hasher::new_derive_key("InfiniCCL host plugin: names and proofs of a segment");
        hasher.update(self.id).update(purpose.as_bytes());
        hasher.finalize()
    }

    fn name(&self) -> String {
        format!("/infiniccl-{}", &self.hash("name").to_hex()[..32])
    }

    fn proof(&self, rank: usize) -> u64 {
        let hash = self.hash(&format!("rank {rank}"));
        let word = hash.as_bytes()[..8].try_into().map_or(1, u64::from_le_bytes);
        word | 1
    }

    fn make(&self, expired: &dyn Fn() -> bool) -> Result<Segment, Failure> {
        let name = self.name();
        let SharedFile {
            file,
            layout,
            named,
            remark,
        } = shared::create(&name, Layout::new(self.size, self.slot), self.reserve)?;
        if let (Some(remark), Some(host)) = (remark, self.host) {
            host.write_log(LogLevel::WARN, "ccl", remark);
        }
        let segment = Segment::new(Mapping::new(file.as_fd(), layout.total())?, layout, 0);
        let header = segment.header();
        header.magic.store(MAGIC, Ordering::Relaxed);
        header.version.store(VERSION, Ordering::Relaxed);
        header.ranks.store(number(layout.ranks)?, Ordering::Relaxed);
        header.slot.store(layout.slot as u64, Ordering::Relaxed);
        header.ring.store(layout.ring as u64, Ordering::Relaxed);
        header.ready.store(1, Ordering::Release);
        let giver = match named {
            Some(_) => None,
            None => Some(Giver::listen(&name[1..])?),
        };
        self.meet(&segment, expired, &|| {
            if let Some(giver) = &giver {
                giver.serve(file.as_fd());
            }
        })?;
        Ok(segment)
    }

    fn attach(&self, expired: &dyn Fn() -> bool) -> Result<Segment, Failure> {
        let name = self.name();
        let mut pause = Pause::new();
        let segment = loop {
            let file = match shared::open(&name)? {
                Some(file) => Some(file),
                None => handoff::take(&name[1..])?,
            };
            if let Some(file) = file
                && let Some(segment) = self.view(&file, expired)?
            {
                break segment;
            }
            self.check_abort()?;
            if expired() {
                return Err(self.late(
                    "rank 0 offers no shared memory; it is missing or sees another /dev/shm (containers share \
                     it with --ipc=host)",
                ));
            }
            pause.step();
        };
        self.meet(&segment, expired, &|| {})?;
        Ok(segment)
    }

    /// Maps the file once rank 0 has finished its header; none if rank 0 gave the file up, since there was no room
    /// for it, and will offer other memory.
    fn view(&self, file: &OwnedFd, expired: &dyn Fn() -> bool) -> Result<Option<Segment>, Failure> {
        let mut pause = Pause::new();
        loop {
            let size = shared::size(file.as_fd())?;
            // The smallest segment is far larger than its header, so a file of any size has one.
            if size >= Layout::new(1, Some(1)).total() {
                let whole = Mapping::new(file.as_fd(), size)?;
                // SAFETY: the mapping holds a header, which is made of atomics only, at a page's start.
                let header = unsafe { &*whole.base().as_ptr().cast::<super::segment::Header>() };
                if header.ready.load(Ordering::Acquire) == 1 {
                    let refuse = |text: String| {
                        let rank = number(self.rank + 1).unwrap_or(1);
                        header.refused.store(rank, Ordering::SeqCst);
                        Err(Failure::new(Status::MISMATCH, text))
                    };
                    let version = header.version.load(Ordering::Relaxed);
                    if header.magic.load(Ordering::Relaxed) != MAGIC || version != VERSION {
                        return refuse(format!(
                            "rank 0 uses version {version} of the shared segment, rank {} version {VERSION}; all \
                             ranks of a node need the same build of the plugin",
                            self.rank
                        ));
                    }
                    let field = |value: u64| usize::try_from(value).unwrap_or(0);
                    let layout = Layout {
                        ranks: field(header.ranks.load(Ordering::Relaxed).into()),
                        slot: field(header.slot.load(Ordering::Relaxed)),
                        ring: field(header.ring.load(Ordering::Relaxed)),
                    };
                    if layout.ranks != self.size {
                        return refuse(format!(
                            "rank 0 expects {} ranks, rank {} expects {}",
                            layout.ranks, self.rank, self.size
                        ));
                    }
                    if !layout.is_sound() || layout.total() > size {
                        return refuse("the shared segment of rank 0 is damaged".into());
                    }
                    return Ok(Some(Segment::new(whole, layout, self.rank)));
                }
            }
            // Rank 0 removes the name of a finished file only when this rank has attached, too.
            if shared::is_nameless(file.as_fd())? {
                return Ok(None);
            }
            self.check_abort()?;
            if expired() {
                return Err(self.late("rank 0 did not finish its shared memory"));
            }
            pause.step();
        }
    }

    /// Writes this rank's proof and waits for everyone's; `serve` runs meanwhile.
    fn meet(&self, segment: &Segment, expired: &dyn Fn() -> bool, serve: &dyn Fn()) -> Result<(), Failure> {
        let header = segment.header();
        segment.add_processors();
        let mine = &header.attached[self.rank];
        if mine
            .compare_exchange(0, self.proof(self.rank), Ordering::SeqCst, Ordering::SeqCst)
            .is_err()
        {
            let text = format!("rank {} joined the communicator twice", self.rank);
            return Err(crate::error::usage(text));
        }
        let mut pause = Pause::new();
        loop {
            serve();
            let missing: Vec<usize> = (0..self.size)
                .filter(|rank| header.attached[*rank].load(Ordering::Acquire) != self.proof(*rank))
                .collect();
            if missing.is_empty() {
                return Ok(());
            }
            let refused = header.refused.load(Ordering::Acquire);
            if refused != 0 {
                let text = format!(
                    "rank {} refused the shared segment of rank 0; see its message",
                    refused - 1
                );
                return Err(Failure::new(Status::MISMATCH, text));
            }
            self.check_abort()?;
            if expired() {
                let names = missing
                    .iter()
                    .map(usize::to_string)
                    .collect::<Vec<_>>()
                    .join(", ");
                return Err(self.late(&format!(
                    "ranks that did not attach to the shared segment: {names}; they are missing or see another \
                     /dev/shm (containers share it with --ipc=host)"
                )));
            }
            pause.step();
        }
    }

    fn late(&self, text: &str) -> Failure {
        Failure::new(Status::TIMEOUT, format!("after {:?}: {text}", self.timeout))
    }

    fn check_abort(&self) -> Result<(), Failure> {
        if self.host.is_some_and(HostServices::aborting) {
            return Err(Failure::new(
                Status::ABORTED,
                "the process is shutting its communicators down",
            ));
        }
        Ok(())
    }
}

fn number(value: usize) -> Result<u32, Failure> {
    u32::try_from(value).map_err(|_| crate::error::usage("a number of ranks above 2^32"))
}

/// Pauses that grow from yielding to a millisecond: peers start within microseconds or within seconds.
struct Pause(u32);

impl Pause {
    fn new() -> Pause {
        Pause(0)
    }

    fn step(&mut self) {
        self.0 += 1;
        match self.0 {
            0..50 => std::thread::yield_now(),
            _ => std::thread::sleep(Duration::from_micros(u64::from(self.0.min(1000)))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;
    use std::os::fd::BorrowedFd;

    fn joiner(id: &[u8; ID], rank: usize, size: usize) -> Joiner<'_> {
        let timeout = Duration::from_secs(20);
        Joiner {
            id,
            rank,
            size,
            timeout,
            slot: Some(1),
            host: None,
            reserve: shared::reserve,
        }
    }

    fn all(joiners: Vec<Joiner<'_>>) -> Vec<Result<Segment, Failure>> {
        std::thread::scope(|scope| {
            let threads: Vec<_> = joiners
                .iter()
                .map(|joiner| scope.spawn(|| joiner.join()))
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().expect("no panic"))
                .collect()
        })
    }

    fn named_file_exists(id: &[u8; ID]) -> bool {
        std::path::Path::new(&format!("/dev/shm{}", joiner(id, 0, 1).name())).exists()
    }

    #[test]
    fn all_ranks_see_one_memory_and_no_name_is_left() {
        let id = new_id().expect("id");
        let ranks = all((0..5).map(|rank| joiner(&id, rank, 5)).collect());
        let ranks: Vec<Segment> = ranks.into_iter().map(|rank| rank.expect("joined")).collect();
        ranks[3].leave();
        assert!(ranks.iter().all(|rank| rank.is_gone(3) && !rank.is_gone(2)));
        assert!(!named_file_exists(&id));
    }

    #[test]
    fn a_missing_rank_is_named_within_the_limit() {
        let id = new_id().expect("id");
        let mut joiners: Vec<_> = [0, 2].into_iter().map(|rank| joiner(&id, rank, 4)).collect();
        for joiner in &mut joiners {
            joiner.timeout = Duration::from_millis(100);
        }
        for joined in all(joiners) {
            let failure = joined.expect_err("two are missing");
            assert_eq!(failure.status, Status::TIMEOUT);
            assert!(failure.text.contains(" 1, 3;"), "{}", failure.text);
        }
        assert!(!named_file_exists(&id));
    }

    #[test]
    fn ranks_that_disagree_about_the_size_fail_all() {
        let id = new_id().expect("id");
        let joined = all(vec![joiner(&id, 0, 2), joiner(&id, 1, 3)]);
        for failure in joined.into_iter().map(|rank| rank.expect_err("disagreement")) {
            assert_eq!(failure.status, Status::MISMATCH, "{}", failure.text);
        }
        assert!(!named_file_exists(&id));
    }

    #[test]
    fn nameless_memory_is_handed_over() {
        fn no_names(file: BorrowedFd<'_>, len: usize) -> rustix::io::Result<()> {
            match rustix::fs::fcntl_get_seals(file) {
                Ok(seals) if !seals.contains(rustix::fs::SealFlags::SEAL) => shared::reserve(file, len),
                _ => Err(Errno::NOSPC),
            }
        }
        let id = new_id().expect("id");
        let mut joiners: Vec<_> = (0..3).map(|rank| joiner(&id, rank, 3)).collect();
        joiners[0].reserve = no_names;
        let ranks: Vec<_> = all(joiners)
            .into_iter()
            .map(|rank| rank.expect("joined"))
            .collect();
        ranks[0].leave();
        assert!(ranks[2].is_gone(0));
    }

    #[test]
    fn a_file_that_rank_0_gave_up_holds_nobody() {
        let id = new_id().expect("id");
        let late = joiner(&id, 1, 2);
        let flags = rustix::shm::OFlags::CREATE | rustix::shm::OFlags::RDWR;
        let file = rustix::shm::open(late.name(), flags, rustix::fs::Mode::RUSR).expect("file");
        shared::remove(&late.name());
        assert!(late.view(&file, &|| false).expect("no error").is_none());
    }

    #[test]
    fn wrong_arguments_are_refused_at_once() {
        let id = new_id().expect("id");
        assert_eq!(
            joiner(&[7; ID], 0, 1).join().expect_err("no id").status,
            Status::USAGE
        );
        assert_eq!(joiner(&id, 2, 2).join().expect_err("rank").status, Status::USAGE);
        let many = joiner(&id, 0, MAX_RANKS + 1).join().expect_err("too many");
        assert_eq!(many.status, Status::UNSUPPORTED);
        assert!(joiner(&id, 0, 1).join().is_ok());
    }
}
