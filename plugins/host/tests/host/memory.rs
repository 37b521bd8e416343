//! Buffers that end at a page nobody may touch, and begin after bytes that must not change.

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};

const PAGE: usize = 4096;
const CANARY: u8 = 0xa5;
/// What a buffer is filled with before it is used.
pub(crate) const POISON: u8 = 0xee;

/// A guarded buffer of bytes.
pub(crate) struct Guarded {
    base: *mut u8,
    mapped: usize,
    start: usize,
    len: usize,
}

impl Guarded {
    /// `len` poisoned bytes; the byte after the last cannot be touched.
    pub(crate) fn new(len: usize) -> Guarded {
        let data = len.next_multiple_of(PAGE) + PAGE;
        let mapped = data + PAGE;
        // SAFETY: a new private mapping touches nothing that exists; its last page is made untouchable.
        let base = unsafe {
            let base = rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                mapped,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
            .expect("memory");
            rustix::mm::mprotect(base.cast::<u8>().add(data).cast(), PAGE, MprotectFlags::empty())
                .expect("guard");
            base.cast::<u8>()
        };
        let start = data - len;
        let mut buffer = Guarded {
            base,
            mapped,
            start,
            len,
        };
        // SAFETY: below the guard page.
        unsafe { std::slice::from_raw_parts_mut(base, start) }.fill(CANARY);
        buffer.bytes_mut().fill(POISON);
        buffer
    }

    /// A buffer with these bytes.
    pub(crate) fn with(bytes: &[u8]) -> Guarded {
        let mut buffer = Guarded::new(bytes.len());
        buffer.bytes_mut().copy_from_slice(bytes);
        buffer
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: mapped as long as `self` lives.
        unsafe { std::slice::from_raw_parts(self.base.add(self.start), self.len) }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.base.add(self.start), self.len) }
    }

    pub(crate) fn ptr(&self) -> *const u8 {
        self.bytes().as_ptr()
    }

    pub(crate) fn ptr_mut(&mut self) -> *mut u8 {
        self.bytes_mut().as_mut_ptr()
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: below the guard page.
        let before = unsafe { std::slice::from_raw_parts(self.base, self.start) };
        let intact = before.iter().all(|byte| *byte == CANARY);
        // SAFETY: mapped by `new`, used by nobody else.
        let _ = unsafe { rustix::mm::munmap(self.base.cast(), self.mapped) };
        assert!(
            intact || std::thread::panicking(),
            "bytes before a buffer were written"
        );
    }
}
