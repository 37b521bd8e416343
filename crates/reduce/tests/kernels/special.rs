//! NaN, signed zeros, infinities, wrapping and logical values, one by one.

use half::{bf16, f16};
use infiniccl_reduce::{DataType, Element, F8E4M3, F8E5M2, Factors, Input, ReduceOp, reduce};

use crate::on_each_isa;

/// The bytes of the reduction of single elements, repeated so that vector code sees them too.
fn reduced<T: Element>(op: ReduceOp, values: &[T]) -> Vec<u8> {
    const REPEATS: usize = 40;
    let size = size_of::<T>();
    let buffers: Vec<Vec<T>> = values.iter().map(|&value| vec![value; REPEATS]).collect();
    let inputs: Vec<_> = buffers
        .iter()
        .map(|buffer| Input {
            ptr: buffer.as_ptr().cast(),
            pre: false,
        })
        .collect();
    let mut results = vec![0xffu8; REPEATS * size];
    // SAFETY: all buffers hold as many elements.
    unsafe {
        reduce(
            T::DTYPE,
            op,
            results.as_mut_ptr(),
            &inputs,
            REPEATS,
            Factors::NONE,
        )
    }
    .expect("a reduction");
    let first = results[..size].to_vec();
    assert!(
        results.chunks(size).all(|element| element == first),
        "equal elements differ in their results"
    );
    first
}

/// Checks a result whatever the order of the two operands.
#[track_caller]
fn check<T: Element>(op: ReduceOp, [a, b]: [T; 2], bytes: &[u8]) {
    on_each_isa(|isa| {
        assert_eq!(reduced(op, &[a, b]), bytes, "{} {op} on {isa}", T::DTYPE);
        assert_eq!(reduced(op, &[b, a]), bytes, "{} {op} swapped on {isa}", T::DTYPE);
    });
}

#[test]
fn nan_wins_in_every_operator_and_comes_out_canonical() {
    for &op in &ReduceOp::ALL[..4] {
        for bits in [0x7f80_0001, 0xff80_0001, 0x7fff_ffff, 0xffc0_0000u32] {
            for other in [1.5, f32::INFINITY, f32::NEG_INFINITY, 0.0, f32::NAN] {
                check(op, [f32::from_bits(bits), other], &0x7fc0_0000u32.to_le_bytes());
                let payload = u64::from(bits & 0x807f_ffff);
                let double = f64::from_bits((payload << 32) | f64::INFINITY.to_bits() | 1);
                check(
                    op,
                    [double, other.into()],
                    &0x7ff8_0000_0000_0000u64.to_le_bytes(),
                );
                check(
                    op,
                    [bf16::from_bits((bits >> 16) as u16 | 1), bf16::from_f32(other)],
                    &0x7fc0u16.to_le_bytes(),
                );
            }
        }
        for bits in [0x7c01, 0xfc01, 0x7fff, 0xfe00] {
            check(
                op,
                [f16::from_bits(bits), f16::from_f32(-3.0)],
                &0x7e00u16.to_le_bytes(),
            );
        }
        for bits in [0x7f, 0xff] {
            check(op, [F8E4M3::from_bits(bits), F8E4M3::from_f32(-3.0)], &[0x7f]);
        }
        for bits in [0x7d, 0x7e, 0x7f, 0xfd, 0xfe, 0xff] {
            check(op, [F8E5M2::from_bits(bits), F8E5M2::from_f32(448.0)], &[0x7e]);
        }
    }
}

#[test]
fn nan_of_a_middle_input_survives_many() {
    on_each_isa(|isa| {
        for op in [ReduceOp::Max, ReduceOp::Min, ReduceOp::Sum, ReduceOp::Prod] {
            for at in 0..6 {
                let mut values = [1.0f32, -2.0, 3.0, f32::INFINITY, 5.0, -6.0];
                values[at] = -f32::NAN;
                assert_eq!(
                    reduced(op, &values),
                    0x7fc0_0000u32.to_le_bytes(),
                    "{op}, rank {at}, {isa}"
                );
            }
        }
    });
}

