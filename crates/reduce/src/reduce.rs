//! Reductions and scaling: from data type and operator to the kernel.

use std::fmt;
use std::ptr;

use crate::accumulator::Accumulator;
use crate::extreme::{Extreme, Order, OrderBF16, OrderE4M3, OrderE5M2, OrderF16, OrderF32, OrderF64};
use crate::float::{BF16Pair, F16s, F32, F64, Floats, Format, ScaledSum, Small};
use crate::fold::{Bools, Int, Ints, IntsTimes, Max, Min, Prod, Sum};
use crate::kernel::{Input, Job, run};
use crate::minifloat::{E4M3, E5M2};
use crate::{DataType, F8E4M3, F8E5M2, ReduceOp};

/// Factors of a sum of floats: on chosen inputs, and on the result.
///
/// Float64 is multiplied in `f64`, every other float in `f32`, to which the factors are rounded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Factors {
    /// Multiplies each element of the inputs whose [`Input::pre`] is set, before anything else.
    pub pre: f64,
    /// Multiplies the sum, before it is rounded to the element type.
    pub post: f64,
}

impl Factors {
    /// No scaling.
    pub const NONE: Factors = Factors { pre: 1.0, post: 1.0 };
}

/// The operation is not defined for the data type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unsupported {
    /// The operation, e.g. `"avg"` or `"scale"`.
    pub operation: &'static str,
    /// The type of the elements.
    pub dtype: DataType,
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is not defined for {} elements here",
            self.operation, self.dtype
        )
    }
}

impl std::error::Error for Unsupported {}

/// `$go!(type)` for the integer type of `$dtype`.
macro_rules! for_int {
    ($dtype:expr, $go:ident, else $other:expr) => {
        match $dtype {
            DataType::Int8 => $go!(i8),
            DataType::Int16 => $go!(i16),
            DataType::Int32 => $go!(i32),
            DataType::Int64 => $go!(i64),
            DataType::Uint8 => $go!(u8),
            DataType::Uint16 => $go!(u16),
            DataType::Uint32 => $go!(u32),
            DataType::Uint64 => $go!(u64),
            DataType::Float16
            | DataType::BFloat16
            | DataType::Float32
            | DataType::Float64
            | DataType::Float8E4M3
            | DataType::Float8E5M2
            | DataType::Bool => $other,
        }
    };
}

/// `$go!(format, order)` for the floating-point type of `$dtype`.
macro_rules! for_float {
    ($dtype:expr, $go:ident, else $other:expr) => {
        match $dtype {
            DataType::Float16 => $go!(F16s, OrderF16),
            DataType::BFloat16 => $go!(BF16Pair, OrderBF16),
            DataType::Float32 => $go!(F32, OrderF32),
            DataType::Float64 => $go!(F64, OrderF64),
            DataType::Float8E4M3 => $go!(Small<E4M3>, OrderE4M3),
            DataType::Float8E5M2 => $go!(Small<E5M2>, OrderE5M2),
            DataType::Int8
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::Uint8
            | DataType::Uint16
            | DataType::Uint32
            | DataType::Uint64
            | DataType::Bool => $other,
        }
    };
}

/// Combines `inputs` element by element into `dst`.
///
/// For every `i` below `count`, `dst[i]` is the `op` of all inputs' elements `i`, taken from left to right in the
/// order of `inputs`:
/// - integers wrap modulo 2^n; bool reads any non-zero byte as true and writes 0 or 1;
/// - Float64 is combined in `f64`, every other float in `f32`, and rounded to the element type once, at the end,
///   to nearest even; FP8 then saturates to its largest finite value, so an infinity of E5M2 does as well;
/// - NaN wins in every operator, MAX and MIN included, and a NaN result is the canonical one of the type (quiet,
///   positive, no payload: 0x7fc00000, 0x7ff8000000000000, 0x7e00, 0x7fc0, E4M3 0x7f, E5M2 0x7e); -0 < +0;
/// - a single input without factors is copied: only bool changes, to 0 or 1, and a NaN keeps its bits.
///
/// `factors` apply to [`ReduceOp::Sum`] of floats and are ignored elsewhere. The bytes are the same on every
/// instruction set and whatever the alignment, and the same for `[a, b]` as for `[b, a]`. Nothing is allocated. With a
/// `count` of zero no pointer is used.
///
/// # Errors
/// [`ReduceOp::Avg`], which needs the number of ranks: see [`mean`](fn@crate::mean), [`avg_factors`](crate::avg_factors)
/// and [`Wide`](crate::Wide). Nothing has been written then.
///
/// # Panics
/// If `inputs` is empty.
///
/// # Safety
/// `dst` is valid for writes and each input for reads of `count` elements of `dtype`, at any alignment. `dst` may
/// be equal to any of the inputs, but none may overlap it partly. No other thread writes to these elements, or
/// reads those of `dst`, during the call.
#[inline]
pub unsafe fn reduce(
    dtype: DataType,
    op: ReduceOp,
    dst: *mut u8,
    inputs: &[Input],
    count: usize,
    factors: Factors,
) -> Result<(), Unsupported> {
    assert!(!inputs.is_empty(), "a reduction needs at least one input");
    let scaled = dtype.is_float() && op == ReduceOp::Sum && factors != Factors::NONE;
    if let [only] = inputs
        && !(scaled || dtype == DataType::Bool || op == ReduceOp::Avg)
    {
        // SAFETY: both are valid for `count` elements; `copy` allows them to be equal.
        unsafe { ptr::copy(only.ptr, dst, count * dtype.size()) };
        return Ok(());
    }
    let job = Job { dst, inputs, count };
    macro_rules! ints {
        ($type:ty) => {
            reduce_ints::<$type>(job, op)
        };
    }
    macro_rules! floats {
        ($format:ty, $order:ty) => {
            if scaled {
                Some(run(job, ScaledSum::<$format>::new(factors)))
            } else {
                reduce_floats::<$format, $order>(job, op)
            }
        };
    }
    // SAFETY: the caller's contract is that of the kernels.
    let done = unsafe { for_int!(dtype, ints, else for_float!(dtype, floats, else reduce_bools(job, op))) };
    done.ok_or(Unsupported {
        operation: op.name(),
        dtype,
    })
}

