//! InfiniCCL: collective communication between accelerators of different vendors.

mod error;

pub use error::{Error, ErrorKind, Result};
pub use infiniccl_reduce::{DataType, ReduceOp};
