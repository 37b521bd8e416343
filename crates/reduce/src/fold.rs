//! What a kernel does to each element: the interface, and the folds over integers and bool.

use std::marker::PhantomData;

use crate::accumulator::Accumulator;
use crate::binary16::Half;

/// One way to combine inputs into a result.
///
/// Elements of the inputs are loaded into accumulators, combined in the order of the inputs, and finished once. A
/// fold may take several elements at once, where that makes better vector code; what is left over at the end of a
/// buffer is then taken by [`Self::Single`], with the same results.
pub(crate) trait Fold: Copy {
    /// What is read and written at once: an element, or a group of elements that lie side by side.
    type Elem<H: Half>: Copy;
    /// An [`Self::Elem`] while it is being combined.
    type Acc<H: Half>: Accumulator;
    /// The same fold for one element at a time.
    type Single: Fold;

    /// The fold for what no longer fills a group.
    fn single(self) -> Self::Single;

    /// Takes an element in; `pre` says whether its input asks for the factor that is applied first.
    ///
    /// # Safety
    /// The processor has the instructions of `H`.
    unsafe fn load<H: Half>(self, elem: Self::Elem<H>, pre: bool) -> Self::Acc<H>;

    /// Combines the elements of two inputs; with the arguments swapped, the finished result has the same bytes.
    ///
    /// # Safety
    /// The processor has the instructions of `H`.
    unsafe fn combine<H: Half>(self, left: Self::Acc<H>, right: Self::Acc<H>) -> Self::Acc<H>;

    /// Makes the result, with the only rounding to the element type.
    ///
    /// # Safety
    /// The processor has the instructions of `H`.
    unsafe fn finish<H: Half>(self, acc: Self::Acc<H>) -> Self::Elem<H>;
}

/// What is the same in every fold that takes its elements one by one.
macro_rules! one_by_one {
    () => {
        type Single = Self;
        #[inline(always)]
        fn single(self) -> Self {
            self
        }
    };
}
pub(crate) use one_by_one;

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

/// An operator.
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

macro_rules! operator {
    ($($name:ident => $method:ident),+) => {$(
        impl Operator for $name {
            #[inline(always)]
            fn of_ints<T: Int>(left: T, right: T) -> T {
                left.$method(right)
            }
        }
    )+};
}
operator!(Sum => plus, Prod => times, Max => max, Min => min);

/// Integers combined by an operator, in their own width.
#[derive(Clone, Copy)]
pub(crate) struct Ints<T, O>(PhantomData<(T, O)>);

impl<T, O> Ints<T, O> {
    pub(crate) const NEW: Self = Self(PhantomData);
}

impl<T: Int + Accumulator, O: Operator> Fold for Ints<T, O> {
    type Elem<H: Half> = T;
    type Acc<H: Half> = T;
    one_by_one!();
    #[inline(always)]
    unsafe fn load<H: Half>(self, elem: T, _pre: bool) -> T {
        elem
    }
    #[inline(always)]
    unsafe fn combine<H: Half>(self, left: T, right: T) -> T {
        O::of_ints(left, right)
    }
    #[inline(always)]
    unsafe fn finish<H: Half>(self, acc: T) -> T {
        acc
    }
}

/// The sum of integer inputs, each times a scalar.
#[derive(Clone, Copy)]
pub(crate) struct IntsTimes<T>(pub(crate) T);

impl<T: Int + Accumulator> Fold for IntsTimes<T> {
    type Elem<H: Half> = T;
    type Acc<H: Half> = T;
    one_by_one!();
    #[inline(always)]
    unsafe fn load<H: Half>(self, elem: T, _pre: bool) -> T {
        elem.times(self.0)
    }
    #[inline(always)]
    unsafe fn combine<H: Half>(self, left: T, right: T) -> T {
        left.plus(right)
    }
    #[inline(always)]
    unsafe fn finish<H: Half>(self, acc: T) -> T {
        acc
    }
}

/// Logical or (`Max`) and logical and (`Min`) of bytes that are true unless zero.
#[derive(Clone, Copy)]
pub(crate) struct Bools<O>(PhantomData<O>);

impl<O> Bools<O> {
    pub(crate) const NEW: Self = Self(PhantomData);
}

impl<O: Operator> Fold for Bools<O> {
    type Elem<H: Half> = u8;
    type Acc<H: Half> = u8;
    one_by_one!();
    #[inline(always)]
    unsafe fn load<H: Half>(self, elem: u8, _pre: bool) -> u8 {
        elem.min(1)
    }
    #[inline(always)]
    unsafe fn combine<H: Half>(self, left: u8, right: u8) -> u8 {
        O::of_ints(left, right)
    }
    #[inline(always)]
    unsafe fn finish<H: Half>(self, acc: u8) -> u8 {
        acc
    }
}
