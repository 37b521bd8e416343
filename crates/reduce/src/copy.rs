//! Copies that are too large for any cache.

use std::ptr;

/// Bytes from which [`copy`] writes past the caches.
///
/// Where this was measured (32 MiB third-level cache), such stores gain nothing below 8 MiB and copy twice as fast
/// from 16 MiB on, also when the copy is read afterwards.
const STREAM_FROM: usize = 16 << 20;

/// Copies `bytes` bytes; large copies leave the caches to others.
///
/// # Safety
/// `src` is valid for reads and `dst` for writes of that many bytes. They do not overlap, and no other thread writes
/// to either, or reads `dst`, during the call.
pub unsafe fn copy(dst: *mut u8, src: *const u8, bytes: usize) {
    // SAFETY: the same contract.
    unsafe {
        if bytes >= STREAM_FROM {
            copy_streaming(dst, src, bytes);
        } else {
            ptr::copy_nonoverlapping(src, dst, bytes);
        }
    }
}

/// Copies like [`copy`], past the caches whatever the size: for a piece of a copy that is large as a whole.
///
/// # Safety
/// That of [`copy`].
pub unsafe fn copy_streaming(dst: *mut u8, src: *const u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_mm_loadu_si128, _mm_sfence, _mm_stream_si128};

        const LINE: usize = 64;
        let head = dst.align_offset(LINE).min(bytes);
        let lines = (bytes - head) / LINE;
        let tail = head + lines * LINE;
        // SAFETY: head, lines and tail make up the bytes that the caller vouches for, and the lines are aligned.
        unsafe {
            ptr::copy_nonoverlapping(src, dst, head);
            for line in 0..lines {
                let at = head + line * LINE;
                for part in (at..at + LINE).step_by(16) {
                    _mm_stream_si128(dst.add(part).cast(), _mm_loadu_si128(src.add(part).cast()));
                }
            }
            // Streaming stores are ordered with no other store, the flag that announces the copy included.
            _mm_sfence();
            ptr::copy_nonoverlapping(src.add(tail), dst.add(tail), bytes - tail);
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the same contract.
    unsafe {
        ptr::copy_nonoverlapping(src, dst, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::copy_streaming;

    #[test]
    fn streams_exactly_the_bytes_asked_for() {
        let source: Vec<u8> = (0..1000u32).map(|at| (at * 7 + at / 256) as u8).collect();
        for bytes in [0, 1, 15, 16, 63, 64, 65, 127, 128, 129, 700] {
            for (to, from) in [(0, 0), (1, 0), (0, 1), (63, 5), (64, 64), (17, 33)] {
                let mut target = vec![0xee; 1000];
                // SAFETY: both ranges lie within their buffers.
                unsafe { copy_streaming(target[to..].as_mut_ptr(), source[from..].as_ptr(), bytes) };
                assert_eq!(
                    target[to..to + bytes],
                    source[from..from + bytes],
                    "{bytes} bytes to {to}"
                );
                assert!(
                    target[..to]
                        .iter()
                        .chain(&target[to + bytes..])
                        .all(|&byte| byte == 0xee)
                );
            }
        }
    }
}
