//! What a reduction must give, from the definitions of the formats: wide integers, 64-bit floats, and a search for the
//! nearest code. Shares nothing with the kernels.

use infiniccl_reduce::{DataType, Factors, ReduceOp};

/// A floating-point format of at most 16 bits.
struct Shape {
    exponent_bits: u32,
    mantissa_bits: u32,
    /// Whether the largest exponent stands for infinity and NaN, as in IEEE 754; else only its last code is NaN.
    ieee: bool,
    saturates: bool,
    nan: u64,
}

fn shape(dtype: DataType) -> Option<Shape> {
    let (exponent_bits, mantissa_bits, ieee, saturates, nan) = match dtype {
        DataType::Float16 => (5, 10, true, false, 0x7e00),
        DataType::BFloat16 => (8, 7, true, false, 0x7fc0),
        DataType::Float8E4M3 => (4, 3, false, true, 0x7f),
        DataType::Float8E5M2 => (5, 2, true, true, 0x7e),
        _ => return None,
    };
    Some(Shape {
        exponent_bits,
        mantissa_bits,
        ieee,
        saturates,
        nan,
    })
}

impl Shape {
    fn sign_bit(&self) -> u64 {
        1 << (self.exponent_bits + self.mantissa_bits)
    }

    /// The largest code of a finite positive value.
    fn largest(&self) -> u64 {
        let special = if self.ieee { 1 << self.mantissa_bits } else { 1 };
        self.sign_bit() - 1 - special
    }

    /// The value of a magnitude as if the format had no special codes.
    fn magnitude(&self, code: u64) -> f64 {
        let bias = (1 << (self.exponent_bits - 1)) - 1;
        let exponent = (code >> self.mantissa_bits) as i32;
        let fraction = (code & ((1 << self.mantissa_bits) - 1)) as f64 / f64::from(1 << self.mantissa_bits);
        if exponent == 0 {
            fraction * f64::powi(2.0, 1 - bias)
        } else {
            (1.0 + fraction) * f64::powi(2.0, exponent - bias)
        }
    }

    fn decode(&self, bits: u64) -> f64 {
        let code = bits & (self.sign_bit() - 1);
        let magnitude = if code <= self.largest() {
            self.magnitude(code)
        } else if self.ieee && code == self.largest() + 1 {
            f64::INFINITY
        } else {
            return f64::NAN;
        };
        if bits & self.sign_bit() == 0 {
            magnitude
        } else {
            -magnitude
        }
    }

    fn encode(&self, value: f64) -> u64 {
        if value.is_nan() {
            return self.nan;
        }
        let wanted = value.abs();
        let (mut low, mut beyond) = (0, self.largest() + 1);
        while beyond - low > 1 {
            let middle = low + (beyond - low) / 2;
            if self.magnitude(middle) <= wanted {
                low = middle
            } else {
                beyond = middle
            }
        }
        let (down, up) = (wanted - self.magnitude(low), self.magnitude(low + 1) - wanted);
        let nearest = if down < up || down == up && low & 1 == 0 {
            low
        } else {
            low + 1
        };
        let code = if self.saturates {
            nearest.min(self.largest())
        } else {
            nearest
        };
        if value.is_sign_negative() {
            code | self.sign_bit()
        } else {
            code
        }
    }
}

/// The lowest bytes of a number.
fn low_bytes(dtype: DataType, bits: u64) -> Vec<u8> {
    bits.to_le_bytes()[..dtype.size()].to_vec()
}

fn bits(element: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..element.len()].copy_from_slice(element);
    u64::from_le_bytes(word)
}

/// The value of a floating-point element.
pub(crate) fn decode(dtype: DataType, element: &[u8]) -> f64 {
    match shape(dtype) {
        Some(shape) => shape.decode(bits(element)),
        None if dtype == DataType::Float32 => f32::from_bits(bits(element) as u32).into(),
        None => f64::from_bits(bits(element)),
    }
}

