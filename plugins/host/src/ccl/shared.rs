//! Shared memory of one node: made by rank 0, opened by the others, never larger than what is reserved.

use super::layout::Layout;
use crate::error::{system, uninterrupted};
use infiniccl_plugin_api::{Failure, Status};
use rustix::fs::{FallocateFlags, MemfdFlags, Mode, SealFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use rustix::shm;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

/// A mapping of the shared file, unmapped on drop. A forked child does not inherit it.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is plain memory; who reads or writes which part when is the business of `Segment`.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes of the file for reading and writing.
    pub(crate) fn new(file: BorrowedFd<'_>, len: usize) -> Result<Mapping, Failure> {
        // SAFETY: a new mapping at an address that the kernel chooses touches nothing that exists.
        let base = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                file,
                0,
            )
        }
        .map_err(|errno| system(format_args!("mapping {len} bytes of shared memory"), errno))?;
        let base = NonNull::new(base.cast::<u8>())
            .ok_or_else(|| Failure::new(Status::SYSTEM, "shared memory was mapped at address zero"))?;
        let mapping = Mapping { base, len };
        // SAFETY: the range was mapped above and only a child of a fork notices.
        unsafe { rustix::mm::madvise(base.as_ptr().cast(), len, Advice::LinuxDontFork) }
            .map_err(|errno| system("keeping shared memory from forked children", errno))?;
        Ok(mapping)
    }

    /// The first byte.
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Bytes mapped.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if crate::fork::is_child() {
            // The child never had the mapping; something else may be there.
            return;
        }
        // SAFETY: the range was mapped by `new`, and whoever points into it holds this mapping.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// A file of shared memory and how the other ranks get at it.
#[derive(Debug)]
pub(crate) struct SharedFile {
    /// The reserved file.
    pub(crate) file: OwnedFd,
    /// What fits in it.
    pub(crate) layout: Layout,
    /// Whether it has a name in `/dev/shm`; else its descriptor must be handed over.
    pub(crate) named: Option<Name>,
    /// Why it is not what was asked for, to be logged once.
    pub(crate) remark: Option<String>,
}

/// A name in `/dev/shm`, removed on drop.
#[derive(Debug)]
pub(crate) struct Name(String);

impl Drop for Name {
    fn drop(&mut self) {
        // The file may be gone already: any rank that gives up removes it.
        let _ = shm::unlink(&self.0);
    }
}

