//! AVG: the factors for floats, and the exact mean of inputs that are all at hand.

use std::marker::PhantomData;

use crate::accumulator::Accumulator;
use crate::binary16::Half;
use crate::division::{Divisor, Small, Total};
use crate::fold::{Fold, one_by_one};
use crate::kernel::{Input, Job, run};
use crate::reduce::{Factors, Unsupported, reduce};
use crate::wide::{Wide, wide_type};
use crate::{DataType, ReduceOp};

/// The factors that make a sum of `n` floats their mean without leaving the range of the type: 2^-k with
/// k = ⌈log2 n⌉ on every input, and 2^k/n on the sum.
///
/// Each input gets `pre` exactly once and each result `post` exactly once, wherever in between sums are formed.
///
/// # Panics
/// If `n` is zero or above 2^62.
pub fn avg_factors(n: u64) -> Factors {
    assert!((1..=1 << 62).contains(&n), "the mean of {n} ranks");
    let power = n.next_power_of_two();
    Factors {
        pre: 1.0 / power as f64,
        post: power as f64 / n as f64,
    }
}

/// The most inputs whose list [`mean`] keeps on the stack.
const INLINE_INPUTS: usize = 16;

/// The mean of all `inputs`, element by element, into `dst`.
///
/// Integers: the exact mean, truncated toward zero. Floats: the sum with both factors of [`avg_factors`], formed
/// and rounded once as in [`reduce`](fn@crate::reduce). Allocates only for more than 16 inputs.
///
/// # Errors
/// Bool; nothing has been written then.
///
/// # Panics
/// If `inputs` is empty or has more than [`MAX_RANKS`](crate::MAX_RANKS) entries.
///
/// # Safety
/// That of [`reduce`](fn@crate::reduce): `dst` is valid for writes and each input for reads of `count` elements of
/// `dtype`, and `dst` equals an input or overlaps none.
pub unsafe fn mean(
    dtype: DataType,
    dst: *mut u8,
    inputs: &[*const u8],
    count: usize,
) -> Result<(), Unsupported> {
    let n = inputs.len() as u64;
    let mut few = [Input {
        ptr: std::ptr::null(),
        pre: true,
    }; INLINE_INPUTS];
    let many: Vec<Input>;
    let inputs = if let Some(few) = few.get_mut(..inputs.len()) {
        few.iter_mut()
            .zip(inputs)
            .for_each(|(input, &ptr)| input.ptr = ptr);
        few
    } else {
        many = inputs.iter().map(|&ptr| Input { ptr, pre: true }).collect();
        &many[..]
    };
    let job = Job { dst, inputs, count };
    let refused = Err(Unsupported {
        operation: ReduceOp::Avg.name(),
        dtype,
    });
    // SAFETY: the caller's contract is that of the kernels, and the divisor is the number of inputs.
    unsafe {
        match dtype {
            DataType::Int8 => mean_of_small::<i8>(job, n),
            DataType::Int16 => mean_of_small::<i16>(job, n),
            DataType::Int32 => mean_of_small::<i32>(job, n),
            DataType::Uint8 => mean_of_small::<u8>(job, n),
            DataType::Uint16 => mean_of_small::<u16>(job, n),
            DataType::Uint32 => mean_of_small::<u32>(job, n),
            DataType::Int64 => run(job, MeanOfI64(Divisor::new(n))),
            DataType::Uint64 => run(job, MeanOfU64(Divisor::new(n))),
            DataType::Float16
            | DataType::BFloat16
            | DataType::Float32
            | DataType::Float64
            | DataType::Float8E4M3
            | DataType::Float8E5M2 => {
                return reduce(dtype, ReduceOp::Sum, dst, inputs, count, avg_factors(n));
            }
            DataType::Bool => return refused,
        }
    }
    Ok(())
}

