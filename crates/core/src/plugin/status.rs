//! The one place where a plugin's status becomes a kind of error.

use crate::error::ErrorKind;
use infiniccl_plugin_api::Status;

impl From<Status> for ErrorKind {
    fn from(status: Status) -> Self {
        match status {
            Status::IN_PROGRESS | Status::AGAIN => ErrorKind::InProgress,
            // Both ends named a different call: the other rank disagrees.
            Status::MISMATCH => ErrorKind::Remote,
            // The core asks again with a larger buffer, so this never reaches a user unless one of both is wrong.
            Status::TOO_SMALL => ErrorKind::Internal,
            Status(code) => match code {
                0 => ErrorKind::Internal,
                100..200 => ErrorKind::InvalidUsage,
                300..400 => ErrorKind::Remote,
                400..500 => ErrorKind::NotSupported,
                500..600 => ErrorKind::Internal,
                600..700 => ErrorKind::Aborted,
                700..800 => ErrorKind::Timeout,
                _ => ErrorKind::System,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_range_has_its_kind_and_unknown_numbers_follow_their_hundred() {
        for (status, kind) in [
            (Status::IN_PROGRESS, ErrorKind::InProgress),
            (Status::AGAIN, ErrorKind::InProgress),
            (Status::USAGE, ErrorKind::InvalidUsage),
            (Status(177), ErrorKind::InvalidUsage),
            (Status::MISMATCH, ErrorKind::Remote),
            (Status::TOO_SMALL, ErrorKind::Internal),
            (Status::SYSTEM, ErrorKind::System),
            (Status::REMOTE, ErrorKind::Remote),
            (Status(399), ErrorKind::Remote),
            (Status::UNSUPPORTED, ErrorKind::NotSupported),
            (Status::PANICKED, ErrorKind::Internal),
            (Status::ABORTED, ErrorKind::Aborted),
            (Status::TIMEOUT, ErrorKind::Timeout),
            (Status(-5), ErrorKind::System),
            (Status(999), ErrorKind::System),
            // An error that a plugin reports with the code of success is a defect.
            (Status::OK, ErrorKind::Internal),
        ] {
            assert_eq!(ErrorKind::from(status), kind, "{status:?}");
        }
    }
}
