//! Host reduction kernels: every data type and operator that InfiniCCL knows, dispatched at run time to the
//! widest vector unit of the machine.
#![warn(missing_docs)]

mod types;

pub use types::{DataType, ReduceOp, UnknownCode};
