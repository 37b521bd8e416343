//! The host plugin through its table, as the core uses it: ranks are threads or processes of this test.

mod cluster;
mod collectives;
mod failures;
mod groups;
mod memory;
mod messages;
mod oracle;
mod processes;
mod streams;
