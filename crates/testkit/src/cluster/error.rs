//! The error of the local cluster and its jobs: what could not be done, and the system's word on it.

use std::{fmt, io};

/// A node, port or job that could not be made, in one line.
#[derive(Debug)]
pub struct ClusterError {
    what: String,
    source: Option<io::Error>,
}

impl ClusterError {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        ClusterError {
            what: what.into(),
            source: None,
        }
    }

    pub(crate) fn caused(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        ClusterError {
            what: what.into(),
            source: Some(source.into()),
        }
    }

    /// The kind of the system error behind it, where there is one.
    pub fn io_kind(&self) -> Option<io::ErrorKind> {
        self.source.as_ref().map(io::Error::kind)
    }
}

impl fmt::Display for ClusterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Some(source) => write!(f, "{}: {source}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

impl std::error::Error for ClusterError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source
            .as_ref()
            .map(|e| e as &(dyn std::error::Error + 'static))
    }
}