#[test]
fn negative_zero_is_below_positive_zero() {
    check(ReduceOp::Max, [0.0f32, -0.0], &0.0f32.to_le_bytes());
    check(ReduceOp::Min, [0.0f32, -0.0], &(-0.0f32).to_le_bytes());
    check(ReduceOp::Max, [0.0f64, -0.0], &0.0f64.to_le_bytes());
    check(ReduceOp::Min, [0.0f64, -0.0], &(-0.0f64).to_le_bytes());
    check(
        ReduceOp::Max,
        [f16::from_bits(0), f16::from_bits(0x8000)],
        &[0, 0],
    );
    check(
        ReduceOp::Min,
        [f16::from_bits(0), f16::from_bits(0x8000)],
        &[0, 0x80],
    );
    check(
        ReduceOp::Max,
        [bf16::from_bits(0), bf16::from_bits(0x8000)],
        &[0, 0],
    );
    check(
        ReduceOp::Min,
        [bf16::from_bits(0), bf16::from_bits(0x8000)],
        &[0, 0x80],
    );
    check(
        ReduceOp::Max,
        [F8E4M3::from_bits(0), F8E4M3::from_bits(0x80)],
        &[0],
    );
    check(
        ReduceOp::Min,
        [F8E5M2::from_bits(0), F8E5M2::from_bits(0x80)],
        &[0x80],
    );
    check(ReduceOp::Sum, [0.0f32, -0.0], &0.0f32.to_le_bytes());
    check(ReduceOp::Sum, [-0.0f32, -0.0], &(-0.0f32).to_le_bytes());
}

#[test]
fn opposite_infinities_are_nan_and_fp8_saturates() {
    check(
        ReduceOp::Sum,
        [f32::INFINITY, f32::NEG_INFINITY],
        &0x7fc0_0000u32.to_le_bytes(),
    );
    check(
        ReduceOp::Prod,
        [f64::INFINITY, 0.0],
        &0x7ff8_0000_0000_0000u64.to_le_bytes(),
    );
    check(ReduceOp::Sum, [f16::MAX, f16::MAX], &0x7c00u16.to_le_bytes());
    check(ReduceOp::Sum, [bf16::MIN, bf16::MIN], &0xff80u16.to_le_bytes());
    check(ReduceOp::Sum, [F8E4M3::MAX, F8E4M3::MAX], &[0x7e]);
    check(ReduceOp::Prod, [F8E4M3::from_f32(-448.0), F8E4M3::MAX], &[0xfe]);
    check(ReduceOp::Sum, [F8E5M2::MAX, F8E5M2::MAX], &[0x7b]);
    let infinity = F8E5M2::from_bits(0x7c);
    check(ReduceOp::Sum, [infinity, F8E5M2::from_f32(1.0)], &[0x7b]);
    check(ReduceOp::Max, [infinity, F8E5M2::from_f32(1.0)], &[0x7b]);
    check(
        ReduceOp::Min,
        [F8E5M2::from_bits(0xfc), F8E5M2::from_f32(1.0)],
        &[0xfb],
    );
    check(ReduceOp::Sum, [infinity, F8E5M2::from_bits(0xfc)], &[0x7e]);
}

