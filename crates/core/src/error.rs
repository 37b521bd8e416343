//! The one error type of the library: a kind, the operation that failed, context, and the cause.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

/// `Result` with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// What sort of failure it is; the numbers are the result codes of the C interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A failure that fits no other kind.
    Unhandled = 1,
    /// The operating system refused a call.
    System = 2,
    /// A defect of this library or of a plugin.
    Internal = 3,
    /// An argument of the call is wrong.
    InvalidArgument = 4,
    /// The call, the configuration or the environment is used the wrong way.
    InvalidUsage = 5,
    /// Another rank failed, vanished or disagrees.
    Remote = 6,
    /// The operation has not ended yet.
    InProgress = 7,
    /// No plugin and no emulation offers this.
    NotSupported = 8,
    /// A time limit passed.
    Timeout = 9,
    /// The communicator was aborted.
    Aborted = 10,
}

impl ErrorKind {
    /// The result code of the C interface.
    pub const fn code(self) -> u32 {
        self as u32
    }

    /// A short name for logs and messages.
    pub const fn name(self) -> &'static str {
        match self {
            ErrorKind::Unhandled => "unhandled error",
            ErrorKind::System => "system error",
            ErrorKind::Internal => "internal error",
            ErrorKind::InvalidArgument => "invalid argument",
            ErrorKind::InvalidUsage => "invalid usage",
            ErrorKind::Remote => "remote error",
            ErrorKind::InProgress => "in progress",
            ErrorKind::NotSupported => "not supported",
            ErrorKind::Timeout => "timeout",
            ErrorKind::Aborted => "aborted",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An error with its kind, a message, `key=value` context (rank, peer, device, path, …) and its source.
///
/// `Display` is one line; `Debug` adds the chain of sources. Cloning is cheap, since a failed communicator
/// answers every later call with the same error.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    message: String,
    context: Vec<(&'static str, String)>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error of `kind` whose message says what failed and what to look at.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error(Arc::new(Inner {
            kind,
            message: message.into(),
            context: Vec::new(),
            source: None,
        }))
    }

    /// Adds a `key=value` pair; a key that is already there keeps its first value.
    #[must_use]
    pub fn with(mut self, key: &'static str, value: impl fmt::Display) -> Self {
        if self.get(key).is_none() {
            Arc::make_mut(&mut self.0).context.push((key, value.to_string()));
        }
        self
    }

    /// Keeps `source` as the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        Arc::make_mut(&mut self.0).source = Some(Arc::new(source));
        self
    }

    /// The kind of failure.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The message without context and source.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The value of a context key, such as `"rank"`.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0
            .context
            .iter()
            .find(|(k, _)| *k == key)
            .map(|(_, v)| v.as_str())
    }

    /// All context pairs, in the order they were added.
    pub fn context(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.context.iter().map(|(k, v)| (*k, v.as_str()))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.kind, self.0.message)?;
        if !self.0.context.is_empty() {
            f.write_str(" (")?;
            for (i, (k, v)) in self.0.context.iter().enumerate() {
                write!(f, "{}{k}={v}", if i == 0 { "" } else { ", " })?;
            }
            f.write_str(")")?;
        }
        let mut cause = self.source();
        while let Some(source) = cause {
            write!(f, ": {source}")?;
            cause = source.source();
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("message", &self.0.message)
            .field("context", &self.0.context)
            .field("source", &self.0.source)
            .finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|s| s as &(dyn StdError + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_is_one_line_with_context_and_cause() {
        let e = Error::new(ErrorKind::System, "cannot bind the listener")
            .with("address", "10.0.0.1:7000")
            .with("rank", 3)
            .with("rank", 4)
            .with_source(std::io::Error::from_raw_os_error(98));
        let text = e.to_string();
        assert_eq!(
            text,
            "system error: cannot bind the listener (address=10.0.0.1:7000, rank=3): Address already in use (os error 98)"
        );
        assert_eq!(e.get("rank"), Some("3"));
    }
}
