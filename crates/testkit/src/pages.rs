//! Memory that ends exactly at a page which nobody may read or write, so that a step too far is a crash.

use std::ptr::{self, NonNull};
use std::slice;

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

/// Zeroed bytes whose last one is followed by a page without access.
#[derive(Debug)]
pub struct Pages {
    start: NonNull<u8>,
    len: usize,
    map: NonNull<u8>,
    mapped: usize,
}

// SAFETY: the memory belongs to the value alone, and is reached through references to it only.
unsafe impl Send for Pages {}
// SAFETY: as above; shared references read only.
unsafe impl Sync for Pages {}

impl Pages {
    /// `len` bytes, aligned to every power of two that divides `len`.
    ///
    /// # Panics
    /// When the system gives no memory.
    pub fn new(len: usize) -> Self {
        let page = rustix::param::page_size();
        let usable = len.next_multiple_of(page);
        let mapped = usable + page;
        let (access, kind) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a fresh mapping at an address that the kernel chooses.
        let map =
            unsafe { mmap_anonymous(ptr::null_mut(), mapped, access, kind) }.expect("memory for a test");
        let map: NonNull<u8> = NonNull::new(map.cast()).expect("a mapping is never at zero");
        // SAFETY: `usable` bytes in, the mapping has one page more.
        let wall = unsafe { map.add(usable) };
        // SAFETY: that page is ours, and nothing refers to it.
        unsafe { mprotect(wall.as_ptr().cast(), page, MprotectFlags::empty()) }
            .expect("a page can be closed");
        // SAFETY: `len` is at most `usable`.
        let start = unsafe { wall.sub(len) };
        Pages {
            start,
            len,
            map,
            mapped,
        }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping has `len` initialised bytes here, for as long as `self` lives.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// The bytes, to write.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and borrowed once.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }

    /// The first byte that nobody may touch.
    pub fn wall(&self) -> *mut u8 {
        self.start.as_ptr().wrapping_add(self.len)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the whole mapping, which nobody refers to any more.
        let unmapped = unsafe { munmap(self.map.as_ptr().cast(), self.mapped) };
        debug_assert!(unmapped.is_ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_byte_is_followed_by_a_page_without_access() {
        for len in [0, 1, 7, 4095, 4096, 4097, 100_000] {
            let mut pages = Pages::new(len);
            assert!(pages.bytes().len() == len && pages.bytes().iter().all(|b| *b == 0));
            pages.bytes_mut().fill(7);
            assert_eq!(pages.wall().addr() % rustix::param::page_size(), 0);
            // The kernel refuses to read from there, where a load of ours would be a crash.
            let (reader, writer) = std::io::pipe().expect("a pipe");
            // SAFETY: write does not follow the address; it fails where the memory cannot be read.
            let written =
                unsafe { libc::write(std::os::fd::AsRawFd::as_raw_fd(&writer), pages.wall().cast(), 1) };
            assert_eq!(
                (written, std::io::Error::last_os_error().raw_os_error()),
                (-1, Some(libc::EFAULT))
            );
            drop(reader);
        }
    }
}
