//! The floating-point formats, and their SUM and PROD.

use std::marker::PhantomData;

use crate::Factors;
use crate::accumulator::Accumulator;
use crate::binary16::Half;
use crate::fold::{Fold, Prod, Sum};
use crate::minifloat::{self, Binary16, E4M3, E5M2};
use crate::real::Real;

/// A floating-point format, elements of which are read alone or in groups.
pub(crate) trait Format: Copy {
    /// The bits of what is read at once.
    type Bits<H: Half>: Copy;
    /// What it is combined in.
    type Real<H: Half>: Real + Accumulator;
    /// The same format, one element at a time.
    type Single: Format;

    /// The values, exactly; a NaN stays one.
    ///
    /// # Safety
    /// The processor has the instructions of `H`.
    unsafe fn widen<H: Half>(bits: Self::Bits<H>) -> Self::Real<H>;
    /// The nearest codes, ties to even; every NaN becomes the canonical one.
    ///
    /// # Safety
    /// The processor has the instructions of `H`.
    unsafe fn narrow<H: Half>(values: Self::Real<H>) -> Self::Bits<H>;
}

#[derive(Clone, Copy)]
pub(crate) struct F64;

impl Format for F64 {
    type Bits<H: Half> = u64;
    type Real<H: Half> = f64;
    type Single = Self;
    #[inline(always)]
    unsafe fn widen<H: Half>(bits: u64) -> f64 {
        f64::from_bits(bits)
    }
    #[inline(always)]
    unsafe fn narrow<H: Half>(value: f64) -> u64 {
        if value.is_nan() {
            f64::NAN.to_bits()
        } else {
            value.to_bits()
        }
    }
}

#[derive(Clone, Copy)]
pub(crate) struct F32;

impl Format for F32 {
    type Bits<H: Half> = u32;
    type Real<H: Half> = f32;
    type Single = Self;
    #[inline(always)]
    unsafe fn widen<H: Half>(bits: u32) -> f32 {
        f32::from_bits(bits)
    }
    #[inline(always)]
    unsafe fn narrow<H: Half>(value: f32) -> u32 {
        if value.is_nan() {
            f32::NAN.to_bits()
        } else {
            value.to_bits()
        }
    }
}

/// Binary16, as many at once as the conversion takes.
#[derive(Clone, Copy)]
pub(crate) struct F16s;

impl Format for F16s {
    type Bits<H: Half> = H::Codes;
    type Real<H: Half> = H::Values;
    type Single = Small<Binary16>;
    #[inline(always)]
    unsafe fn widen<H: Half>(bits: H::Codes) -> H::Values {
        // SAFETY: the caller has the instructions of `H`.
        unsafe { H::widen(bits) }
    }
    #[inline(always)]
    unsafe fn narrow<H: Half>(values: H::Values) -> H::Codes {
        // SAFETY: the caller has the instructions of `H`.
        unsafe { H::narrow(values) }
    }
}

/// One element of a format that is converted by integer arithmetic.
#[derive(Clone, Copy)]
pub(crate) struct Small<F>(PhantomData<F>);

macro_rules! small {
    ($($layout:ty, $bits:ty);+) => {$(
        impl Format for Small<$layout> {
            type Bits<H: Half> = $bits;
            type Real<H: Half> = f32;
            type Single = Self;
            #[inline(always)]
            unsafe fn widen<H: Half>(bits: $bits) -> f32 {
                minifloat::widen::<$layout>(u32::from(bits))
            }
            #[inline(always)]
            unsafe fn narrow<H: Half>(value: f32) -> $bits {
                minifloat::narrow::<$layout>(value) as $bits
            }
        }
    )+};
}
small!(Binary16, u16; E4M3, u8; E5M2, u8);

const BF16_NAN: u32 = 0x7fc0;

/// The bits of a bfloat16 and 16 more below them: integer arithmetic, since the instructions of x86 flush subnormals.
#[inline(always)]
fn round_to_bf16(value: f32) -> u32 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1));
    if value.is_nan() { BF16_NAN << 16 } else { rounded }
}

#[derive(Clone, Copy)]
pub(crate) struct BF16;

impl Format for BF16 {
    type Bits<H: Half> = u16;
    type Real<H: Half> = f32;
    type Single = Self;
    #[inline(always)]
    unsafe fn widen<H: Half>(bits: u16) -> f32 {
        f32::from_bits(u32::from(bits) << 16)
    }
    #[inline(always)]
    unsafe fn narrow<H: Half>(value: f32) -> u16 {
        (round_to_bf16(value) >> 16) as u16
    }
}

