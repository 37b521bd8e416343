//! Random bytes from the kernel.

use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

/// `N` fresh random bytes.
///
/// # Panics
/// When the kernel gives none: to go on without would make proofs worthless.
pub(crate) fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        match getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(errno) => panic!(
                "the kernel gives no random bytes: {}",
                std::io::Error::from(errno)
            ),
        }
    }
    bytes
}
