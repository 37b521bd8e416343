//! What the tests of whole jobs share: ranks as processes, what they say, and what they must not leave behind.

mod event;
mod programs;
mod ranks;
mod sockets;
mod traces;

pub use event::{Event, now_ms};
pub use programs::{Running, Written, by_hand, run_all, run_one};
pub use ranks::{Ended, Ranks, cluster, eventually};
pub use sockets::{Listener, listeners_here, listeners_of};
pub use traces::Traces;
