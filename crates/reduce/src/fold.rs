//! What a kernel does to a row of elements: the interface, and the folds over integers and bool.

use std::marker::PhantomData;

use crate::isa::Half;

/// One way to combine inputs into a result, element by element.
///
/// A row is loaded into accumulators, rows of further inputs are combined with it in order, and the result is
/// finished once. The row lengths `N` only shape the generated code: every element is computed on its own.
///
/// # Safety
/// `load` and `finish` may only be called where the processor has the instructions of `H`.
pub(crate) trait Fold: Copy {
    /// An element as it lies in memory.
    type Elem: Copy;
    /// An element while it is being combined.
    type Acc: Copy;

    /// Takes a row in; `pre` says whether the input asks for the factor that is applied first.
    unsafe fn load<H: Half, const N: usize>(self, row: [Self::Elem; N], pre: bool) -> [Self::Acc; N];
    /// Combines one element of two inputs.
    fn combine(self, left: Self::Acc, right: Self::Acc) -> Self::Acc;
    /// Turns accumulators into elements, with the only rounding to the element type.
    unsafe fn finish<H: Half, const N: usize>(self, row: [Self::Acc; N]) -> [Self::Elem; N];
}

/// An operator that integers and accumulating floats share.
pub(crate) trait Operator: Copy {
    fn of_ints<T: Int>(left: T, right: T) -> T;
}

/// Addition.
#[derive(Clone, Copy)]
pub(crate) struct Sum;
/// Multiplication.
#[derive(Clone, Copy)]
pub(crate) struct Prod;
/// The larger one.
#[derive(Clone, Copy)]
pub(crate) struct Max;
/// The smaller one.
#[derive(Clone, Copy)]
pub(crate) struct Min;

impl Operator for Sum {
    #[inline(always)]
    fn of_ints<T: Int>(left: T, right: T) -> T {
        left.plus(right)
    }
}
impl Operator for Prod {
    #[inline(always)]
    fn of_ints<T: Int>(left: T, right: T) -> T {
        left.times(right)
    }
}
impl Operator for Max {
    #[inline(always)]
    fn of_ints<T: Int>(left: T, right: T) -> T {
        left.max(right)
    }
}
impl Operator for Min {
    #[inline(always)]
    fn of_ints<T: Int>(left: T, right: T) -> T {
        left.min(right)
    }
}

/// An integer element.
pub(crate) trait Int: Copy + Ord {
    /// Sum modulo 2^n.
    fn plus(self, other: Self) -> Self;
    /// Product modulo 2^n.
    fn times(self, other: Self) -> Self;
    /// The value whose little-endian bytes are the lowest ones of `bits`.
    fn from_low_bits(bits: u64) -> Self;
}

macro_rules! int {
    ($($type:ty),+) => {$(
        impl Int for $type {
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            #[inline(always)]
            fn from_low_bits(bits: u64) -> Self {
                bits as $type
            }
        }
    )+};
}
int!(i8, i16, i32, i64, u8, u16, u32, u64);

/// Integers combined by an operator, in their own width.
#[derive(Clone, Copy)]
pub(crate) struct Ints<T, O>(PhantomData<(T, O)>);

impl<T, O> Ints<T, O> {
    pub(crate) const NEW: Self = Self(PhantomData);
}

impl<T: Int, O: Operator> Fold for Ints<T, O> {
    type Elem = T;
    type Acc = T;
    #[inline(always)]
    unsafe fn load<H: Half, const N: usize>(self, row: [T; N], _pre: bool) -> [T; N] {
        row
    }
    #[inline(always)]
    fn combine(self, left: T, right: T) -> T {
        O::of_ints(left, right)
    }
    #[inline(always)]
    unsafe fn finish<H: Half, const N: usize>(self, row: [T; N]) -> [T; N] {
        row
    }
}

/// One integer input times a scalar.
#[derive(Clone, Copy)]
pub(crate) struct IntsTimes<T>(pub(crate) T);

impl<T: Int> Fold for IntsTimes<T> {
    type Elem = T;
    type Acc = T;
    #[inline(always)]
    unsafe fn load<H: Half, const N: usize>(self, row: [T; N], _pre: bool) -> [T; N] {
        row.map(|value| value.times(self.0))
    }
    #[inline(always)]
    fn combine(self, left: T, right: T) -> T {
        left.plus(right)
    }
    #[inline(always)]
    unsafe fn finish<H: Half, const N: usize>(self, row: [T; N]) -> [T; N] {
        row
    }
}

/// Logical or (`Max`) and logical and (`Min`) of bytes that are true unless zero.
#[derive(Clone, Copy)]
pub(crate) struct Bools<O>(PhantomData<O>);

impl<O> Bools<O> {
    pub(crate) const NEW: Self = Self(PhantomData);
}

impl<O: Operator> Fold for Bools<O> {
    type Elem = u8;
    type Acc = u8;
    #[inline(always)]
    unsafe fn load<H: Half, const N: usize>(self, row: [u8; N], _pre: bool) -> [u8; N] {
        row.map(|byte| byte.min(1))
    }
    #[inline(always)]
    fn combine(self, left: u8, right: u8) -> u8 {
        O::of_ints(left, right)
    }
    #[inline(always)]
    unsafe fn finish<H: Half, const N: usize>(self, row: [u8; N]) -> [u8; N] {
        row
    }
}
