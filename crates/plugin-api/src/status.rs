//! What a plugin function answers: an integer in ranges.

use abi_stable::StableAbi;

/// The answer of a plugin function: zero is success, small positive numbers say "not yet", hundreds say why not.
///
/// An unknown number of a known hundred is treated as that hundred, any other as [`Status::SYSTEM`].
#[repr(transparent)]
#[derive(StableAbi, Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Status(pub i32);

impl Status {
    /// Done.
    pub const OK: Status = Status(0);
    /// Accepted, not finished.
    pub const IN_PROGRESS: Status = Status(1);
    /// Nothing was done; the same call may succeed later.
    pub const AGAIN: Status = Status(2);
    /// The caller used the function the wrong way.
    pub const USAGE: Status = Status(100);
    /// Both ends of a collective or a message disagree about it (size, check word, operator).
    pub const MISMATCH: Status = Status(101);
    /// The caller's buffer is too small; the needed length was written to the length argument.
    pub const TOO_SMALL: Status = Status(102);
    /// The operating system or the vendor's runtime refused.
    pub const SYSTEM: Status = Status(200);
    /// A peer vanished or failed.
    pub const REMOTE: Status = Status(300);
    /// This plugin does not offer that.
    pub const UNSUPPORTED: Status = Status(400);
    /// The plugin panicked; it is poisoned and answers with this from then on.
    pub const PANICKED: Status = Status(500);
    /// The communicator or channel was aborted.
    pub const ABORTED: Status = Status(600);
    /// A time limit passed.
    pub const TIMEOUT: Status = Status(700);

    /// Whether the call succeeded and is finished.
    pub const fn is_ok(self) -> bool {
        self.0 == 0
    }

    /// Whether the status is one of the "not yet" values.
    pub const fn is_pending(self) -> bool {
        self.0 == 1 || self.0 == 2
    }

    /// Whether the status reports a failure.
    pub const fn is_error(self) -> bool {
        !self.is_ok() && !self.is_pending()
    }

    /// A short name of the range, for messages.
    pub const fn name(self) -> &'static str {
        match self.0 {
            0 => "ok",
            1 => "in progress",
            2 => "again",
            101 => "mismatch",
            102 => "buffer too small",
            100..200 => "usage",
            300..400 => "remote",
            400..500 => "unsupported",
            500..600 => "panicked",
            600..700 => "aborted",
            700..800 => "timeout",
            _ => "system",
        }
    }
}
