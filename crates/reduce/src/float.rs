//! The folds over floating-point types.

use std::marker::PhantomData;

use crate::Factors;
use crate::fold::{Fold, Int, Operator, Prod, Sum};
use crate::isa::{Half, Software};
use crate::minifloat::{self, E4M3, E5M2, Format};

/// The type that floats are combined in: `f32`, or `f64` for Float64.
pub(crate) trait Real: Copy {
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    /// Canonical if NaN, else unchanged.
    fn settled(self) -> Self;
    fn from_f64(value: f64) -> Self;
}

macro_rules! real {
    ($($type:ty),+) => {$(
        impl Real for $type {
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self * other
            }
            #[inline(always)]
            fn settled(self) -> Self {
                if self.is_nan() { <$type>::NAN } else { self }
            }
            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                value as $type
            }
        }
    )+};
}
real!(f32, f64);

/// An operator that rounds when it is applied to floats.
pub(crate) trait RealOperator: Operator {
    fn of_reals<R: Real>(left: R, right: R) -> R;
}

impl RealOperator for Sum {
    #[inline(always)]
    fn of_reals<R: Real>(left: R, right: R) -> R {
        left.plus(right)
    }
}
impl RealOperator for Prod {
    #[inline(always)]
    fn of_reals<R: Real>(left: R, right: R) -> R {
        left.times(right)
    }
}

/// A floating-point element type, its elements held as bits.
pub(crate) trait Float: Copy {
    /// Unsigned integer of the width of an element.
    type Bits: Bits;
    /// What elements are combined in.
    type Real: Real;
    /// Canonical NaN, positive.
    const NAN: Self::Bits;
    /// The largest magnitude that is not NaN, as bits.
    const TOP: Self::Bits;
    /// The largest magnitude that a result may have, as bits.
    const RESULT_TOP: Self::Bits;

    /// The values of the codes, exactly; NaN stays NaN.
    ///
    /// # Safety
    /// The processor has the instructions of `H`.
    unsafe fn widen<H: Half, const N: usize>(codes: [Self::Bits; N]) -> [Self::Real; N];
    /// The nearest codes, ties to even; NaN becomes canonical.
    ///
    /// # Safety
    /// The processor has the instructions of `H`.
    unsafe fn narrow<H: Half, const N: usize>(values: [Self::Real; N]) -> [Self::Bits; N];
}

#[derive(Clone, Copy)]
pub(crate) struct F64;
#[derive(Clone, Copy)]
pub(crate) struct F32;
#[derive(Clone, Copy)]
pub(crate) struct F16;
#[derive(Clone, Copy)]
pub(crate) struct BF16;
#[derive(Clone, Copy)]
pub(crate) struct F8<F>(PhantomData<F>);

impl Float for F64 {
    type Bits = u64;
    type Real = f64;
    const NAN: u64 = f64::NAN.to_bits();
    const TOP: u64 = f64::INFINITY.to_bits();
    const RESULT_TOP: u64 = Self::TOP;
    #[inline(always)]
    unsafe fn widen<H: Half, const N: usize>(codes: [u64; N]) -> [f64; N] {
        codes.map(f64::from_bits)
    }
    #[inline(always)]
    unsafe fn narrow<H: Half, const N: usize>(values: [f64; N]) -> [u64; N] {
        values.map(|value| value.settled().to_bits())
    }
}

impl Float for F32 {
    type Bits = u32;
    type Real = f32;
    const NAN: u32 = f32::NAN.to_bits();
    const TOP: u32 = f32::INFINITY.to_bits();
    const RESULT_TOP: u32 = Self::TOP;
    #[inline(always)]
    unsafe fn widen<H: Half, const N: usize>(codes: [u32; N]) -> [f32; N] {
        codes.map(f32::from_bits)
    }
    #[inline(always)]
    unsafe fn narrow<H: Half, const N: usize>(values: [f32; N]) -> [u32; N] {
        values.map(|value| value.settled().to_bits())
    }
}

impl Float for BF16 {
    type Bits = u16;
    type Real = f32;
    const NAN: u16 = 0x7fc0;
    const TOP: u16 = 0x7f80;
    const RESULT_TOP: u16 = Self::TOP;
    #[inline(always)]
    unsafe fn widen<H: Half, const N: usize>(codes: [u16; N]) -> [f32; N] {
        codes.map(|code| f32::from_bits(u32::from(code) << 16))
    }
    #[inline(always)]
    unsafe fn narrow<H: Half, const N: usize>(values: [f32; N]) -> [u16; N] {
        // Integer rounding, since the conversion instructions of x86 flush subnormals.
        values.map(|value| {
            let bits = value.to_bits();
            let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
            (if value.is_nan() {
                u32::from(Self::NAN)
            } else {
                rounded
            }) as u16
        })
    }
}

