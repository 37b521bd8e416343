//! Floating-point formats by their definition: bits to a 64-bit float, which holds each of them exactly, and
//! back with one rounding to nearest even.

use super::Dtype;

/// The shape of a binary format.
#[derive(Debug, Clone, Copy)]
pub(super) struct Format {
    exponent_bits: u32,
    /// Digits after the point.
    pub(super) mantissa_bits: u32,
    overflow: Overflow,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Overflow {
    /// To infinity, as IEEE 754 has it.
    Infinity,
    /// To the largest number, though the format has infinities.
    Saturate,
    /// To the largest number; the topmost pattern alone is NaN, and there is no infinity.
    SaturateFinite,
}

/// The format of a floating-point type; `None` for others.
pub(super) fn format_of(dtype: Dtype) -> Option<Format> {
    let (exponent_bits, mantissa_bits, overflow) = match dtype {
        Dtype::Float16 => (5, 10, Overflow::Infinity),
        Dtype::BFloat16 => (8, 7, Overflow::Infinity),
        Dtype::Float32 => (8, 23, Overflow::Infinity),
        Dtype::Float64 => (11, 52, Overflow::Infinity),
        Dtype::Float8E4M3 => (4, 3, Overflow::SaturateFinite),
        Dtype::Float8E5M2 => (5, 2, Overflow::Saturate),
        _ => return None,
    };
    Some(Format {
        exponent_bits,
        mantissa_bits,
        overflow,
    })
}

impl Format {
    fn bias(self) -> i32 {
        (1 << (self.exponent_bits - 1)) - 1
    }

    fn top_exponent(self) -> u64 {
        (1 << self.exponent_bits) - 1
    }

    fn sign_bit(self) -> u64 {
        1 << (self.exponent_bits + self.mantissa_bits)
    }

    /// Half of the distance between 1 and the next number, the largest relative error of one rounding.
    pub(super) fn unit_roundoff(self) -> f64 {
        power_of_two(-(self.mantissa_bits as i32) - 1)
    }

    /// The smallest positive number.
    pub(super) fn smallest(self) -> f64 {
        power_of_two(1 - self.bias() - self.mantissa_bits as i32)
    }

    pub(super) fn canonical_nan(self) -> u64 {
        let top = self.top_exponent() << self.mantissa_bits;
        match self.overflow {
            Overflow::SaturateFinite => top | ((1 << self.mantissa_bits) - 1),
            Overflow::Infinity | Overflow::Saturate => top | (1 << (self.mantissa_bits - 1)),
        }
    }

    /// The pattern of positive infinity, where overflow leads there.
    pub(super) fn infinity(self) -> Option<u64> {
        (self.overflow == Overflow::Infinity).then(|| self.top_exponent() << self.mantissa_bits)
    }

    fn largest_bits(self) -> u64 {
        match self.overflow {
            Overflow::SaturateFinite => self.canonical_nan() - 1,
            Overflow::Infinity | Overflow::Saturate => (self.top_exponent() << self.mantissa_bits) - 1,
        }
    }

    /// The largest finite number.
    pub(super) fn largest(self) -> f64 {
        self.decode(self.largest_bits())
    }

    pub(super) fn decode(self, bits: u64) -> f64 {
        let mantissa = bits & ((1 << self.mantissa_bits) - 1);
        let exponent = (bits >> self.mantissa_bits) & self.top_exponent();
        let magnitude = if bits & !self.sign_bit() > self.largest_bits() {
            let infinite = self.overflow != Overflow::SaturateFinite && mantissa == 0;
            if infinite { f64::INFINITY } else { f64::NAN }
        } else if exponent == 0 {
            mantissa as f64 * self.smallest()
        } else {
            let digits = (mantissa | (1 << self.mantissa_bits)) as f64;
            // In two steps, since the one factor alone may lie outside of what a 64-bit float can hold.
            digits * power_of_two(-(self.mantissa_bits as i32)) * power_of_two(exponent as i32 - self.bias())
        };
        if bits & self.sign_bit() == 0 {
            magnitude
        } else {
            -magnitude
        }
    }

    pub(super) fn encode(self, value: f64) -> u64 {
        if value.is_nan() {
            return self.canonical_nan();
        }
        let sign = if value.is_sign_negative() {
            self.sign_bit()
        } else {
            0
        };
        let magnitude = value.abs();
        let bits = if magnitude.is_infinite() {
            self.infinity().unwrap_or(self.largest_bits())
        } else if self.mantissa_bits == 52 {
            magnitude.to_bits()
        } else {
            self.round(magnitude)
        };
        sign | bits
    }

