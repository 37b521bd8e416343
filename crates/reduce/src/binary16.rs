//! Conversion between binary16 and `f32`, the one step that needs instructions of its own to be fast.

use crate::accumulator::Accumulator;
use crate::minifloat::{self, Binary16};
use crate::real::Real;

/// Half-precision conversion with the instructions of one set.
pub(crate) trait Half {
    /// The binary16 codes that are converted at once, as they lie in memory.
    type Codes: Copy;
    /// Their values.
    type Values: Real + Accumulator;

    /// The values, exactly; a NaN stays one.
    ///
    /// # Safety
    /// The processor has the instructions.
    unsafe fn widen(codes: Self::Codes) -> Self::Values;
    /// The nearest codes, ties to even; every NaN becomes the canonical one.
    ///
    /// # Safety
    /// The processor has the instructions.
    unsafe fn narrow(values: Self::Values) -> Self::Codes;
}

/// Integer arithmetic that the compiler turns into the vector code of the target.
pub(crate) struct Software;

impl Half for Software {
    type Codes = u16;
    type Values = f32;
    #[inline(always)]
    unsafe fn widen(codes: u16) -> f32 {
        minifloat::widen::<Binary16>(u32::from(codes))
    }
    #[inline(always)]
    unsafe fn narrow(values: f32) -> u16 {
        minifloat::narrow::<Binary16>(values) as u16
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{F16c, MaskedF16c};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;
    use std::mem::transmute;

    use super::Half;
    use crate::minifloat::{Binary16, Layout};

    /// The F16C instructions.
    pub(crate) struct F16c;

    impl Half for F16c {
        type Codes = [u16; 8];
        type Values = __m256;
        #[inline(always)]
        unsafe fn widen(codes: [u16; 8]) -> __m256 {
            // SAFETY: the caller has F16C; the array holds the lanes of the register.
            unsafe { _mm256_cvtph_ps(transmute::<[u16; 8], __m128i>(codes)) }
        }
        #[inline(always)]
        unsafe fn narrow(values: __m256) -> [u16; 8] {
            // SAFETY: as in `widen`.
            unsafe {
                let is_nan = _mm256_cmp_ps::<_CMP_UNORD_Q>(values, values);
                let settled = _mm256_blendv_ps(values, _mm256_set1_ps(f32::NAN), is_nan);
                transmute::<__m128i, [u16; 8]>(_mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(settled))
            }
        }
    }

    /// The same with the masks of AVX-512VL, in registers of 256 bits: the conversions of 512 bits gain nothing.
    pub(crate) struct MaskedF16c;

    impl Half for MaskedF16c {
        type Codes = [u16; 8];
        type Values = __m256;
        #[inline(always)]
        unsafe fn widen(codes: [u16; 8]) -> __m256 {
            // SAFETY: the caller has AVX-512VL, which includes F16C.
            unsafe { F16c::widen(codes) }
        }
        #[inline(always)]
        unsafe fn narrow(values: __m256) -> [u16; 8] {
            // SAFETY: the caller has AVX-512VL; the array holds the lanes of the register.
            unsafe {
                let is_number = _mm256_cmp_ps_mask::<_CMP_ORD_Q>(values, values);
                let nan = _mm_set1_epi16(Binary16::NAN as i16);
                let codes = _mm256_mask_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(nan, is_number, values);
                transmute::<__m128i, [u16; 8]>(codes)
            }
        }
    }
}
