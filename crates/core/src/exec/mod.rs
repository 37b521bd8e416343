//! The executor: runs schedules on the plugins, with one owner thread at a time.

mod backoff;
mod engine;
mod instance;
mod island;
mod links;
mod local;
mod outcome;
mod prepared;
mod progress;
mod scratch;
mod watch;

pub(crate) use backoff::WaitPolicy;
pub(crate) use engine::{Batch, Engine};
pub(crate) use instance::Submission;
pub(crate) use island::Island;
pub(crate) use links::Links;
pub(crate) use prepared::Prepared;
pub(crate) use progress::{Driven, serve};
pub(crate) use watch::{CallEntry, Label, Watch};
