//! How failures are made: a status for the core, and a text that says what happened and what to look at.

pub(crate) use infiniccl_plugin_api::Failure;
use infiniccl_plugin_api::Status;
use std::fmt;

/// Result of this crate's internals.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// The caller used the function the wrong way.
pub(crate) fn usage(text: impl Into<String>) -> Failure {
    Failure::new(Status::USAGE, text)
}

/// The operating system refused `what`.
pub(crate) fn system(what: impl fmt::Display, cause: impl fmt::Display) -> Failure {
    Failure::new(Status::SYSTEM, format!("{what}: {cause}"))
}
