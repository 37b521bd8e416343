//! Conversion between `f32` and the small binary formats (binary16 and the two FP8), without branches or tables
//! so that loops over it vectorise.
//!
//! No step produces or consumes a subnormal `f32`, so a host program that has set flush-to-zero gets the same
//! bits.

/// A sign, exponent and mantissa format that is narrower than `f32` in every part.
pub(crate) trait Layout {
    /// Bits of the mantissa.
    const MANTISSA: u32;
    /// Bias of the exponent.
    const BIAS: u32;
    /// Bits of the whole format; the sign is the uppermost.
    const WIDTH: u32;
    /// Canonical NaN.
    const NAN: u32;
    /// The largest magnitude that is not NaN: infinity, or the largest finite value where there is none.
    const TOP: u32;
    /// Whether [`Self::TOP`] is infinity.
    const TOP_IS_INFINITY: bool;
    /// Bits of the `f32` that magnitudes are cut to before they are rounded: the largest finite value in a
    /// saturating format, the first power of two above it in a format that overflows to infinity.
    const CLAMP: u32;
}

/// IEEE 754 binary16: overflows to infinity.
#[derive(Clone, Copy)]
pub(crate) struct Binary16;
/// OCP E4M3: no infinity, saturates.
#[derive(Clone, Copy)]
pub(crate) struct E4M3;
/// OCP E5M2: has infinity as an input, saturates as a result.
#[derive(Clone, Copy)]
pub(crate) struct E5M2;

impl Layout for Binary16 {
    const MANTISSA: u32 = 10;
    const BIAS: u32 = 15;
    const WIDTH: u32 = 16;
    const NAN: u32 = 0x7e00;
    const TOP: u32 = 0x7c00;
    const TOP_IS_INFINITY: bool = true;
    const CLAMP: u32 = 65536f32.to_bits();
}

impl Layout for E4M3 {
    const MANTISSA: u32 = 3;
    const BIAS: u32 = 7;
    const WIDTH: u32 = 8;
    const NAN: u32 = 0x7f;
    const TOP: u32 = 0x7e;
    const TOP_IS_INFINITY: bool = false;
    const CLAMP: u32 = 448f32.to_bits();
}

impl Layout for E5M2 {
    const MANTISSA: u32 = 2;
    const BIAS: u32 = 15;
    const WIDTH: u32 = 8;
    const NAN: u32 = 0x7e;
    const TOP: u32 = 0x7c;
    const TOP_IS_INFINITY: bool = true;
    const CLAMP: u32 = 57344f32.to_bits();
}

/// 2^`exponent` for a normal result.
const fn power_of_two(exponent: i32) -> f32 {
    f32::from_bits(((exponent + 127) as u32) << 23)
}

/// The value of the code `bits`, exactly; every NaN becomes the canonical one.
#[inline(always)]
pub(crate) fn widen<F: Layout>(bits: u32) -> f32 {
    let sign_bit = 1 << (F::WIDTH - 1);
    let sign = (bits & sign_bit) << (32 - F::WIDTH);
    let magnitude = bits & (sign_bit - 1);
    let normal = (magnitude << (23 - F::MANTISSA)) + ((127 - F::BIAS) << 23);
    let unit = const { power_of_two(1 - F::BIAS as i32 - F::MANTISSA as i32) };
    let subnormal = (magnitude as i32 as f32 * unit).to_bits();
    let finite = if magnitude < 1 << F::MANTISSA {
        subnormal
    } else {
        normal
    };
    let value = if F::TOP_IS_INFINITY && magnitude == F::TOP {
        f32::INFINITY.to_bits()
    } else {
        finite
    };
    f32::from_bits(if magnitude > F::TOP {
        f32::NAN.to_bits()
    } else {
        value | sign
    })
}

/// The code nearest to `value`, ties to even; NaN becomes the canonical one.
#[inline(always)]
pub(crate) fn narrow<F: Layout>(value: f32) -> u32 {
    let bits = value.to_bits();
    let sign = (bits >> (32 - F::WIDTH)) & (1 << (F::WIDTH - 1));
    let magnitude = bits & 0x7fff_ffff;
    let is_nan = magnitude > f32::INFINITY.to_bits();
    let magnitude = if magnitude < F::CLAMP { magnitude } else { F::CLAMP };

    let dropped = 23 - F::MANTISSA;
    let rebased = magnitude.wrapping_sub((127 - F::BIAS) << 23);
    let even = (rebased >> dropped) & 1;
    let normal = rebased.wrapping_add((1 << (dropped - 1)) - 1 + even) >> dropped;

    // The unit in the last place of `anchor` is the smallest subnormal of the format: the addition rounds.
    let anchor = const { power_of_two(24 - F::BIAS as i32 - F::MANTISSA as i32) };
    let subnormal = (f32::from_bits(magnitude) + anchor)
        .to_bits()
        .wrapping_sub(anchor.to_bits());

    let smallest_normal = const { power_of_two(1 - F::BIAS as i32).to_bits() };
    let rounded = if magnitude < smallest_normal {
        subnormal
    } else {
        normal
    };
    if is_nan { F::NAN } else { rounded | sign }
}
