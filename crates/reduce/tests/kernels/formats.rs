//! Conversions: all codes of the small formats, and every place where rounding turns.

use infiniccl_reduce::{DataType, Element, F8E4M3, F8E5M2, ReduceOp};

use crate::arena::{Case, Placed};
use crate::oracle;

fn all_codes(dtype: DataType) -> Vec<u8> {
    let codes = 1u64 << (8 * dtype.size());
    (0..codes)
        .flat_map(|code| code.to_le_bytes()[..dtype.size()].to_vec())
        .collect()
}

const SMALL: [DataType; 4] = [
    DataType::Float16,
    DataType::BFloat16,
    DataType::Float8E4M3,
    DataType::Float8E5M2,
];

#[test]
fn every_code_is_read_and_written_exactly() {
    for dtype in SMALL {
        let codes = all_codes(dtype);
        let count = codes.len() / dtype.size();
        // Negative zero changes no sum.
        let zeros = oracle::encode(dtype, -0.0).repeat(count);
        let case = Case::new(dtype, ReduceOp::Sum, vec![codes.clone(), zeros]);
        for (code, result) in codes
            .chunks(dtype.size())
            .zip(case.expected().chunks(dtype.size()))
        {
            let value = oracle::decode(dtype, code);
            let saturated = dtype == DataType::Float8E5M2 && value.is_infinite();
            assert!(
                value.is_nan() || saturated || code == result,
                "{dtype}: the oracle changes {code:?}"
            );
        }
        case.check(Placed {
            count,
            ..Placed::default()
        });
    }
}

/// Every 32-bit float at which the nearest code changes, with the floats next to it.
fn turning_points(dtype: DataType) -> impl Iterator<Item = f32> {
    let size = dtype.size();
    let magnitudes = 0..1u64 << (8 * size - 1);
    let values = magnitudes.map(move |code| oracle::decode(dtype, &code.to_le_bytes()[..size]));
    let finite: Vec<f64> = values.filter(|value| value.is_finite()).collect();
    let beyond = 2.0 * finite[finite.len() - 1] - finite[finite.len() - 2];
    let next = finite.clone().into_iter().skip(1).chain([beyond]);
    let middles: Vec<f32> = finite
        .into_iter()
        .zip(next)
        .map(|(a, b)| ((a + b) / 2.0) as f32)
        .collect();
    middles
        .into_iter()
        .flat_map(|middle| [middle.next_down(), middle, middle.next_up()])
}

#[test]
fn fp8_conversions_match_the_definition() {
    for code in 0..=u8::MAX {
        let value = oracle::decode(DataType::Float8E4M3, &[code]);
        let read = F8E4M3::from_bits(code).to_f32();
        assert!(
            f64::from(read).total_cmp(&value).is_eq() || read.is_nan() && value.is_nan(),
            "e4m3 {code:#x}"
        );
        let value = oracle::decode(DataType::Float8E5M2, &[code]);
        let read = F8E5M2::from_bits(code).to_f32();
        assert!(
            f64::from(read).total_cmp(&value).is_eq() || read.is_nan() && value.is_nan(),
            "e5m2 {code:#x}"
        );
    }
    let large = [
        f32::INFINITY,
        f32::MAX,
        1e9,
        65536.0,
        61440.0,
        464.0,
        480.0,
        f32::NAN,
        f32::MIN_POSITIVE,
        1e-40,
        0.0,
    ];
    for dtype in [DataType::Float8E4M3, DataType::Float8E5M2] {
        for value in turning_points(dtype)
            .chain(large)
            .flat_map(|value| [value, -value])
        {
            let code = match dtype {
                DataType::Float8E4M3 => F8E4M3::from_f32(value).to_bits(),
                _ => F8E5M2::from_f32(value).to_bits(),
            };
            assert_eq!(
                [code][..],
                oracle::encode(dtype, value.into()),
                "{dtype} of {value:e}"
            );
        }
    }
    assert_eq!(F8E4M3::from_f32(f32::INFINITY), F8E4M3::MAX);
    assert_eq!(F8E5M2::from_f32(f32::INFINITY), F8E5M2::MAX);
    assert_eq!(format!("{:?}", F8E4M3::from_f32(-1.5)), "-1.5");
}

#[test]
fn rounding_turns_where_the_definition_says() {
    // A turning point has one bit more than the format: it is the sum of two codes, one of them half a unit.
    for dtype in [DataType::Float16, DataType::BFloat16] {
        let codes = all_codes(dtype);
        let count = codes.len() / 2;
        for exponent in [-24, -3, 0, 5, 119] {
            let unit = oracle::encode(dtype, f64::powi(2.0, exponent));
            let little = oracle::encode(dtype, f64::powi(2.0, exponent - 8));
            let mut inputs = vec![codes.clone(), unit.repeat(count)];
            Case::new(dtype, ReduceOp::Sum, inputs.clone()).check(Placed {
                count,
                ..Placed::default()
            });
            inputs.push(little.repeat(count));
            Case::new(dtype, ReduceOp::Sum, inputs).check(Placed {
                count,
                ..Placed::default()
            });
        }
    }
}

#[test]
fn elements_name_their_types() {
    fn element<T: Element>(dtype: DataType) {
        assert_eq!((T::DTYPE, size_of::<T>()), (dtype, dtype.size()));
    }
    element::<i8>(DataType::Int8);
    element::<i16>(DataType::Int16);
    element::<i32>(DataType::Int32);
    element::<i64>(DataType::Int64);
    element::<u8>(DataType::Uint8);
    element::<u16>(DataType::Uint16);
    element::<u32>(DataType::Uint32);
    element::<u64>(DataType::Uint64);
    element::<half::f16>(DataType::Float16);
    element::<half::bf16>(DataType::BFloat16);
    element::<f32>(DataType::Float32);
    element::<f64>(DataType::Float64);
    element::<F8E4M3>(DataType::Float8E4M3);
    element::<F8E5M2>(DataType::Float8E5M2);
    element::<bool>(DataType::Bool);
}
