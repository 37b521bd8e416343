//! MAX and MIN of floats, as the order of integers.

use std::marker::PhantomData;

use crate::accumulator::Accumulator;
use crate::binary16::Half;
use crate::fold::{Fold, Int, one_by_one};

/// How the codes of a floating-point format order its values.
pub(crate) trait Order: Copy {
    /// Unsigned integer of the width of an element.
    type Bits: Int;
    /// Signed integer of the same width.
    type Key: Int + Accumulator;

    /// A key that is greater for a greater value, with -0 below +0 and NaN, the canonical one, above all. `MIRRORED`
    /// reverses the order of all but NaN.
    fn key<const MIRRORED: bool>(bits: Self::Bits) -> Self::Key;
    /// The code that has this key, with infinity saturated where results do so.
    fn code<const MIRRORED: bool>(key: Self::Key) -> Self::Bits;
}

macro_rules! order {
    ($($(#[$doc:meta])* $name:ident: $bits:ty, $key:ty, nan $nan:literal, top $top:literal, result $result:literal;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(crate) struct $name;

        impl $name {
            const MAGNITUDE: $bits = <$bits>::MAX >> 1;
            const TOP: $bits = $top;
            const RESULT_TOP: $bits = $result;

            /// Negative codes are ordered by falling magnitude, as their values are; the mapping undoes itself.
            #[inline(always)]
            fn reorder(code: $key) -> $key {
                code ^ ((code >> (<$key>::BITS - 1)) & Self::MAGNITUDE as $key)
            }
        }

        impl Order for $name {
            type Bits = $bits;
            type Key = $key;
            #[inline(always)]
            fn key<const MIRRORED: bool>(bits: $bits) -> $key {
                let code = if MIRRORED { bits ^ !Self::MAGNITUDE } else { bits };
                if bits & Self::MAGNITUDE > Self::TOP { $nan } else { Self::reorder(code as $key) }
            }
            #[inline(always)]
            fn code<const MIRRORED: bool>(key: $key) -> $bits {
                let code = Self::reorder(key) as $bits;
                let code = if MIRRORED { code ^ !Self::MAGNITUDE } else { code };
                let saturates = Self::RESULT_TOP < Self::TOP && code & Self::MAGNITUDE == Self::TOP;
                let result = if saturates { code & !Self::MAGNITUDE | Self::RESULT_TOP } else { code };
                if key == $nan { $nan } else { result }
            }
        }
    )+};
}

order! {
    /// Float64: canonical NaN, largest magnitude that is not NaN, largest magnitude of a result.
    OrderF64: u64, i64, nan 0x7ff8_0000_0000_0000, top 0x7ff0_0000_0000_0000, result 0x7ff0_0000_0000_0000;
    /// Float32.
    OrderF32: u32, i32, nan 0x7fc0_0000, top 0x7f80_0000, result 0x7f80_0000;
    /// Float16.
    OrderF16: u16, i16, nan 0x7e00, top 0x7c00, result 0x7c00;
    /// BFloat16.
    OrderBF16: u16, i16, nan 0x7fc0, top 0x7f80, result 0x7f80;
    /// Float8E4M3.
    OrderE4M3: u8, i8, nan 0x7f, top 0x7e, result 0x7e;
    /// Float8E5M2, whose results saturate.
    OrderE5M2: u8, i8, nan 0x7e, top 0x7c, result 0x7b;
}

/// The largest of floats, or the smallest if `SMALLEST`; NaN wins.
#[derive(Clone, Copy)]
pub(crate) struct Extreme<F, const SMALLEST: bool>(PhantomData<F>);

impl<F, const SMALLEST: bool> Extreme<F, SMALLEST> {
    pub(crate) const NEW: Self = Self(PhantomData);
}

impl<F: Order, const SMALLEST: bool> Fold for Extreme<F, SMALLEST> {
    type Elem<H: Half> = F::Bits;
    type Acc<H: Half> = F::Key;
    one_by_one!();
    #[inline(always)]
    unsafe fn load<H: Half>(self, elem: F::Bits, _pre: bool) -> F::Key {
        F::key::<SMALLEST>(elem)
    }
    #[inline(always)]
    unsafe fn combine<H: Half>(self, left: F::Key, right: F::Key) -> F::Key {
        left.max(right)
    }
    #[inline(always)]
    unsafe fn finish<H: Half>(self, acc: F::Key) -> F::Bits {
        F::code::<SMALLEST>(acc)
    }
}
