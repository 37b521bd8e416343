//! Reductions written from the definition, element by element, and sharing nothing with the product's kernels.

use infiniccl_plugin_api::RedOp;
use infiniccl_reduce::DataType;

/// The value of an element.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Value {
    Integer(i128),
    Float(f64),
}

/// Reads an element.
pub(crate) fn decode(dtype: DataType, bytes: &[u8]) -> Value {
    let mut low = [0u8; 8];
    low[..bytes.len()].copy_from_slice(bytes);
    let bits = u64::from_le_bytes(low);
    match dtype {
        DataType::Int8 => Value::Integer((bits as u8 as i8).into()),
        DataType::Int16 => Value::Integer((bits as u16 as i16).into()),
        DataType::Int32 => Value::Integer((bits as u32 as i32).into()),
        DataType::Int64 => Value::Integer((bits as i64).into()),
        DataType::Uint8 | DataType::Uint16 | DataType::Uint32 | DataType::Uint64 => {
            Value::Integer(bits.into())
        }
        DataType::Bool => Value::Integer((bits != 0).into()),
        DataType::Float16 => Value::Float(half::f16::from_bits(bits as u16).to_f64()),
        DataType::BFloat16 => Value::Float(half::bf16::from_bits(bits as u16).to_f64()),
        DataType::Float32 => Value::Float(f32::from_bits(bits as u32).into()),
        DataType::Float64 => Value::Float(f64::from_bits(bits)),
        DataType::Float8E4M3 => Value::Float(decode_small(bits as u8, 3)),
        DataType::Float8E5M2 => Value::Float(decode_small(bits as u8, 2)),
    }
}

/// The bytes of an element: integers modulo 2^n, floats rounded to nearest even, FP8 saturating.
pub(crate) fn encode(dtype: DataType, value: Value) -> Vec<u8> {
    let bytes = match (dtype, value) {
        (DataType::Bool, Value::Integer(v)) => u128::from(v != 0).to_le_bytes(),
        (_, Value::Integer(v)) => v.to_le_bytes(),
        (DataType::Float16, Value::Float(v)) => widened(half::f16::from_f64(v).to_bits().into()),
        (DataType::BFloat16, Value::Float(v)) => widened(half::bf16::from_f64(v).to_bits().into()),
        (DataType::Float32, Value::Float(v)) => widened((v as f32).to_bits().into()),
        (DataType::Float8E4M3, Value::Float(v)) => widened(encode_small(v, 3).into()),
        (DataType::Float8E5M2, Value::Float(v)) => widened(encode_small(v, 2).into()),
        (_, Value::Float(v)) => widened(v.to_bits()),
    };
    bytes[..dtype.size()].to_vec()
}

fn widened(bits: u64) -> [u8; 16] {
    u128::from(bits).to_le_bytes()
}

/// An FP8 number with `mantissa` bits of mantissa: E4M3 has no infinity, E5M2 has.
fn decode_small(bits: u8, mantissa: i32) -> f64 {
    let bias = if mantissa == 3 { 7 } else { 15 };
    let (exponent, fraction) = (
        i32::from(bits & 0x7f) >> mantissa,
        i32::from(bits) & ((1 << mantissa) - 1),
    );
    let magnitude = match (mantissa, bits & 0x7f) {
        (3, 0x7f) | (2, 0x7d..) => f64::NAN,
        (2, 0x7c) => f64::INFINITY,
        _ if exponent == 0 => f64::from(fraction) * 2f64.powi(1 - bias - mantissa),
        _ => f64::from((1 << mantissa) + fraction) * 2f64.powi(exponent - bias - mantissa),
    };
    if bits & 0x80 == 0 { magnitude } else { -magnitude }
}

fn encode_small(value: f64, mantissa: i32) -> u8 {
    if value.is_nan() {
        return if mantissa == 3 { 0x7f } else { 0x7e };
    }
    let largest = if mantissa == 3 { 0x7e } else { 0x7b };
    let magnitude = value.abs().min(decode_small(largest, mantissa));
    let distance = |code: u8| (decode_small(code, mantissa) - magnitude).abs();
    // The nearest code; of two, the one with an even last bit.
    let nearest = (0..=largest)
        .min_by(|a, b| distance(*a).total_cmp(&distance(*b)).then((a & 1).cmp(&(b & 1))))
        .unwrap_or(0);
    nearest | if value.is_sign_negative() { 0x80 } else { 0 }
}

