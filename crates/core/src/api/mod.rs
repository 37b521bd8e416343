//! The public API: context, communicators, calls, works and groups.

mod arguments;
mod builder;
mod communicator;
mod context;
mod group;
mod init;
mod inner;
mod islands;
mod raw;
mod record;
mod report;
mod split;
mod submit;
mod typed;
mod verify;
mod work;

pub use builder::CommunicatorBuilder;
pub use communicator::Communicator;
pub use context::Context;
pub use group::Group;
pub use raw::{RawCall, VectorCounts};
pub use report::{LinkReport, MatrixRow, PlacementReport, PlanCandidate, PlanReport};
pub use work::Work;
