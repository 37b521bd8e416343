//! Host reduction kernels: every data type and operator that InfiniCCL knows, dispatched at run time to the
//! widest vector unit of the machine.
#![warn(missing_docs)]

mod accumulator;
mod binary16;
mod copy;
mod division;
mod element;
mod extreme;
mod float;
mod fold;
mod fp8;
mod isa;
mod kernel;
mod mean;
mod minifloat;
mod real;
mod reduce;
mod types;
mod wide;

pub use copy::{copy, copy_streaming};
pub use division::MAX_RANKS;
pub use element::Element;
pub use fp8::{F8E4M3, F8E5M2};
pub use isa::{isa, set_isa};
pub use kernel::Input;
pub use mean::{avg_factors, mean};
pub use reduce::{Factors, Unsupported, premul, reduce, scale};
pub use types::{DataType, ReduceOp, UnknownCode};
pub use wide::{Wide, narrow_mean, wide_type, widen};
