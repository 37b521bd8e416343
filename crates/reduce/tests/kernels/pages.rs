//! Buffers between pages that may not be touched: a kernel that reads or writes past them crashes.

use std::ffi::c_void;
use std::ptr;

use infiniccl_reduce::{DataType, Factors, Input, ReduceOp, mean, reduce};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

use crate::arena::Case;
use crate::{on_each_isa, values};

/// Larger than the pages of every machine that this runs on, or as large.
const PAGE: usize = 64 << 10;

/// One page that may be used, with an inaccessible one on each side.
struct Guarded(*mut c_void);

impl Guarded {
    fn new() -> Self {
        // SAFETY: new memory; the protection covers its first and last third, which are whole pages.
        unsafe {
            let start = mmap_anonymous(
                ptr::null_mut(),
                3 * PAGE,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
            .expect("maps memory");
            mprotect(start, PAGE, MprotectFlags::empty()).expect("protects the page before");
            mprotect(start.add(2 * PAGE), PAGE, MprotectFlags::empty()).expect("protects the page after");
            Self(start)
        }
    }

    /// The first byte of a buffer of so many bytes, at the start or the end of the page.
    fn place(&self, bytes: usize, at_end: bool) -> *mut u8 {
        let offset = if at_end { 2 * PAGE - bytes } else { PAGE };
        self.0.cast::<u8>().wrapping_add(offset)
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and nothing points into it any more.
        unsafe { munmap(self.0, 3 * PAGE) }.expect("unmaps memory");
    }
}

#[test]
fn nothing_outside_the_buffers_is_read_or_written() {
    const RANKS: usize = 4;
    let pages: Vec<_> = (0..=RANKS).map(|_| Guarded::new()).collect();
    on_each_isa(|isa| {
        for &dtype in DataType::ALL {
            for count in (0..=70).chain([511, 512, 513, 4099]) {
                let bytes = count * dtype.size();
                let data: Vec<_> = (0..RANKS)
                    .map(|rank| values::elements(dtype, rank, count))
                    .collect();
                for ranks in [1, 2, 3, RANKS] {
                    let case = Case::new(dtype, ReduceOp::Sum, data[..ranks].to_vec());
                    for at_end in [false, true] {
                        let dst = pages[RANKS].place(bytes, at_end);
                        let inputs: Vec<_> = pages[..ranks]
                            .iter()
                            .map(|page| page.place(bytes, at_end))
                            .collect();
                        for (data, &input) in data.iter().zip(&inputs) {
                            // SAFETY: the place holds so many bytes.
                            unsafe { ptr::copy_nonoverlapping(data.as_ptr(), input, bytes) };
                        }
                        let list: Vec<_> = inputs.iter().map(|&ptr| Input { ptr, pre: false }).collect();
                        // SAFETY: every place holds `count` elements.
                        let result = unsafe {
                            reduce(dtype, ReduceOp::Sum, dst, &list, count, Factors::NONE).expect("a sum");
                            std::slice::from_raw_parts(dst, bytes)
                        };
                        assert_eq!(
                            result,
                            case.expected(),
                            "{dtype}, {count} elements of {ranks} on {isa}"
                        );
                        if dtype != DataType::Bool {
                            let inputs: Vec<_> = inputs.iter().map(|ptr| ptr.cast_const()).collect();
                            // SAFETY: as above.
                            unsafe { mean(dtype, dst, &inputs, count) }.expect("a mean");
                        }
                    }
                }
            }
        }
    });
}
