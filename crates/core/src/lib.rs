//! InfiniCCL: collective communication between accelerators of different vendors.

#[allow(dead_code, unused_imports)] // until the planner uses it
mod algo;
pub mod bootstrap;
pub mod config;
mod error;
pub mod plugin;
mod schedule;

pub use bootstrap::UniqueId;
pub use error::{Error, ErrorKind, Result};
pub use infiniccl_reduce::{DataType, ReduceOp};
