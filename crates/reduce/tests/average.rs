//! AVG on cases whose right value is known beforehand, direct and in stages through wide elements.

use half::{bf16, f16};
use infiniccl_reduce::{
    DataType, Element, F8E4M3, F8E5M2, Factors, Input, ReduceOp, avg_factors, mean, narrow_mean, reduce,
    wide_type, widen,
};

/// The mean of one element per rank, with all inputs at hand.
fn direct<T: Element>(values: &[T]) -> T {
    let inputs: Vec<_> = values
        .iter()
        .map(|value| std::ptr::from_ref(value).cast::<u8>())
        .collect();
    let mut result = values[0];
    // SAFETY: every pointer is that of one element.
    unsafe { mean(T::DTYPE, std::ptr::from_mut(&mut result).cast(), &inputs, 1) }.expect("a defined mean");
    result
}

/// The mean of one element per rank, with one partial sum handed from rank to rank.
fn staged<T: Element>(values: &[T]) -> T {
    let n = values.len() as u64;
    let mut result = values[0];
    let dst = std::ptr::from_mut(&mut result).cast::<u8>();
    // SAFETY: elements are one each, and wide ones have their own length.
    unsafe {
        if let Some(wide) = wide_type(T::DTYPE, n) {
            let mut sum = vec![0u8; wide.bytes()];
            let mut own = vec![0u8; wide.bytes()];
            for (rank, value) in values.iter().enumerate() {
                let part = if rank == 0 { &mut sum } else { &mut own };
                widen(
                    T::DTYPE,
                    n,
                    part.as_mut_ptr(),
                    std::ptr::from_ref(value).cast(),
                    1,
                )
                .expect("widens");
                if rank > 0 {
                    let pair = [sum.as_ptr(), own.as_ptr()].map(|ptr| Input { ptr, pre: false });
                    let lane = wide.lane_type();
                    reduce(
                        lane,
                        ReduceOp::Sum,
                        sum.as_mut_ptr(),
                        &pair,
                        wide.lanes(),
                        Factors::NONE,
                    )
                    .expect("adds");
                }
            }
            narrow_mean(T::DTYPE, n, dst, sum.as_ptr(), 1).expect("narrows");
        } else {
            let whole = avg_factors(n);
            let first = [Input { ptr: dst, pre: true }];
            let only_pre = Factors { post: 1.0, ..whole };
            reduce(T::DTYPE, ReduceOp::Sum, dst, &first, 1, only_pre).expect("scales");
            for (rank, value) in values.iter().enumerate().skip(1) {
                let last = rank + 1 == values.len();
                let pair = [
                    Input { ptr: dst, pre: false },
                    Input {
                        ptr: std::ptr::from_ref(value).cast(),
                        pre: true,
                    },
                ];
                reduce(
                    T::DTYPE,
                    ReduceOp::Sum,
                    dst,
                    &pair,
                    1,
                    if last { whole } else { only_pre },
                )
                .expect("adds");
            }
        }
    }
    result
}

fn check<T: Element + PartialEq + std::fmt::Debug>(values: &[T], expected: T) {
    assert_eq!(
        direct(values),
        expected,
        "direct mean of {} {}",
        values.len(),
        T::DTYPE
    );
    assert_eq!(
        staged(values),
        expected,
        "staged mean of {} {}",
        values.len(),
        T::DTYPE
    );
}

