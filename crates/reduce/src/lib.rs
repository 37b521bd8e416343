//! Host reduction kernels: every data type and operator that InfiniCCL knows, dispatched at run time to the widest
//! vector unit of the machine.
//!
//! | function | gives |
//! |---|---|
//! | [`reduce()`] | SUM, PROD, MAX or MIN of any number of buffers, rounded once |
//! | [`mean()`] | AVG of all ranks' buffers at once |
//! | [`avg_factors`] | AVG of floats in stages: factors for [`reduce()`] |
//! | [`wide_type`], [`widen`], [`narrow_mean`] | AVG of integers in stages, exactly |
//! | [`scale`], [`premul`] | one buffer times a scalar |
//! | [`copy()`] | large copies |
//!
//! All of them work on raw pointers of any alignment, allocate nothing for up to 16 inputs, never block, and write the
//! same bytes on every instruction set: no step is contracted, reordered or flushed to zero by the code itself.
//!
//! ```
//! use infiniccl_reduce::{DataType, Factors, Input, ReduceOp, reduce};
//!
//! let (a, b) = ([1.0f32, 2.0, 3.0], [10.0f32, 20.0, 30.0]);
//! let mut sum = [0.0f32; 3];
//! let inputs = [a.as_ptr(), b.as_ptr()].map(|ptr| Input { ptr: ptr.cast(), pre: false });
//! // SAFETY: all three buffers hold three elements, and the destination overlaps no input.
//! unsafe { reduce(DataType::Float32, ReduceOp::Sum, sum.as_mut_ptr().cast(), &inputs, 3, Factors::NONE) }?;
//! assert_eq!(sum, [11.0, 22.0, 33.0]);
//! # Ok::<(), infiniccl_reduce::Unsupported>(())
//! ```
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