/// The floating-point element that is nearest to a value; a NaN is canonical.
pub(crate) fn encode(dtype: DataType, value: f64) -> Vec<u8> {
    let code = match shape(dtype) {
        Some(shape) => shape.encode(value),
        None if dtype == DataType::Float32 => {
            if value.is_nan() {
                0x7fc0_0000
            } else {
                (value as f32).to_bits().into()
            }
        }
        None => {
            if value.is_nan() {
                0x7ff8_0000_0000_0000
            } else {
                value.to_bits()
            }
        }
    };
    low_bytes(dtype, code)
}

/// The value of an integer element.
pub(crate) fn integer(dtype: DataType, element: &[u8]) -> i128 {
    let value = i128::from(bits(element));
    let width = 8 * element.len();
    let signed = matches!(
        dtype,
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64
    );
    if signed && value >= 1 << (width - 1) {
        value - (1 << width)
    } else {
        value
    }
}

/// The integer element that is congruent to a value.
pub(crate) fn wrapped(dtype: DataType, value: i128) -> Vec<u8> {
    low_bytes(dtype, value as u64)
}

/// The result of arithmetic in the type that a float is combined in, given to 64 bits: those have more than twice the
/// bits of 32-bit floats, so that rounding twice is rounding once.
pub(crate) fn rounded(dtype: DataType, value: f64) -> f64 {
    if dtype == DataType::Float64 {
        value
    } else {
        (value as f32).into()
    }
}

/// What `reduce` must write for one element of each input; `pre` says which inputs are scaled.
pub(crate) fn reduce(
    dtype: DataType,
    op: ReduceOp,
    inputs: &[&[u8]],
    pre: &[bool],
    factors: Factors,
) -> Vec<u8> {
    if dtype == DataType::Bool {
        let any = inputs.iter().any(|input| input[0] != 0);
        let all = inputs.iter().all(|input| input[0] != 0);
        return vec![u8::from(if matches!(op, ReduceOp::Sum | ReduceOp::Max) {
            any
        } else {
            all
        })];
    }
    if dtype.is_integer() {
        let values = inputs.iter().map(|input| integer(dtype, input));
        let combined = match op {
            ReduceOp::Sum => values.sum(),
            // What 128 bits drop is a multiple of 2^64 and of all the smaller ones.
            ReduceOp::Prod => values.fold(1, i128::wrapping_mul),
            ReduceOp::Max => values.max().expect("an input"),
            ReduceOp::Min => values.min().expect("an input"),
            ReduceOp::Avg => unreachable!("not a fold"),
        };
        return wrapped(dtype, combined);
    }
    let scaled = op == ReduceOp::Sum && factors != Factors::NONE;
    if let ([only], false) = (inputs, scaled) {
        return only.to_vec();
    }
    let [before, after] = [factors.pre, factors.post].map(|factor| rounded(dtype, factor));
    let values = inputs.iter().zip(pre).map(|(input, &pre)| {
        let value = decode(dtype, input);
        if scaled && pre {
            rounded(dtype, value * before)
        } else {
            value
        }
    });
    let combined = values.reduce(|a, b| match op {
        ReduceOp::Sum => rounded(dtype, a + b),
        ReduceOp::Prod => rounded(dtype, a * b),
        ReduceOp::Max | ReduceOp::Min if a.is_nan() || b.is_nan() => f64::NAN,
        ReduceOp::Max => {
            if a.total_cmp(&b).is_gt() {
                a
            } else {
                b
            }
        }
        ReduceOp::Min => {
            if a.total_cmp(&b).is_lt() {
                a
            } else {
                b
            }
        }
        ReduceOp::Avg => unreachable!("not a fold"),
    });
    let combined = combined.expect("an input");
    encode(
        dtype,
        if scaled {
            rounded(dtype, combined * after)
        } else {
            combined
        },
    )
}