/// How bytes are reserved in a file; the tests put a full file system here.
pub(crate) type Reserve = fn(BorrowedFd<'_>, usize) -> rustix::io::Result<()>;

/// Reserves memory for the first `len` bytes, so that touching them later cannot be refused with SIGBUS.
pub(crate) fn reserve(file: BorrowedFd<'_>, len: usize) -> rustix::io::Result<()> {
    uninterrupted(|| rustix::fs::fallocate(file, FallocateFlags::empty(), 0, len as u64))
}

/// Makes the file: in `/dev/shm`, smaller if it is full, else anonymous.
pub(crate) fn create(name: &str, layout: Layout, reserve: Reserve) -> Result<SharedFile, Failure> {
    let refused = match create_named(name, layout, reserve) {
        Ok(shared) => return Ok(shared),
        Err(text) => text,
    };
    let text = |errno| {
        let needed = layout.total();
        system(
            format_args!("no shared memory: {refused}; and {needed} bytes without a name"),
            errno,
        )
    };
    let file = rustix::fs::memfd_create("infiniccl", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
        .map_err(text)?;
    reserve(file.as_fd(), layout.total()).map_err(text)?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)
        .map_err(text)?;
    let remark = Some(format!("{refused}; anonymous shared memory is used instead"));
    Ok(SharedFile {
        file,
        layout,
        named: None,
        remark,
    })
}

fn create_named(name: &str, wish: Layout, reserve: Reserve) -> Result<SharedFile, String> {
    let flags = shm::OFlags::CREATE | shm::OFlags::EXCL | shm::OFlags::RDWR;
    let file = uninterrupted(|| shm::open(name, flags, Mode::RUSR | Mode::WUSR))
        .map_err(|errno| format!("/dev/shm refuses a new file ({})", std::io::Error::from(errno)))?;
    let named = Name(name.to_owned());
    let mut layout = wish;
    loop {
        match reserve(file.as_fd(), layout.total()) {
            Ok(()) => break,
            Err(errno) => match (errno, layout.halved()) {
                (Errno::NOSPC | Errno::NOMEM, Some(half)) => layout = half,
                _ => return Err(shortage(file.as_fd(), layout, errno)),
            },
        }
    }
    let remark = (layout != wish).then(|| {
        format!(
            "{}; buffers of {} bytes in all are used, which is slower for large messages",
            shortage(file.as_fd(), wish, Errno::NOSPC),
            layout.total()
        )
    });
    Ok(SharedFile {
        file,
        layout,
        named: Some(named),
        remark,
    })
}

fn shortage(file: BorrowedFd<'_>, layout: Layout, errno: Errno) -> String {
    let room = rustix::fs::fstatvfs(file).map_or(0, |fs| fs.f_bavail.saturating_mul(fs.f_frsize));
    format!(
        "/dev/shm has no room for {} bytes: {room} are free ({}); give the container more with --shm-size \
         or share the host's with --ipc=host",
        layout.total(),
        std::io::Error::from(errno)
    )
}

/// Opens the file that rank 0 named; `None` while there is none.
pub(crate) fn open(name: &str) -> Result<Option<OwnedFd>, Failure> {
    match uninterrupted(|| shm::open(name, shm::OFlags::RDWR, Mode::empty())) {
        Ok(file) => check_owner(file.as_fd()).map(|()| Some(file)),
        // Without /dev/shm rank 0 has none either, and hands its memory over.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::NOSYS) => Ok(None),
        Err(errno) => Err(system(
            "opening the shared memory of rank 0; do the ranks run as one user?",
            errno,
        )),
    }
}

/// Removes the name of a file that rank 0 may have left behind.
pub(crate) fn remove(name: &str) {
    // Mostly it is gone already.
    let _ = shm::unlink(name);
}

/// Refuses memory of another user: it could be changed or cut off at any time.
pub(crate) fn check_owner(file: BorrowedFd<'_>) -> Result<(), Failure> {
    let stat = rustix::fs::fstat(file).map_err(|errno| system("looking at shared memory", errno))?;
    let me = rustix::process::geteuid().as_raw();
    if stat.st_uid != me {
        let text = format!(
            "shared memory belongs to user {}, this rank runs as {me}",
            stat.st_uid
        );
        return Err(Failure::new(Status::SYSTEM, text));
    }
    Ok(())
}

/// Whether a file has no name any more.
pub(crate) fn is_nameless(file: BorrowedFd<'_>) -> Result<bool, Failure> {
    let stat = rustix::fs::fstat(file).map_err(|errno| system("looking at shared memory", errno))?;
    Ok(stat.st_nlink == 0)
}

/// Bytes in the file; zero until rank 0 has reserved it.
pub(crate) fn size(file: BorrowedFd<'_>) -> Result<usize, Failure> {
    let stat = rustix::fs::fstat(file).map_err(|errno| system("looking at shared memory", errno))?;
    usize::try_from(stat.st_size)
        .map_err(|_| Failure::new(Status::SYSTEM, "shared memory of a negative size"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "/infiniccl-unit-test";

    fn name(test: &str) -> String {
        format!("{NAME}-{test}-{}", std::process::id())
    }

    #[test]
    fn a_file_is_private_reserved_and_removed() {
        let name = name("plain");
        let layout = Layout::new(2, Some(1));
        let shared = create(&name, layout, reserve).expect("created");
        assert_eq!((shared.layout, &shared.remark), (layout, &None));
        let stat = rustix::fs::fstat(&shared.file).expect("stat");
        assert_eq!(stat.st_mode & 0o777, 0o600);
        assert!(
            stat.st_blocks.unsigned_abs() * 512 >= layout.total() as u64,
            "memory is reserved"
        );
        let opened = open(&name).expect("may be opened").expect("is there");
        assert_eq!(size(opened.as_fd()).expect("size"), layout.total());
        assert!(
            create_named(&name, layout, reserve).is_err(),
            "an existing name is never taken over"
        );
        drop(shared);
        assert!(open(&name).expect("no error").is_none());
    }

    #[test]
    fn a_full_file_system_gives_smaller_buffers() {
        fn small(file: BorrowedFd<'_>, len: usize) -> rustix::io::Result<()> {
            if len > 200_000 {
                Err(Errno::NOSPC)
            } else {
                reserve(file, len)
            }
        }
        let shared = create(&name("small"), Layout::new(4, None), small).expect("created");
        assert!(shared.named.is_some() && shared.layout.total() <= 200_000);
        let remark = shared.remark.expect("the loss is said");
        assert!(
            remark.contains("--shm-size") && remark.contains("bytes"),
            "{remark}"
        );
    }

    #[test]
    fn without_dev_shm_the_memory_is_anonymous_and_sealed() {
        fn none(file: BorrowedFd<'_>, len: usize) -> rustix::io::Result<()> {
            if rustix::fs::fcntl_get_seals(file).is_ok_and(|seals| !seals.contains(SealFlags::SEAL)) {
                reserve(file, len)
            } else {
                Err(Errno::NOSPC)
            }
        }
        let name = name("anonymous");
        let layout = Layout::new(4, None);
        let shared = create(&name, layout, none).expect("created");
        assert!(shared.named.is_none() && shared.layout == layout);
        assert!(
            rustix::fs::ftruncate(&shared.file, 0).is_err(),
            "nobody can cut it off"
        );
        assert!(
            open(&name).expect("no error").is_none(),
            "the refused file left no name"
        );
    }

    #[test]
    fn no_memory_at_all_names_the_sizes() {
        fn none(_: BorrowedFd<'_>, _: usize) -> rustix::io::Result<()> {
            Err(Errno::NOSPC)
        }
        let name = name("none");
        let failure = create(&name, Layout::new(2, None), none).expect_err("refused");
        assert_eq!(failure.status, Status::SYSTEM);
        assert!(failure.text.contains("--shm-size"), "{}", failure.text);
        assert!(open(&name).expect("no error").is_none());
    }
}