    /// A finite magnitude to the nearest number of a format narrower than the 64-bit float.
    fn round(self, magnitude: f64) -> u64 {
        let exponent = (magnitude.to_bits() >> 52) as i32 - 1023;
        let exponent = exponent.max(1 - self.bias());
        let units = (magnitude / power_of_two(exponent - self.mantissa_bits as i32)).round_ties_even() as u64;
        // The leading digit of a normal number adds one to the exponent field, and so does a carry; a number
        // without it stays in the lowest binade.
        let field = (exponent + self.bias() - 1) as u64;
        let bits = (field << self.mantissa_bits) + units;
        if bits > self.largest_bits() {
            self.infinity().unwrap_or(self.largest_bits())
        } else {
            bits
        }
    }
}

fn power_of_two(exponent: i32) -> f64 {
    if exponent < -1022 {
        f64::from_bits(1 << (exponent + 1074))
    } else {
        f64::from_bits(((exponent + 1023) as u64) << 52)
    }
}

/// The number that `bits` of a floating-point type stand for.
///
/// # Panics
/// If `dtype` is no floating-point type.
pub fn decode_float(dtype: Dtype, bits: u64) -> f64 {
    format_of(dtype).expect("a floating-point type").decode(bits)
}

/// The bits of the number of a floating-point type that is nearest to `value`, ties to even; too large a value
/// becomes infinite, or the largest FP8 number.
///
/// # Panics
/// If `dtype` is no floating-point type.
pub fn encode_float(dtype: Dtype, value: f64) -> u64 {
    format_of(dtype).expect("a floating-point type").encode(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_of_the_short_formats_survives_the_way_there_and_back() {
        for dtype in [
            Dtype::Float16,
            Dtype::BFloat16,
            Dtype::Float8E4M3,
            Dtype::Float8E5M2,
        ] {
            let format = format_of(dtype).unwrap();
            for bits in 0..1u64 << (8 * dtype.size()) {
                let value = format.decode(bits);
                if value.is_nan() {
                    assert_eq!(format.encode(value), format.canonical_nan());
                } else if value.is_finite() || format.infinity().is_some() {
                    assert_eq!(format.encode(value), bits, "{dtype} {bits:#x}");
                }
            }
        }
    }

    #[test]
    fn constants_from_the_standards() {
        let cases = [
            (Dtype::Float16, 0x3c00, 1.0),
            (Dtype::Float16, 0x7bff, 65504.0),
            (Dtype::Float16, 0x0001, 5.960464477539063e-8),
            (Dtype::BFloat16, 0x4049, 3.140625),
            (Dtype::BFloat16, 0x7f7f, 3.3895313892515355e38),
            (Dtype::Float8E4M3, 0x7e, 448.0),
            (Dtype::Float8E4M3, 0x01, 0.001953125),
            (Dtype::Float8E5M2, 0x7b, 57344.0),
            (Dtype::Float8E5M2, 0x01, 0.0000152587890625),
            (Dtype::Float64, 0x3ff0_0000_0000_0000, 1.0),
        ];
        for (dtype, bits, value) in cases {
            assert_eq!(decode_float(dtype, bits), value, "{dtype}");
            assert_eq!(encode_float(dtype, value), bits, "{dtype}");
        }
    }

    #[test]
    fn ties_go_to_even_and_overflow_as_each_format_has_it() {
        assert_eq!(
            encode_float(Dtype::Float16, 2049.0),
            encode_float(Dtype::Float16, 2048.0)
        );
        assert_eq!(
            encode_float(Dtype::Float16, 2051.0),
            encode_float(Dtype::Float16, 2052.0)
        );
        assert_eq!(encode_float(Dtype::Float16, 65519.9), 0x7bff);
        assert_eq!(encode_float(Dtype::Float16, 65520.0), 0x7c00);
        assert_eq!(encode_float(Dtype::Float8E4M3, 1e9), 0x7e);
        assert_eq!(encode_float(Dtype::Float8E5M2, -1e9), 0xfb);
        assert_eq!(encode_float(Dtype::Float8E4M3, f64::NAN), 0x7f);
        assert_eq!(encode_float(Dtype::Float8E5M2, f64::NAN), 0x7e);
        assert_eq!(encode_float(Dtype::Float64, 5e-324), 1);
        assert_eq!(decode_float(Dtype::Float64, 1), 5e-324);
    }

    #[test]
    fn binary32_agrees_with_the_machine() {
        let mut state = 1u64;
        for _ in 0..200_000 {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let bits = (state >> 32) as u32;
            let native = f32::from_bits(bits);
            let ours = decode_float(Dtype::Float32, bits.into());
            assert!(ours == f64::from(native) || (ours.is_nan() && native.is_nan()));
            let value = f64::from_bits(state & 0x8000_ffff_ffff_ffff | ((896 + (state >> 40) % 256) << 52));
            assert_eq!(
                encode_float(Dtype::Float32, value),
                u64::from((value as f32).to_bits()),
                "{value:e}"
            );
        }
    }
}
