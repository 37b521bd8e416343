//! The exact mean of integers in stages: wide elements carry partial sums from rank to rank.

use std::marker::PhantomData;

use crate::binary16::Half;
use crate::division::{Divisor, MAX_RANKS, Small, Total};
use crate::isa::{Isa, Task};
use crate::reduce::Unsupported;
use crate::{DataType, ReduceOp};

/// The element that carries the partial sum of a mean of integers.
///
/// The protocol: every rank turns its elements into wide ones with [`widen`], wide elements are added with a plain
/// [`ReduceOp::Sum`] of [`Wide::lane_type`] over all their lanes, in any order and in any number of steps, and
/// [`narrow_mean`] turns the sum over all ranks into the mean. No step overflows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wide {
    /// The sum, in 32 bits: elements of 8 and 16 bits on up to 2^15 ranks.
    Int32,
    /// The sum, in 64 bits: elements of up to 32 bits.
    Int64,
    /// The sum of x div n (truncated), then the sum of x mod n (with the sign of x), 64 bits each: Int64.
    PairInt64,
    /// The sum of x div n, then the sum of x mod n, 64 bits each: Uint64.
    PairUint64,
}

impl Wide {
    /// Bytes of one wide element.
    pub const fn bytes(self) -> usize {
        self.lanes() * self.lane_type().size()
    }

    /// The type that lanes are added in.
    pub const fn lane_type(self) -> DataType {
        match self {
            Wide::Int32 => DataType::Int32,
            Wide::Int64 | Wide::PairInt64 => DataType::Int64,
            Wide::PairUint64 => DataType::Uint64,
        }
    }

    /// Lanes of one wide element; the lanes of an element lie side by side.
    pub const fn lanes(self) -> usize {
        match self {
            Wide::Int32 | Wide::Int64 => 1,
            Wide::PairInt64 | Wide::PairUint64 => 2,
        }
    }
}

/// The wide element for the mean of `dtype` over `n` ranks; none if `dtype` is no integer type, or if `n` is not
/// in 1..=[`MAX_RANKS`].
pub const fn wide_type(dtype: DataType, n: u64) -> Option<Wide> {
    use DataType::*;
    if n == 0 || n > MAX_RANKS {
        return None;
    }
    match dtype {
        Int8 | Int16 | Uint8 | Uint16 if n <= 1 << 15 => Some(Wide::Int32),
        Int8 | Int16 | Uint8 | Uint16 | Int32 | Uint32 => Some(Wide::Int64),
        Int64 => Some(Wide::PairInt64),
        Uint64 => Some(Wide::PairUint64),
        Float16 | BFloat16 | Float32 | Float64 | Float8E4M3 | Float8E5M2 | Bool => None,
    }
}

/// Writes each of `count` elements as the wide element ([`wide_type`]) of a mean over `n` ranks.
///
/// # Errors
/// No integer type, or `n` out of range; nothing has been written then.
///
/// # Safety
/// `src` is valid for reads of `count` elements of `dtype` and `dst_wide` for writes of `count` wide elements, at
/// any alignment. They do not overlap, and no other thread touches them during the call.
pub unsafe fn widen(
    dtype: DataType,
    n: u64,
    dst_wide: *mut u8,
    src: *const u8,
    count: usize,
) -> Result<(), Unsupported> {
    // SAFETY: the same contract.
    unsafe { convert(Direction::Widen, dtype, n, dst_wide, src, count) }
}

/// Turns the sum of `n` ranks' wide elements into the exact mean, truncated toward zero.
///
/// # Errors
/// No integer type, or `n` out of range; nothing has been written then.
///
/// # Safety
/// `src_wide` is valid for reads of `count` wide elements and `dst` for writes of `count` elements of `dtype`, at
/// any alignment. They do not overlap, and no other thread touches them during the call.
pub unsafe fn narrow_mean(
    dtype: DataType,
    n: u64,
    dst: *mut u8,
    src_wide: *const u8,
    count: usize,
) -> Result<(), Unsupported> {
    // SAFETY: the same contract.
    unsafe { convert(Direction::Narrow, dtype, n, dst, src_wide, count) }
}

/// Which way elements are converted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Widen,
    Narrow,
}

