//! Tells whether this process is a forked child of the one that made its communicators.

use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// A page that the kernel empties in a child: no system call and no fork handler is needed to look.
static MARK: OnceLock<Option<&'static AtomicU32>> = OnceLock::new();

fn mark() -> Option<&'static AtomicU32> {
    const PAGE: usize = 4096;
    // SAFETY: a new private mapping at an address that the kernel chooses touches nothing that exists.
    let page = unsafe {
        rustix::mm::mmap_anonymous(
            std::ptr::null_mut(),
            PAGE,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE,
        )
    }
    .ok()?;
    // SAFETY: the page was mapped above and nothing else uses it.
    if unsafe { rustix::mm::madvise(page, PAGE, Advice::LinuxWipeOnFork) }.is_err() {
        // SAFETY: as above.
        let _ = unsafe { rustix::mm::munmap(page, PAGE) };
        return None;
    }
    // SAFETY: the page is zeroed, aligned, and stays mapped for the life of the process.
    let word = unsafe { &*page.cast::<AtomicU32>() };
    word.store(1, Ordering::Relaxed);
    Some(word)
}

/// Sets the mark; call before the first communicator is made.
pub(crate) fn watch() {
    MARK.get_or_init(mark);
}

/// Whether this is a child of the process that called [`watch`]. Kernels before 4.14 cannot tell: no.
#[inline]
pub(crate) fn is_child() -> bool {
    MARK.get()
        .copied()
        .flatten()
        .is_some_and(|word| word.load(Ordering::Relaxed) == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_itself_is_no_child() {
        watch();
        assert!(!is_child());
        assert!(mark().is_some_and(|word| word.load(Ordering::Relaxed) == 1));
    }
}
