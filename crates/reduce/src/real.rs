//! The arithmetic that floats are combined in: `f32` and `f64`, alone or several at once.

/// A floating-point value, or several that are worked on side by side.
pub(crate) trait Real: Copy {
    /// Every value is `value`, rounded.
    ///
    /// # Safety
    /// The processor has the vector registers of the type, here and in the other methods.
    unsafe fn splat(value: f64) -> Self;
    /// Sums.
    ///
    /// # Safety
    /// As above.
    unsafe fn plus(self, other: Self) -> Self;
    /// Products.
    ///
    /// # Safety
    /// As above.
    unsafe fn times(self, other: Self) -> Self;
}

macro_rules! scalar {
    ($($type:ty),+) => {$(
        impl Real for $type {
            #[inline(always)]
            unsafe fn splat(value: f64) -> Self {
                value as $type
            }
            #[inline(always)]
            unsafe fn plus(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            unsafe fn times(self, other: Self) -> Self {
                self * other
            }
        }
    )+};
}
scalar!(f32, f64);

impl Real for (f32, f32) {
    #[inline(always)]
    unsafe fn splat(value: f64) -> Self {
        (value as f32, value as f32)
    }
    #[inline(always)]
    unsafe fn plus(self, other: Self) -> Self {
        (self.0 + other.0, self.1 + other.1)
    }
    #[inline(always)]
    unsafe fn times(self, other: Self) -> Self {
        (self.0 * other.0, self.1 * other.1)
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::Real;

    impl Real for __m256 {
        #[inline(always)]
        unsafe fn splat(value: f64) -> Self {
            // SAFETY: the caller has AVX.
            unsafe { _mm256_set1_ps(value as f32) }
        }
        #[inline(always)]
        unsafe fn plus(self, other: Self) -> Self {
            // SAFETY: the caller has AVX.
            unsafe { _mm256_add_ps(self, other) }
        }
        #[inline(always)]
        unsafe fn times(self, other: Self) -> Self {
            // SAFETY: the caller has AVX.
            unsafe { _mm256_mul_ps(self, other) }
        }
    }
}