/// Two bfloat16 in one word: they are taken apart and put together without moving anything between vector lanes.
///
/// Each half of the word goes back to its place, so the order of bytes does not matter.
#[derive(Clone, Copy)]
pub(crate) struct BF16Pair;

impl Format for BF16Pair {
    type Bits<H: Half> = u32;
    type Real<H: Half> = (f32, f32);
    type Single = BF16;
    #[inline(always)]
    unsafe fn widen<H: Half>(bits: u32) -> (f32, f32) {
        (f32::from_bits(bits << 16), f32::from_bits(bits & 0xffff_0000))
    }
    #[inline(always)]
    unsafe fn narrow<H: Half>((low, high): (f32, f32)) -> u32 {
        round_to_bf16(low) >> 16 | round_to_bf16(high) & 0xffff_0000
    }
}

/// An operator that rounds when it is applied to floats.
pub(crate) trait RealOperator: Copy {
    /// # Safety
    /// The processor has the vector registers of `R`.
    unsafe fn of_reals<R: Real>(left: R, right: R) -> R;
}

impl RealOperator for Sum {
    #[inline(always)]
    unsafe fn of_reals<R: Real>(left: R, right: R) -> R {
        // SAFETY: passed on from the caller.
        unsafe { left.plus(right) }
    }
}

impl RealOperator for Prod {
    #[inline(always)]
    unsafe fn of_reals<R: Real>(left: R, right: R) -> R {
        // SAFETY: passed on from the caller.
        unsafe { left.times(right) }
    }
}

/// SUM or PROD of floats.
#[derive(Clone, Copy)]
pub(crate) struct Floats<F, O>(PhantomData<(F, O)>);

impl<F, O> Floats<F, O> {
    pub(crate) const NEW: Self = Self(PhantomData);
}

impl<F: Format, O: RealOperator> Fold for Floats<F, O> {
    type Elem<H: Half> = F::Bits<H>;
    type Acc<H: Half> = F::Real<H>;
    type Single = Floats<F::Single, O>;
    #[inline(always)]
    fn single(self) -> Self::Single {
        Floats::NEW
    }
    #[inline(always)]
    unsafe fn load<H: Half>(self, elem: F::Bits<H>, _pre: bool) -> F::Real<H> {
        // SAFETY: the caller has the instructions of `H`, here and below.
        unsafe { F::widen::<H>(elem) }
    }
    #[inline(always)]
    unsafe fn combine<H: Half>(self, left: F::Real<H>, right: F::Real<H>) -> F::Real<H> {
        // SAFETY: as above.
        unsafe { O::of_reals(left, right) }
    }
    #[inline(always)]
    unsafe fn finish<H: Half>(self, acc: F::Real<H>) -> F::Bits<H> {
        // SAFETY: as above.
        unsafe { F::narrow::<H>(acc) }
    }
}

/// The sum of floats with a factor on chosen inputs and one on the result.
#[derive(Clone, Copy)]
pub(crate) struct ScaledSum<F> {
    factors: Factors,
    format: PhantomData<F>,
}

impl<F: Format> ScaledSum<F> {
    pub(crate) fn new(factors: Factors) -> Self {
        Self {
            factors,
            format: PhantomData,
        }
    }
}

impl<F: Format> Fold for ScaledSum<F> {
    type Elem<H: Half> = F::Bits<H>;
    type Acc<H: Half> = F::Real<H>;
    type Single = ScaledSum<F::Single>;
    #[inline(always)]
    fn single(self) -> Self::Single {
        ScaledSum::new(self.factors)
    }
    #[inline(always)]
    unsafe fn load<H: Half>(self, elem: F::Bits<H>, pre: bool) -> F::Real<H> {
        // A factor of one changes nothing, which spares the loop a branch.
        let factor = if pre { self.factors.pre } else { 1.0 };
        // SAFETY: the caller has the instructions of `H`, here and below.
        unsafe { F::widen::<H>(elem).times(F::Real::<H>::splat(factor)) }
    }
    #[inline(always)]
    unsafe fn combine<H: Half>(self, left: F::Real<H>, right: F::Real<H>) -> F::Real<H> {
        // SAFETY: as above.
        unsafe { left.plus(right) }
    }
    #[inline(always)]
    unsafe fn finish<H: Half>(self, acc: F::Real<H>) -> F::Bits<H> {
        // SAFETY: as above.
        unsafe { F::narrow::<H>(acc.times(F::Real::<H>::splat(self.factors.post))) }
    }
}