#[test]
fn integers_wrap_and_bools_are_logical() {
    check(ReduceOp::Sum, [120i8, 100], &[220]);
    check(ReduceOp::Prod, [16u8, 16], &[0]);
    check(ReduceOp::Prod, [0x4000_0001i32, 6], &0x8000_0006u32.to_le_bytes());
    check(ReduceOp::Sum, [i64::MIN, i64::MIN], &0i64.to_le_bytes());
    check(ReduceOp::Max, [-1i64, 1], &1i64.to_le_bytes());
    check(ReduceOp::Max, [u64::MAX, 1], &u64::MAX.to_le_bytes());
    check(ReduceOp::Sum, [true, false], &[1]);
    check(ReduceOp::Max, [true, false], &[1]);
    check(ReduceOp::Prod, [true, false], &[0]);
    check(ReduceOp::Min, [true, true], &[1]);
    on_each_isa(|isa| {
        let mut results = [7u8; 3];
        let bytes = [0x80u8, 0, 2];
        let inputs = [Input {
            ptr: bytes.as_ptr(),
            pre: false,
        }; 257];
        for count in [1, 2, 257] {
            // SAFETY: every input holds three bytes.
            unsafe {
                reduce(
                    DataType::Bool,
                    ReduceOp::Sum,
                    results.as_mut_ptr(),
                    &inputs[..count],
                    3,
                    Factors::NONE,
                )
            }
            .expect("a reduction");
            assert_eq!(results, [1, 0, 1], "{count} inputs on {isa}");
        }
    });
}

#[test]
fn results_of_the_four_operators_differ() {
    for (op, wanted) in [
        (ReduceOp::Sum, 12u8),
        (ReduceOp::Prod, 42),
        (ReduceOp::Max, 7),
        (ReduceOp::Min, 2),
    ] {
        assert_eq!(reduced(op, &[2u8, 3, 7]), [wanted]);
        assert_eq!(reduced(op, &[2.0f32, 3.0, 7.0]), f32::from(wanted).to_le_bytes());
    }
}

#[test]
fn sums_of_floats_run_from_left_to_right_and_round_halves_once() {
    on_each_isa(|isa| {
        assert_eq!(
            reduced(ReduceOp::Sum, &[1e20f32, -1e20, 3.0]),
            3f32.to_le_bytes(),
            "{isa}"
        );
        assert_eq!(
            reduced(ReduceOp::Sum, &[3f32, 1e20, -1e20]),
            0f32.to_le_bytes(),
            "{isa}"
        );
        // Rounded after each term, the ones would be lost: the spacing of binary16 at 2048 is 2.
        let values = [2048.0, 1.0, 1.0, 1.0, 1.0].map(f16::from_f32);
        assert_eq!(
            reduced(ReduceOp::Sum, &values),
            f16::from_f32(2052.0).to_bits().to_le_bytes(),
            "{isa}"
        );
        let values = [256.0, 1.0, 1.0, 1.0, 1.0].map(bf16::from_f32);
        assert_eq!(
            reduced(ReduceOp::Sum, &values),
            bf16::from_f32(260.0).to_bits().to_le_bytes(),
            "{isa}"
        );
    });
}

#[test]
fn avg_is_refused_as_a_fold_and_writes_nothing() {
    for &dtype in DataType::ALL {
        let mut dst = [0x5au8; 16];
        let input = [Input {
            ptr: [1u8; 16].as_ptr(),
            pre: false,
        }];
        // SAFETY: refused before anything is touched.
        let refused = unsafe { reduce(dtype, ReduceOp::Avg, dst.as_mut_ptr(), &input, 2, Factors::NONE) };
        let refused = refused.expect_err("no fold").to_string();
        assert!(
            refused.contains("avg") && refused.contains(dtype.name()),
            "{refused}"
        );
        assert_eq!(dst, [0x5a; 16]);
    }
}

#[test]
fn no_elements_need_no_memory() {
    let nowhere = Input {
        ptr: std::ptr::null(),
        pre: false,
    };
    for &dtype in DataType::ALL {
        for &op in &ReduceOp::ALL[..4] {
            for inputs in [&[nowhere][..], &[nowhere; 2], &[nowhere; 5]] {
                // SAFETY: nothing is read or written.
                unsafe { reduce(dtype, op, std::ptr::null_mut(), inputs, 0, Factors::NONE) }
                    .expect("a reduction");
            }
        }
    }
}
