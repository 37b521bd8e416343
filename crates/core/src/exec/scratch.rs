//! Scratch memory of an engine: one block that grows to what the calls need, and is kept.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};

const ALIGN: usize = 4096;

/// A block of page-aligned memory.
pub(super) struct Scratch {
    ptr: *mut u8,
    bytes: usize,
}

// SAFETY: the block is owned, and only reached through `&mut self` or raw pointers of its engine.
unsafe impl Send for Scratch {}

impl Scratch {
    pub(super) const fn new() -> Self {
        Scratch {
            ptr: std::ptr::null_mut(),
            bytes: 0,
        }
    }

    /// The block, at least `bytes` long; what was in it is lost.
    pub(super) fn reserve(&mut self, bytes: u64) -> *mut u8 {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        if bytes > self.bytes {
            self.free();
            let rounded = bytes.next_multiple_of(ALIGN);
            let layout = Layout::from_size_align(rounded, ALIGN).expect("scratch memory of a schedule fits");
            // SAFETY: the layout has a size that is not zero.
            let ptr = unsafe { alloc(layout) };
            if ptr.is_null() {
                handle_alloc_error(layout);
            }
            (self.ptr, self.bytes) = (ptr, rounded);
        }
        self.ptr
    }

    fn free(&mut self) {
        if self.bytes > 0 {
            let layout = Layout::from_size_align(self.bytes, ALIGN).expect("checked when it was allocated");
            // SAFETY: allocated in `reserve` with this layout, and not freed since.
            unsafe { dealloc(self.ptr, layout) };
            (self.ptr, self.bytes) = (std::ptr::null_mut(), 0);
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.free();
    }
}
