//! Failures of this plugin: the operating system's answers in words.

use infiniccl_plugin_api::{Failure, Status};
use rustix::io::Errno;
use std::fmt::Display;

/// A refusal of the operating system: what was tried, its own words, and the number.
pub(crate) fn system(what: impl Display, errno: Errno) -> Failure {
    Failure::new(Status::SYSTEM, format!("{what}: {}", std::io::Error::from(errno)))
}

/// A call that breaks the rules of this table.
pub(crate) fn usage(text: impl Into<String>) -> Failure {
    Failure::new(Status::USAGE, text)
}

/// Repeats a system call that a signal interrupted.
pub(crate) fn uninterrupted<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}
