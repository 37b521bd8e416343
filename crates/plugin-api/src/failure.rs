//! The text of the calling thread's last failure, which the core asks for only after one.

use crate::{Buffer, Status};
use std::cell::RefCell;
use std::fmt;
use std::panic::catch_unwind;

thread_local! {
    static LAST_ERROR: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Stores `text` as the calling thread's last failure; the next one on this thread replaces it.
pub fn set_last_error(text: impl fmt::Display) {
    use fmt::Write;
    // A thread that is ending, or a Display that calls back into this function, loses the text but not the status.
    let _ = LAST_ERROR.try_with(|last| {
        if let Ok(mut last) = last.try_borrow_mut() {
            last.clear();
            let _ = write!(last, "{text}");
        }
    });
}

/// Stores `text` as the last failure and answers `status`: `return fail(Status::USAGE, "null pointer")`.
pub fn fail(status: Status, text: impl fmt::Display) -> Status {
    set_last_error(text);
    status
}

/// The calling thread's last failure; empty when there was none.
pub fn last_error_text() -> String {
    LAST_ERROR
        .try_with(|last| last.borrow().clone())
        .unwrap_or_default()
}

/// Writes the calling thread's last failure to `buffer` and forgets it, so that a later failure without a text is
/// not explained by this one; [`Status::TOO_SMALL`] with the needed length when it does not fit, and it is kept.
///
/// # Safety
/// As for [`Buffer::write`].
pub unsafe fn write_last_error(buffer: Buffer) -> Status {
    let write = |last: &RefCell<String>| {
        let mut last = last.borrow_mut();
        // SAFETY: the caller's promise.
        let status = unsafe { buffer.write(last.as_bytes()) };
        if status.is_ok() {
            last.clear();
        }
        status
    };
    LAST_ERROR.try_with(write).unwrap_or(Status::SYSTEM)
}

/// Ready to stand in a table's `last_error` field; works for a poisoned plugin too.
pub extern "C" fn last_error(text: Buffer) -> Status {
    // SAFETY: the tables ask the core for a buffer that is valid for the call.
    catch_unwind(|| unsafe { write_last_error(text) }).unwrap_or(Status::PANICKED)
}

/// A status with its text, for functions that use `?`; `Status::from(result)` ends an exported function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What the exported function answers.
    pub status: Status,
    /// What becomes the last error.
    pub text: String,
}

impl Failure {
    /// A failure with its text.
    pub fn new(status: Status, text: impl Into<String>) -> Self {
        Failure {
            status,
            text: text.into(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.status.name(), self.text)
    }
}

impl std::error::Error for Failure {}

impl From<Failure> for Status {
    fn from(failure: Failure) -> Self {
        fail(failure.status, failure.text)
    }
}

impl From<Result<(), Failure>> for Status {
    fn from(result: Result<(), Failure>) -> Self {
        match result {
            Ok(()) => Status::OK,
            Err(failure) => failure.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_belongs_to_the_thread_and_fits_or_says_how_much_it_needs() {
        assert_eq!(
            fail(Status::REMOTE, format_args!("rank {} left", 3)),
            Status::REMOTE
        );
        std::thread::scope(|scope| {
            scope.spawn(|| assert_eq!(last_error_text(), ""));
        });
        let (mut bytes, mut len) = ([0_u8; 11], 0_u64);
        let short = Buffer {
            ptr: bytes.as_mut_ptr(),
            capacity: 4,
            len: &mut len,
        };
        assert_eq!(last_error(short), Status::TOO_SMALL);
        assert_eq!((len, bytes[0]), (11, 0));
        let enough = Buffer {
            ptr: bytes.as_mut_ptr(),
            capacity: 11,
            len: &mut len,
        };
        assert_eq!(last_error(enough), Status::OK);
        assert_eq!(&bytes, b"rank 3 left");
        assert_eq!((last_error(enough), len), (Status::OK, 0));
    }

    #[test]
    fn a_result_becomes_a_status() {
        assert_eq!(Status::from(Ok(())), Status::OK);
        let failed: Result<(), Failure> = Err(Failure::new(Status::SYSTEM, "no port"));
        assert_eq!(Status::from(failed), Status::SYSTEM);
        assert_eq!(last_error_text(), "no port");
    }
}
