//! What tests, the demo and plugin authors share: an oracle that knows every right answer, several nodes on
//! one machine, and a runner of jobs whose ranks are processes.
//!
//! Nothing here links the library under test, so an answer of the [`oracle`] is an independent opinion.

pub mod cluster;
pub mod job;
pub mod oracle;