impl Float for F16 {
    type Bits = u16;
    type Real = f32;
    const NAN: u16 = 0x7e00;
    const TOP: u16 = 0x7c00;
    const RESULT_TOP: u16 = Self::TOP;
    #[inline(always)]
    unsafe fn widen<H: Half, const N: usize>(codes: [u16; N]) -> [f32; N] {
        let mut values = [0.0; N];
        let (octets, _) = codes.as_chunks::<8>();
        let (results, rest) = values.as_chunks_mut::<8>();
        for (result, octet) in results.iter_mut().zip(octets) {
            // SAFETY: the caller has the instructions of `H`.
            *result = unsafe { H::widen(*octet) };
        }
        if !N.is_multiple_of(8) {
            let mut padded = [0; 8];
            padded[..N % 8].copy_from_slice(&codes[N - N % 8..]);
            // SAFETY: as above.
            rest.copy_from_slice(&unsafe { H::widen(padded) }[..N % 8]);
        }
        values
    }
    #[inline(always)]
    unsafe fn narrow<H: Half, const N: usize>(values: [f32; N]) -> [u16; N] {
        let values = values.map(Real::settled);
        let mut codes = [0; N];
        let (octets, _) = values.as_chunks::<8>();
        let (results, rest) = codes.as_chunks_mut::<8>();
        for (result, octet) in results.iter_mut().zip(octets) {
            // SAFETY: the caller has the instructions of `H`.
            *result = unsafe { H::narrow(*octet) };
        }
        if !N.is_multiple_of(8) {
            let mut padded = [0.0; 8];
            padded[..N % 8].copy_from_slice(&values[N - N % 8..]);
            // SAFETY: as above.
            rest.copy_from_slice(&unsafe { H::narrow(padded) }[..N % 8]);
        }
        codes
    }
}

macro_rules! fp8 {
    ($format:ty, result top $result_top:literal) => {
        impl Float for F8<$format> {
            type Bits = u8;
            type Real = f32;
            const NAN: u8 = <$format>::NAN as u8;
            const TOP: u8 = <$format>::TOP as u8;
            const RESULT_TOP: u8 = $result_top;
            #[inline(always)]
            unsafe fn widen<H: Half, const N: usize>(codes: [u8; N]) -> [f32; N] {
                codes.map(|code| minifloat::widen::<$format>(u32::from(code)))
            }
            #[inline(always)]
            unsafe fn narrow<H: Half, const N: usize>(values: [f32; N]) -> [u8; N] {
                values.map(|value| minifloat::narrow::<$format>(value) as u8)
            }
        }
        impl Copy for $format {}
        impl Clone for $format {
            fn clone(&self) -> Self {
                *self
            }
        }
    };
}
fp8!(E4M3, result top 0x7e);
fp8!(E5M2, result top 0x7b);

/// Floats combined by an operator that rounds: SUM and PROD.
#[derive(Clone, Copy)]
pub(crate) struct Floats<F, O>(PhantomData<(F, O)>);

impl<F, O> Floats<F, O> {
    pub(crate) const NEW: Self = Self(PhantomData);
}

impl<F: Float, O: RealOperator> Fold for Floats<F, O> {
    type Elem = F::Bits;
    type Acc = F::Real;
    #[inline(always)]
    unsafe fn load<H: Half, const N: usize>(self, row: [F::Bits; N], _pre: bool) -> [F::Real; N] {
        // SAFETY: the caller has the instructions of `H`.
        unsafe { F::widen::<H, N>(row) }
    }
    #[inline(always)]
    fn combine(self, left: F::Real, right: F::Real) -> F::Real {
        O::of_reals(left, right)
    }
    #[inline(always)]
    unsafe fn finish<H: Half, const N: usize>(self, row: [F::Real; N]) -> [F::Bits; N] {
        // SAFETY: the caller has the instructions of `H`.
        unsafe { F::narrow::<H, N>(row) }
    }
}

/// The sum of floats with a factor on chosen inputs and one on the result.
#[derive(Clone, Copy)]
pub(crate) struct ScaledSum<F: Float> {
    pre: F::Real,
    post: F::Real,
}

impl<F: Float> ScaledSum<F> {
    /// With factors that are rounded to the type of the arithmetic.
    pub(crate) fn new(factors: Factors) -> Self {
        Self {
            pre: F::Real::from_f64(factors.pre),
            post: F::Real::from_f64(factors.post),
        }
    }