/// Combines `inputs` element by element; `scales` are the scalars of PREMUL_SUM, as bits of the element type.
pub(crate) fn combine(
    dtype: DataType,
    op: RedOp,
    inputs: &[&[u8]],
    scales: &[u64],
) -> Result<Vec<u8>, String> {
    let size = dtype.size();
    let mut out = Vec::with_capacity(inputs[0].len());
    for at in (0..inputs[0].len()).step_by(size) {
        let mut values = inputs.iter().map(|i| decode(dtype, &i[at..at + size]));
        let value = if op == RedOp::PREMUL_SUM {
            let scaled = values
                .zip(scales)
                .map(|(value, scale)| times(value, decode(dtype, &scale.to_le_bytes()[..size])));
            scaled.reduce(plus)
        } else if op == RedOp::AVG {
            values.reduce(plus).map(|sum| over(sum, inputs.len()))
        } else {
            let first = values.next();
            first.map(|first| values.fold(first, |a, b| apply(dtype, op, a, b)))
        };
        out.extend(encode(dtype, value.ok_or("no inputs")?));
    }
    Ok(out)
}

fn apply(dtype: DataType, op: RedOp, a: Value, b: Value) -> Value {
    let largest = if op == RedOp::MAX {
        true
    } else {
        dtype == DataType::Bool && op == RedOp::SUM
    };
    match op {
        RedOp::PROD if dtype != DataType::Bool => times(a, b),
        RedOp::SUM if dtype != DataType::Bool => plus(a, b),
        _ => extreme(largest, a, b),
    }
}

fn plus(a: Value, b: Value) -> Value {
    match (a, b) {
        // Wider than any element, so that a mean is exact.
        (Value::Integer(a), Value::Integer(b)) => Value::Integer(a.wrapping_add(b)),
        (a, b) => Value::Float(float(a) + float(b)),
    }
}

fn times(a: Value, b: Value) -> Value {
    match (a, b) {
        (Value::Integer(a), Value::Integer(b)) => Value::Integer(a.wrapping_mul(b)),
        (a, b) => Value::Float(float(a) * float(b)),
    }
}

fn over(sum: Value, n: usize) -> Value {
    match sum {
        Value::Integer(sum) => Value::Integer(sum / n as i128),
        Value::Float(sum) => Value::Float(sum / n as f64),
    }
}

fn extreme(largest: bool, a: Value, b: Value) -> Value {
    match (a, b) {
        (Value::Integer(a), Value::Integer(b)) => Value::Integer(if largest { a.max(b) } else { a.min(b) }),
        (a, b) => {
            let (a, b) = (float(a), float(b));
            let first_wins = a.is_nan() || (!b.is_nan() && (a.total_cmp(&b).is_gt() == largest));
            Value::Float(if first_wins { a } else { b })
        }
    }
}

fn float(value: Value) -> f64 {
    match value {
        Value::Float(v) => v,
        Value::Integer(v) => v as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_small_float_survives_the_round_trip() {
        for mantissa in [2, 3] {
            for code in 0..=255u8 {
                let value = decode_small(code, mantissa);
                if value.is_finite() {
                    assert_eq!(encode_small(value, mantissa), code, "{mantissa} {code:#x}");
                }
            }
        }
        assert_eq!(decode_small(0x7e, 3), 448.0);
        assert_eq!(decode_small(0x7b, 2), 57344.0);
        assert_eq!(encode_small(1e9, 3), 0x7e);
        assert_eq!(encode_small(-1e9, 2), 0xfb);
    }

    #[test]
    fn means_are_exact_and_nan_wins() {
        let ints = [120i8, 121, 122].map(|v| [v as u8]);
        let inputs: Vec<&[u8]> = ints.iter().map(|b| &b[..]).collect();
        assert_eq!(combine(DataType::Int8, RedOp::AVG, &inputs, &[]), Ok(vec![121]));
        let floats = [1f32, f32::NAN, 2.0].map(f32::to_le_bytes);
        let inputs: Vec<&[u8]> = floats.iter().map(|b| &b[..]).collect();
        for op in [RedOp::MAX, RedOp::MIN, RedOp::SUM] {
            let out = combine(DataType::Float32, op, &inputs, &[]).unwrap();
            assert!(f32::from_le_bytes(out.try_into().unwrap()).is_nan());
        }
    }
}
