//! The two OCP FP8 element types as Rust values.

use crate::minifloat::{self, E4M3, E5M2};

macro_rules! fp8 {
    ($(#[$doc:meta])* $name:ident, $format:ty, max $max:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
        #[repr(transparent)]
        pub struct $name(u8);

        impl $name {
            /// The largest finite value.
            pub const MAX: Self = Self($max);

            /// The value with this code.
            pub const fn from_bits(bits: u8) -> Self {
                Self(bits)
            }

            /// The code of the value.
            pub const fn to_bits(self) -> u8 {
                self.0
            }

            /// The value nearest to `value`, ties to even. What lies beyond the largest finite value, infinity
            /// included, saturates to it with its sign; NaN becomes the canonical NaN.
            pub fn from_f32(value: f32) -> Self {
                Self(minifloat::narrow::<$format>(value) as u8)
            }

            /// The value as `f32`, exactly; every NaN becomes the canonical one.
            pub fn to_f32(self) -> f32 {
                minifloat::widen::<$format>(u32::from(self.0))
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Debug::fmt(&self.to_f32(), f)
            }
        }
    };
}

fp8! {
    /// FP8 with 4 exponent and 3 mantissa bits, OCP "fn": finite values to ±448, NaN, no infinity.
    ///
    /// Equality compares codes.
    F8E4M3, E4M3, max 0x7e
}
fp8! {
    /// FP8 with 5 exponent and 2 mantissa bits, OCP: finite values to ±57344, infinities, NaN.
    ///
    /// Infinity is read as such, but no arithmetic result is infinite: it saturates. Equality compares codes.
    F8E5M2, E5M2, max 0x7b
}