    /// With the value of a code as the factor on inputs.
    pub(crate) fn by_code(bits: u64) -> Self {
        // SAFETY: software conversion needs no instructions of its own.
        let [pre] = unsafe { F::widen::<Software, 1>([F::Bits::from_low_bits(bits)]) };
        Self {
            pre,
            post: F::Real::from_f64(1.0),
        }
    }
}

impl<F: Float> Fold for ScaledSum<F> {
    type Elem = F::Bits;
    type Acc = F::Real;
    #[inline(always)]
    unsafe fn load<H: Half, const N: usize>(self, row: [F::Bits; N], pre: bool) -> [F::Real; N] {
        // A factor of one changes nothing, which spares the loop a branch.
        let factor = if pre { self.pre } else { F::Real::from_f64(1.0) };
        // SAFETY: the caller has the instructions of `H`.
        unsafe { F::widen::<H, N>(row) }.map(|value| value.times(factor))
    }
    #[inline(always)]
    fn combine(self, left: F::Real, right: F::Real) -> F::Real {
        left.plus(right)
    }
    #[inline(always)]
    unsafe fn finish<H: Half, const N: usize>(self, row: [F::Real; N]) -> [F::Bits; N] {
        // SAFETY: the caller has the instructions of `H`.
        unsafe { F::narrow::<H, N>(row.map(|value| value.times(self.post))) }
    }
}

/// Bits of a float, and the order of floats as an order of integers.
pub(crate) trait Bits: Int {
    /// Signed integer of the same width.
    type Key: Copy + Ord;
    /// A key that orders codes as their values, -0 below +0, with NaN (above `top`) as the key of `nan`, which
    /// must be greater than the key of `top`. With `mirrored` the order of all but NaN is reversed.
    fn key(self, mirrored: bool, top: Self, nan: Self) -> Self::Key;
    /// The code with this key, its magnitude cut to `result_top`; NaN is `nan`.
    fn from_key(key: Self::Key, mirrored: bool, result_top: Self, nan: Self) -> Self;
}

macro_rules! bits {
    ($($unsigned:ty, $signed:ty);+) => {$(
        impl Bits for $unsigned {
            type Key = $signed;
            #[inline(always)]
            fn key(self, mirrored: bool, top: Self, nan: Self) -> $signed {
                const MAGNITUDE: $unsigned = <$unsigned>::MAX >> 1;
                let code = if mirrored { self ^ !MAGNITUDE } else { self } as $signed;
                let key = code ^ (code >> (<$signed>::BITS - 1)) & MAGNITUDE as $signed;
                if self & MAGNITUDE > top { nan as $signed } else { key }
            }
            #[inline(always)]
            fn from_key(key: $signed, mirrored: bool, result_top: Self, nan: Self) -> Self {
                const MAGNITUDE: $unsigned = <$unsigned>::MAX >> 1;
                let code = (key ^ (key >> (<$signed>::BITS - 1)) & MAGNITUDE as $signed) as $unsigned;
                let code = if mirrored { code ^ !MAGNITUDE } else { code };
                let magnitude = (code & MAGNITUDE).min(result_top);
                if key == nan as $signed { nan } else { magnitude | code & !MAGNITUDE }
            }
        }
    )+};
}
bits!(u8, i8; u16, i16; u32, i32; u64, i64);

/// The largest of floats, or the smallest if `SMALLEST`; NaN wins.
#[derive(Clone, Copy)]
pub(crate) struct Extreme<F, const SMALLEST: bool>(PhantomData<F>);

impl<F, const SMALLEST: bool> Extreme<F, SMALLEST> {
    pub(crate) const NEW: Self = Self(PhantomData);
}

impl<F: Float, const SMALLEST: bool> Fold for Extreme<F, SMALLEST> {
    type Elem = F::Bits;
    type Acc = <F::Bits as Bits>::Key;
    #[inline(always)]
    unsafe fn load<H: Half, const N: usize>(self, row: [F::Bits; N], _pre: bool) -> [Self::Acc; N] {
        row.map(|code| code.key(SMALLEST, F::TOP, F::NAN))
    }
    #[inline(always)]
    fn combine(self, left: Self::Acc, right: Self::Acc) -> Self::Acc {
        left.max(right)
    }
    #[inline(always)]
    unsafe fn finish<H: Half, const N: usize>(self, row: [Self::Acc; N]) -> [F::Bits; N] {
        row.map(|key| F::Bits::from_key(key, SMALLEST, F::RESULT_TOP, F::NAN))
    }
}