/// # Safety
/// That of [`run`], and `n` is the number of inputs.
unsafe fn mean_of_small<T: Small>(job: Job<'_>, n: u64) {
    let divisor = Divisor::new(n);
    // SAFETY: the same contract.
    unsafe {
        if wide_type(T::DTYPE, n) == Some(Wide::Int32) {
            run(
                job,
                MeanOfSmall::<T, i32> {
                    divisor,
                    types: PhantomData,
                },
            );
        } else {
            run(
                job,
                MeanOfSmall::<T, i64> {
                    divisor,
                    types: PhantomData,
                },
            );
        }
    }
}

/// The mean of elements of at most 32 bits, summed in lanes of type `A`.
#[derive(Clone, Copy)]
struct MeanOfSmall<T, A> {
    divisor: Divisor,
    types: PhantomData<(T, A)>,
}

impl<T: Small, A: Total + Accumulator> Fold for MeanOfSmall<T, A> {
    type Elem<H: Half> = T;
    type Acc<H: Half> = A;
    one_by_one!();
    #[inline(always)]
    unsafe fn load<H: Half>(self, elem: T, _pre: bool) -> A {
        A::of(elem.widened())
    }
    #[inline(always)]
    unsafe fn combine<H: Half>(self, left: A, right: A) -> A {
        left.plus(right)
    }
    #[inline(always)]
    unsafe fn finish<H: Half>(self, acc: A) -> T {
        T::narrowed(acc.over(self.divisor))
    }
}

/// A sum of 64-bit integers: the sum of their upper halves, and that of their lower halves.
///
/// Neither overflows with up to [`MAX_RANKS`](crate::MAX_RANKS) inputs.
type Halves = (i64, u64);

const LOWER: u64 = u32::MAX as u64;

/// The mean rounded down, and the remainder.
#[inline(always)]
fn floor_of_halves((upper, lower): Halves, divisor: Divisor) -> (i64, u64) {
    let (mut quotient, mut rest) = divisor.divide_signed(upper);
    if rest < 0 {
        quotient -= 1;
        rest += divisor.n() as i64;
    }
    // Below 2^64, since the rest is below 2^31 and there are at most 2^31 lower halves.
    let (low_quotient, rest) = divisor.divide(((rest as u64) << 32) + lower);
    ((quotient << 32).wrapping_add(low_quotient as i64), rest)
}

#[derive(Clone, Copy)]
struct MeanOfI64(Divisor);

impl Fold for MeanOfI64 {
    type Elem<H: Half> = i64;
    type Acc<H: Half> = Halves;
    one_by_one!();
    #[inline(always)]
    unsafe fn load<H: Half>(self, elem: i64, _pre: bool) -> Halves {
        (elem >> 32, elem as u64 & LOWER)
    }
    #[inline(always)]
    unsafe fn combine<H: Half>(self, left: Halves, right: Halves) -> Halves {
        (left.0 + right.0, left.1 + right.1)
    }
    #[inline(always)]
    unsafe fn finish<H: Half>(self, acc: Halves) -> i64 {
        let (floor, rest) = floor_of_halves(acc, self.0);
        floor + i64::from(floor < 0 && rest != 0)
    }
}

#[derive(Clone, Copy)]
struct MeanOfU64(Divisor);

impl Fold for MeanOfU64 {
    type Elem<H: Half> = u64;
    type Acc<H: Half> = Halves;
    one_by_one!();
    #[inline(always)]
    unsafe fn load<H: Half>(self, elem: u64, _pre: bool) -> Halves {
        ((elem >> 32) as i64, elem & LOWER)
    }
    #[inline(always)]
    unsafe fn combine<H: Half>(self, left: Halves, right: Halves) -> Halves {
        (left.0 + right.0, left.1 + right.1)
    }
    #[inline(always)]
    unsafe fn finish<H: Half>(self, acc: Halves) -> u64 {
        floor_of_halves(acc, self.0).0 as u64
    }
}
