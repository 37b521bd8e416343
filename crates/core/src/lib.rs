//! InfiniCCL: collective communication between accelerators of different vendors.

pub mod bootstrap;
pub mod config;
mod algo;
mod error;
pub mod plugin;
mod schedule;

pub use bootstrap::UniqueId;
pub use error::{Error, ErrorKind, Result};
pub use infiniccl_reduce::{DataType, ReduceOp};