/// None if integers are not combined so, here and in the two functions below.
///
/// # Safety
/// That of [`run`].
unsafe fn reduce_ints<T: Int + Accumulator>(job: Job<'_>, op: ReduceOp) -> Option<()> {
    // SAFETY: the same contract.
    unsafe {
        match op {
            ReduceOp::Sum => run(job, Ints::<T, Sum>::NEW),
            ReduceOp::Prod => run(job, Ints::<T, Prod>::NEW),
            ReduceOp::Max => run(job, Ints::<T, Max>::NEW),
            ReduceOp::Min => run(job, Ints::<T, Min>::NEW),
            ReduceOp::Avg => return None,
        }
    }
    Some(())
}

/// # Safety
/// That of [`run`].
unsafe fn reduce_floats<F: Format, E: Order>(job: Job<'_>, op: ReduceOp) -> Option<()> {
    // SAFETY: the same contract.
    unsafe {
        match op {
            ReduceOp::Sum => run(job, Floats::<F, Sum>::NEW),
            ReduceOp::Prod => run(job, Floats::<F, Prod>::NEW),
            ReduceOp::Max => run(job, Extreme::<E, false>::NEW),
            ReduceOp::Min => run(job, Extreme::<E, true>::NEW),
            ReduceOp::Avg => return None,
        }
    }
    Some(())
}

/// # Safety
/// That of [`run`].
unsafe fn reduce_bools(job: Job<'_>, op: ReduceOp) -> Option<()> {
    // SAFETY: the same contract.
    unsafe {
        match op {
            ReduceOp::Sum | ReduceOp::Max => run(job, Bools::<Max>::NEW),
            ReduceOp::Prod | ReduceOp::Min => run(job, Bools::<Min>::NEW),
            ReduceOp::Avg => return None,
        }
    }
    Some(())
}

/// Multiplies floats: `dst[i] = src[i] * factor`, in `f64` for Float64 and in `f32` for every other type (`factor`
/// is rounded to it), rounded to the element type once. A NaN result is canonical, FP8 saturates.
///
/// # Errors
/// Integers and bool; nothing has been written then. Integers are multiplied by [`premul`].
///
/// # Safety
/// That of [`reduce`] with `src` as the only input: `dst` may be `src`.
pub unsafe fn scale(
    dtype: DataType,
    dst: *mut u8,
    src: *const u8,
    factor: f64,
    count: usize,
) -> Result<(), Unsupported> {
    let inputs = [Input { ptr: src, pre: true }];
    let job = Job {
        dst,
        inputs: &inputs,
        count,
    };
    macro_rules! floats {
        ($format:ty, $order:ty) => {
            run(
                job,
                ScaledSum::<$format>::new(Factors {
                    pre: factor,
                    post: 1.0,
                }),
            )
        };
    }
    let refused = Err(Unsupported {
        operation: "scale",
        dtype,
    });
    // SAFETY: the caller's contract is that of the kernels.
    unsafe { for_float!(dtype, floats, else return refused) };
    Ok(())
}

/// Multiplies by a scalar of the element type, whose bits are the lowest bytes of `scalar_bits`.
///
/// Integers wrap modulo 2^n. Floats multiply as in [`scale`]: the scalar is widened exactly, and the product is
/// rounded to the element type once.
///
/// # Errors
/// Bool; nothing has been written then.
///
/// # Safety
/// That of [`scale`].
pub unsafe fn premul(
    dtype: DataType,
    dst: *mut u8,
    src: *const u8,
    scalar_bits: u64,
    count: usize,
) -> Result<(), Unsupported> {
    let inputs = [Input { ptr: src, pre: true }];
    let job = Job {
        dst,
        inputs: &inputs,
        count,
    };
    macro_rules! ints {
        ($type:ty) => {
            run(job, IntsTimes(<$type as Int>::from_low_bits(scalar_bits)))
        };
    }
    // SAFETY: the caller's contract is that of the kernels and of `scale`.
    unsafe {
        for_int!(dtype, ints, else match float_value(dtype, scalar_bits) {
            Some(factor) => return scale(dtype, dst, src, factor, count),
            None => return Err(Unsupported { operation: "premul", dtype }),
        });
    }
    Ok(())
}

/// The value of a code that is the lowest bytes of `bits`; none if `dtype` is not floating-point.
fn float_value(dtype: DataType, bits: u64) -> Option<f64> {
    // Truncation takes the lowest bytes.
    match dtype {
        DataType::Float64 => Some(f64::from_bits(bits)),
        DataType::Float32 => Some(f32::from_bits(bits as u32).into()),
        DataType::Float16 => Some(half::f16::from_bits(bits as u16).into()),
        DataType::BFloat16 => Some(half::bf16::from_bits(bits as u16).into()),
        DataType::Float8E4M3 => Some(F8E4M3::from_bits(bits as u8).to_f32().into()),
        DataType::Float8E5M2 => Some(F8E5M2::from_bits(bits as u8).to_f32().into()),
        DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::Uint8
        | DataType::Uint16
        | DataType::Uint32
        | DataType::Uint64
        | DataType::Bool => None,
    }
}
