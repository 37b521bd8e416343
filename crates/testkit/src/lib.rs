//! What tests, the demo and plugin authors share: an oracle that knows every right answer, several nodes on
//! one machine, and a runner of jobs whose ranks are processes.
//!
//! The [`oracle`] shares no code with the library under test, so its answers are an independent opinion; only
//! [`call`] links the library, to put the oracle's cases to it.

pub mod call;
pub mod cluster;
pub mod job;
pub mod oracle;
pub mod pages;
