//! What results must be: element by element in wide integers or f64, sharing no code with the plugin.

use infiniccl_plugin_api::{DType, RedOp};
use std::sync::OnceLock;

/// Every data type.
pub(crate) const TYPES: [DType; 15] = [
    DType::INT8,
    DType::INT16,
    DType::INT32,
    DType::INT64,
    DType::UINT8,
    DType::UINT16,
    DType::UINT32,
    DType::UINT64,
    DType::FLOAT16,
    DType::BFLOAT16,
    DType::FLOAT32,
    DType::FLOAT64,
    DType::FLOAT8_E4M3,
    DType::FLOAT8_E5M2,
    DType::BOOL,
];

/// Operators without a scalar.
pub(crate) const OPS: [RedOp; 5] = [RedOp::SUM, RedOp::PROD, RedOp::MAX, RedOp::MIN, RedOp::AVG];

/// Bytes of an element.
pub(crate) fn size(dtype: DType) -> usize {
    match dtype {
        DType::INT8 | DType::UINT8 | DType::FLOAT8_E4M3 | DType::FLOAT8_E5M2 | DType::BOOL => 1,
        DType::INT16 | DType::UINT16 | DType::FLOAT16 | DType::BFLOAT16 => 2,
        DType::INT32 | DType::UINT32 | DType::FLOAT32 => 4,
        _ => 8,
    }
}

/// Exponent bits, mantissa bits, and whether there are infinities, of a small float.
fn format(dtype: DType) -> Option<(u32, u32, bool)> {
    match dtype {
        DType::FLOAT16 => Some((5, 10, true)),
        DType::BFLOAT16 => Some((8, 7, true)),
        DType::FLOAT8_E4M3 => Some((4, 3, false)),
        DType::FLOAT8_E5M2 => Some((5, 2, true)),
        _ => None,
    }
}

/// The value of a non-negative code of a small float; none for NaN and infinity.
fn decode(code: u32, (exponent_bits, mantissa_bits, infinities): (u32, u32, bool)) -> Option<f64> {
    let exponent = code >> mantissa_bits;
    let mantissa = f64::from(code & ((1 << mantissa_bits) - 1));
    let top = (1 << exponent_bits) - 1;
    let special = if infinities {
        exponent == top
    } else {
        code == (1 << (exponent_bits + mantissa_bits)) - 1
    };
    let scale = f64::from(1_u32 << mantissa_bits);
    let bias = (1 << (exponent_bits - 1)) - 1;
    (!special).then(|| match exponent {
        0 => mantissa / scale * 2_f64.powi(1 - bias),
        _ => (1.0 + mantissa / scale) * 2_f64.powi(exponent.cast_signed() - bias),
    })
}

/// All finite non-negative values of a small float, by code.
fn values(dtype: DType) -> &'static [f64] {
    static TABLES: [OnceLock<Vec<f64>>; 16] = [const { OnceLock::new() }; 16];
    TABLES[dtype.0 as usize].get_or_init(|| {
        let format = format(dtype).expect("a small float");
        (0..1_u32 << (format.0 + format.1))
            .map_while(|code| decode(code, format))
            .collect()
    })
}

/// The code nearest to a value: ties to even, FP8 saturates.
fn encode_small(dtype: DType, value: f64) -> u32 {
    let table = values(dtype);
    let magnitude = value.abs();
    let above = table
        .partition_point(|entry| *entry < magnitude)
        .min(table.len() - 1);
    let below = above.saturating_sub(1);
    let (up, down) = (table[above] - magnitude, magnitude - table[below]);
    let nearest = if up < down || (up == down && above % 2 == 0) {
        above
    } else {
        below
    };
    let bits = u32::try_from(size(dtype) * 8).expect("small");
    u32::try_from(nearest).expect("a code") | u32::from(value.is_sign_negative()) << (bits - 1)
}

/// An element of a rank's input.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Value {
    Int(i128),
    Float(f64),
    Bool(bool),
}

