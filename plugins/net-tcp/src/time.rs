//! Points in time that are so far away that they cannot be told are as far away as they can be.

use std::time::{Duration, Instant};

/// Longest limit that is kept to; a year is as good as for ever.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// `duration` after `now`.
pub(crate) fn after(now: Instant, duration: Duration) -> Instant {
    now + duration.min(LONGEST)
}
