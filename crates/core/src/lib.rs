//! InfiniCCL: collective communication between accelerators of different vendors.

mod algo;
mod api;
pub mod bootstrap;
mod call;
mod capability;
pub mod config;
mod error;
mod exec;
mod plan;
pub mod plugin;
mod schedule;
#[cfg(test)]
mod simulate;
mod topology;

pub use api::{
    Communicator, CommunicatorBuilder, Context, Group, LinkReport, MatrixRow, PlacementReport, PlanCandidate,
    PlanReport, RawCall, VectorCounts, Work,
};
pub use bootstrap::UniqueId;
pub use call::{Collective, RedOp};
pub use error::{Error, ErrorKind, Result};
pub use infiniccl_reduce::{DataType, Element, F8E4M3, F8E5M2, ReduceOp};