#[test]
fn two_four_and_six_average_to_four_in_every_type() {
    check([2i8, 4, 6].as_slice(), 4);
    check([2i16, 4, 6].as_slice(), 4);
    check([2i32, 4, 6].as_slice(), 4);
    check([2i64, 4, 6].as_slice(), 4);
    check([2u8, 4, 6].as_slice(), 4);
    check([2u16, 4, 6].as_slice(), 4);
    check([2u32, 4, 6].as_slice(), 4);
    check([2u64, 4, 6].as_slice(), 4);
    check([2f32, 4.0, 6.0].as_slice(), 4.0);
    check([2f64, 4.0, 6.0].as_slice(), 4.0);
    check([2.0, 4.0, 6.0].map(f16::from_f32).as_slice(), f16::from_f32(4.0));
    check(
        [2.0, 4.0, 6.0].map(bf16::from_f32).as_slice(),
        bf16::from_f32(4.0),
    );
    check(
        [2.0, 4.0, 6.0].map(F8E4M3::from_f32).as_slice(),
        F8E4M3::from_f32(4.0),
    );
    check(
        [2.0, 4.0, 6.0].map(F8E5M2::from_f32).as_slice(),
        F8E5M2::from_f32(4.0),
    );
}

#[test]
fn integer_sums_beyond_the_type_stay_exact() {
    check([120i8, 121, 122].as_slice(), 121);
    check([-120i8, -121, -122].as_slice(), -121);
    check([255u8; 300].as_slice(), 255);
    check([i32::MAX, i32::MAX, i32::MAX - 3].as_slice(), i32::MAX - 1);
    check([u32::MAX; 5].as_slice(), u32::MAX);
    check(
        [(1u64 << 53) + 1, (1 << 53) + 3, (1 << 53) + 8].as_slice(),
        (1 << 53) + 4,
    );
    check([u64::MAX, u64::MAX, u64::MAX - 5].as_slice(), u64::MAX - 2);
}

#[test]
fn means_of_integers_are_truncated_toward_zero() {
    check([-1i8, -2].as_slice(), -1);
    check([-7i32, 0, 0].as_slice(), -2);
    check([-1i64, 0].as_slice(), 0);
    check([-1i64, -2].as_slice(), -1);
    check([1i64, 2].as_slice(), 1);
    check([i64::MIN, i64::MIN].as_slice(), i64::MIN);
    check([i64::MIN, i64::MIN, i64::MIN + 1].as_slice(), i64::MIN + 1);
    check([i64::MAX, i64::MAX, i64::MAX - 1].as_slice(), i64::MAX - 1);
    check([i64::MIN, i64::MAX].as_slice(), 0);
    check([i64::MIN, i64::MAX, -2].as_slice(), -1);
}

/// Exact with all inputs at hand; handed from rank to rank, each hop may round a partial sum by half a unit in the
/// last of `digits` binary places.
fn nearly<T: Element + PartialEq + std::fmt::Debug>(
    values: &[T],
    expected: T,
    digits: i32,
    to_f64: fn(T) -> f64,
) {
    assert_eq!(
        direct(values),
        expected,
        "direct mean of {} {}",
        values.len(),
        T::DTYPE
    );
    let error = to_f64(staged(values)) / to_f64(expected) - 1.0;
    let bound = values.len() as f64 * f64::powi(2.0, -digits);
    assert!(
        error.abs() <= bound,
        "staged mean of {} {} is off by {error}",
        values.len(),
        T::DTYPE
    );
}

#[test]
fn means_of_floats_do_not_overflow() {
    for ranks in [2, 3, 10, 16] {
        nearly(
            &vec![f16::from_f32(60000.0); ranks],
            f16::from_f32(60000.0),
            11,
            f64::from,
        );
        nearly(&vec![bf16::MAX; ranks], bf16::MAX, 8, f64::from);
        nearly(&vec![F8E4M3::MAX; ranks], F8E4M3::MAX, 4, |value| {
            value.to_f32().into()
        });
    }
    check([f32::MAX; 4].as_slice(), f32::MAX);
    check([f64::MAX; 8].as_slice(), f64::MAX);
}

#[test]
fn bool_has_no_mean() {
    let mut byte = 7u8;
    let dst = std::ptr::from_mut(&mut byte);
    // SAFETY: refused before anything is touched.
    let refused = unsafe { mean(DataType::Bool, dst, &[dst.cast_const()], 1) };
    assert_eq!(refused.expect_err("no mean of bool").dtype, DataType::Bool);
    assert_eq!(byte, 7);
}
