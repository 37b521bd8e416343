//! What ends the command early: one line for the user, and the exit code that goes with it.

use std::io::ErrorKind;
use std::process::ExitCode;
use std::{fmt, io};

use infiniccl_testkit::cluster::ClusterError;

/// A failure of the command itself.
#[derive(Debug)]
pub(crate) struct Failure {
    text: String,
    code: u8,
}

impl Failure {
    /// A failure with the plain code 1.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Failure {
            text: text.into(),
            code: 1,
        }
    }

    /// Wrong arguments: code 2, as for those that the parser refuses.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Failure {
            text: text.into(),
            code: 2,
        }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<ClusterError> for Failure {
    /// A program that cannot be started ends as in a shell: 127 when it is not there, 126 when it may not run.
    fn from(e: ClusterError) -> Self {
        let code = match e.io_kind() {
            Some(ErrorKind::NotFound) => 127,
            Some(ErrorKind::PermissionDenied) => 126,
            _ => 1,
        };
        Failure {
            text: e.to_string(),
            code,
        }
    }
}

impl From<infiniccl::Error> for Failure {
    fn from(e: infiniccl::Error) -> Self {
        Failure::new(e.to_string())
    }
}

impl From<io::Error> for Failure {
    fn from(e: io::Error) -> Self {
        Failure::new(e.to_string())
    }
}