/// [`widen`] or [`narrow_mean`].
///
/// # Safety
/// That of the function.
unsafe fn convert(
    direction: Direction,
    dtype: DataType,
    n: u64,
    dst: *mut u8,
    src: *const u8,
    count: usize,
) -> Result<(), Unsupported> {
    use DataType::*;
    let Some(wide) = wide_type(dtype, n) else {
        return Err(Unsupported {
            operation: ReduceOp::Avg.name(),
            dtype,
        });
    };
    let each = Each {
        dst,
        src,
        count,
        divisor: Divisor::new(n),
    };
    // SAFETY: the caller's contract, with the wide type that belongs to the element type.
    unsafe {
        match (dtype, wide) {
            (Int8, Wide::Int32) => each.convert::<i8, i32>(direction),
            (Int8, _) => each.convert::<i8, i64>(direction),
            (Int16, Wide::Int32) => each.convert::<i16, i32>(direction),
            (Int16, _) => each.convert::<i16, i64>(direction),
            (Int32, _) => each.convert::<i32, i64>(direction),
            (Int64, _) => each.convert::<i64, [i64; 2]>(direction),
            (Uint8, Wide::Int32) => each.convert::<u8, i32>(direction),
            (Uint8, _) => each.convert::<u8, i64>(direction),
            (Uint16, Wide::Int32) => each.convert::<u16, i32>(direction),
            (Uint16, _) => each.convert::<u16, i64>(direction),
            (Uint32, _) => each.convert::<u32, i64>(direction),
            (Uint64, _) => each.convert::<u64, [u64; 2]>(direction),
            (Float16 | BFloat16 | Float32 | Float64 | Float8E4M3 | Float8E5M2 | Bool, _) => {
                return Err(Unsupported {
                    operation: ReduceOp::Avg.name(),
                    dtype,
                });
            }
        }
    }
    Ok(())
}

/// An element that becomes the wide element `W` and is recovered from a sum of those.
trait Staged<W>: Copy {
    fn widened(self, divisor: Divisor) -> W;
    fn mean(sum: W, divisor: Divisor) -> Self;
}

macro_rules! staged_as_sum {
    ($($total:ty),+) => {$(
        impl<T: Small> Staged<$total> for T {
            #[inline(always)]
            fn widened(self, _divisor: Divisor) -> $total {
                <$total>::of(Small::widened(self))
            }
            #[inline(always)]
            fn mean(sum: $total, divisor: Divisor) -> Self {
                T::narrowed(sum.over(divisor))
            }
        }
    )+};
}
staged_as_sum!(i32, i64);

impl Staged<[i64; 2]> for i64 {
    #[inline(always)]
    fn widened(self, divisor: Divisor) -> [i64; 2] {
        let (quotient, rest) = divisor.divide_signed(self);
        [quotient, rest]
    }
    #[inline(always)]
    fn mean([quotients, rests]: [i64; 2], divisor: Divisor) -> i64 {
        let (carry, rest) = divisor.divide_signed(rests);
        // The sum of `whole` and a fraction of the sign of `rest`: toward zero if the two signs differ.
        let whole = quotients.wrapping_add(carry);
        whole + i64::from(whole < 0 && rest > 0) - i64::from(whole > 0 && rest < 0)
    }
}

impl Staged<[u64; 2]> for u64 {
    #[inline(always)]
    fn widened(self, divisor: Divisor) -> [u64; 2] {
        let (quotient, rest) = divisor.divide(self);
        [quotient, rest]
    }
    #[inline(always)]
    fn mean([quotients, rests]: [u64; 2], divisor: Divisor) -> u64 {
        quotients.wrapping_add(divisor.divide(rests).0)
    }
}

/// Elements to convert one by one.
#[derive(Clone, Copy)]
struct Each {
    dst: *mut u8,
    src: *const u8,
    count: usize,
    divisor: Divisor,
}

impl Each {
    /// # Safety
    /// Source and destination are valid for `count` elements, of `T` and `W` in the order
    /// of the direction, and do not overlap.
    unsafe fn convert<T: Staged<W>, W: Copy>(self, direction: Direction) {
        let isa = Isa::current();
        // SAFETY: the same contract; the current set is one that the processor has.
        unsafe {
            match direction {
                Direction::Widen => isa.run(WidenEach(self, PhantomData::<(T, W)>)),
                Direction::Narrow => isa.run(NarrowEach(self, PhantomData::<(T, W)>)),
            }
        }
    }

    /// # Safety
    /// Source and destination are valid for `count` elements and do not overlap.
    #[inline(always)]
    unsafe fn apply<A: Copy, B>(self, step: impl Fn(A) -> B) {
        let (dst, src) = (self.dst.cast::<B>(), self.src.cast::<A>());
        for index in 0..self.count {
            // SAFETY: the index is below the count that the caller vouches for.
            unsafe {
                dst.add(index)
                    .write_unaligned(step(src.add(index).read_unaligned()))
            };
        }
    }
}

struct WidenEach<T, W>(Each, PhantomData<(T, W)>);
struct NarrowEach<T, W>(Each, PhantomData<(T, W)>);

impl<T: Staged<W>, W: Copy> Task for WidenEach<T, W> {
    #[inline(always)]
    unsafe fn run<H: Half>(self) {
        // SAFETY: the contract of `Each::convert`, where the task is made.
        unsafe { self.0.apply(|element: T| element.widened(self.0.divisor)) }
    }
}

impl<T: Staged<W>, W: Copy> Task for NarrowEach<T, W> {
    #[inline(always)]
    unsafe fn run<H: Half>(self) {
        // SAFETY: the contract of `Each::convert`, where the task is made.
        unsafe { self.0.apply(|sum: W| T::mean(sum, self.0.divisor)) }
    }
}