fn scramble(mut x: u64) -> u64 {
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// Element `index` of rank `rank`: different by both; floats such that sums and products are exact in f32.
pub(crate) fn value(dtype: DType, op: RedOp, rank: usize, index: usize) -> Value {
    let random = scramble((rank as u64 + 1) << 40 ^ (index as u64 + 1).wrapping_mul(0x9e37_79b9));
    let bits = size(dtype) * 8;
    match dtype {
        // Mostly true, so that AND is not always false with many ranks.
        DType::BOOL => Value::Bool(!random.is_multiple_of(5)),
        DType::INT8 | DType::INT16 | DType::INT32 | DType::INT64 => {
            let wide = i128::from(random.cast_signed());
            Value::Int(wide << (128 - bits) >> (128 - bits))
        }
        DType::UINT8 | DType::UINT16 | DType::UINT32 | DType::UINT64 => {
            Value::Int((u128::from(random) & (u128::MAX >> (128 - bits))).cast_signed())
        }
        _ if op == RedOp::PROD => Value::Float([1.0, 2.0, -1.0, 1.0][(random % 4) as usize]),
        _ => Value::Float((random % 15) as f64 - 7.0),
    }
}

/// The bytes of a value.
pub(crate) fn encode(dtype: DType, value: Value, out: &mut Vec<u8>) {
    match value {
        Value::Int(value) => out.extend_from_slice(&value.to_le_bytes()[..size(dtype)]),
        Value::Bool(value) => out.push(value.into()),
        Value::Float(value) => match dtype {
            DType::FLOAT32 => out.extend_from_slice(&(value as f32).to_le_bytes()),
            DType::FLOAT64 => out.extend_from_slice(&value.to_le_bytes()),
            _ => out.extend_from_slice(&encode_small(dtype, value).to_le_bytes()[..size(dtype)]),
        },
    }
}

/// The reduction of all ranks' values.
pub(crate) fn combine(dtype: DType, op: RedOp, values: &[Value]) -> Value {
    let ints = || {
        values
            .iter()
            .map(|value| if let Value::Int(value) = value { *value } else { 0 })
    };
    let floats = || {
        values.iter().map(|value| {
            if let Value::Float(value) = value {
                *value
            } else {
                0.0
            }
        })
    };
    let bits = size(dtype) * 8;
    let wrap = |a: i128, b: i128, product: bool| {
        let wide = if product {
            a.wrapping_mul(b)
        } else {
            a.wrapping_add(b)
        };
        wide & i128::MAX >> (127 - bits)
    };
    match (values[0], op) {
        (Value::Bool(_), RedOp::SUM | RedOp::MAX) => Value::Bool(values.contains(&Value::Bool(true))),
        (Value::Bool(_), _) => Value::Bool(!values.contains(&Value::Bool(false))),
        (Value::Int(_), RedOp::SUM) => Value::Int(ints().fold(0, |a, b| wrap(a, b, false))),
        (Value::Int(_), RedOp::PROD) => Value::Int(ints().fold(1, |a, b| wrap(a, b, true))),
        (Value::Int(_), RedOp::MAX) => Value::Int(ints().max().expect("values")),
        (Value::Int(_), RedOp::MIN) => Value::Int(ints().min().expect("values")),
        (Value::Int(_), _) => Value::Int(ints().sum::<i128>() / i128::try_from(values.len()).expect("few")),
        (Value::Float(_), RedOp::SUM) => Value::Float(floats().sum()),
        (Value::Float(_), RedOp::PROD) => Value::Float(floats().product()),
        (Value::Float(_), RedOp::MAX) => Value::Float(floats().fold(f64::MIN, f64::max)),
        (Value::Float(_), RedOp::MIN) => Value::Float(floats().fold(f64::MAX, f64::min)),
        (Value::Float(_), _) => Value::Float(floats().sum::<f64>() / values.len() as f64),
    }
}

/// Compares a result; the mean of floats may be off by the rounding of its factor.
pub(crate) fn assert_equal(dtype: DType, op: RedOp, got: &[u8], expected: Value, place: &dyn Fn() -> String) {
    let mut bytes = Vec::with_capacity(8);
    encode(dtype, expected, &mut bytes);
    if got == bytes {
        return;
    }
    if let (RedOp::AVG, Value::Float(mean)) = (op, expected) {
        let (value, bound) = match dtype {
            DType::FLOAT32 => (
                f64::from(f32::from_le_bytes(got.try_into().expect("4 bytes"))),
                2.4e-7,
            ),
            DType::FLOAT64 => (f64::from_le_bytes(got.try_into().expect("8 bytes")), 4.5e-16),
            _ => (f64::NAN, 0.0),
        };
        if (value - mean).abs() <= bound * mean.abs() {
            return;
        }
    }
    panic!(
        "{}: got {got:02x?}, expected {expected:?} = {bytes:02x?}",
        place()
    );
}

#[test]
fn small_floats_are_what_their_standards_say() {
    assert_eq!(encode_small(DType::FLOAT8_E4M3, 448.0), 0x7e);
    assert_eq!(encode_small(DType::FLOAT8_E4M3, 1e9), 0x7e);
    assert_eq!(encode_small(DType::FLOAT8_E5M2, 57344.0), 0x7b);
    assert_eq!(encode_small(DType::FLOAT16, -2.0), 0xc000);
    assert_eq!(encode_small(DType::BFLOAT16, 1.0), 0x3f80);
    // 17 lies between 16 and 18 in E4M3; the even code is that of 16.
    assert_eq!(
        decode(encode_small(DType::FLOAT8_E4M3, 17.0), (4, 3, false)),
        Some(16.0)
    );
}
