//! AVG, with all inputs at hand and in stages through wide elements.

use half::{bf16, f16};
use infiniccl_reduce::{
    DataType, Element, F8E4M3, F8E5M2, Factors, Input, MAX_RANKS, ReduceOp, Wide, avg_factors, mean,
    narrow_mean, reduce, wide_type, widen,
};

use crate::{on_each_isa, oracle, values};

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

/// The exact mean of one column, truncated toward zero.
fn mean_of_integers(dtype: DataType, column: &[&[u8]]) -> Vec<u8> {
    let sum: i128 = column.iter().map(|element| oracle::integer(dtype, element)).sum();
    oracle::wrapped(dtype, sum / column.len() as i128)
}

#[test]
fn means_of_any_data_match_the_oracle_on_every_instruction_set() {
    const COUNT: usize = 70;
    on_each_isa(|isa| {
        for dtype in DataType::ALL
            .iter()
            .copied()
            .filter(|&dtype| dtype != DataType::Bool)
        {
            for ranks in [1, 2, 3, 4, 7, 16, 17, 33] {
                let buffers: Vec<_> = (0..ranks)
                    .map(|rank| values::elements(dtype, rank, COUNT))
                    .collect();
                let size = dtype.size();
                let column = |index: usize| -> Vec<&[u8]> {
                    buffers
                        .iter()
                        .map(|buffer| &buffer[index * size..][..size])
                        .collect()
                };
                let all = vec![true; ranks];
                let factors = avg_factors(ranks as u64);
                let wanted: Vec<u8> = (0..COUNT)
                    .flat_map(|index| match dtype.is_float() {
                        true => oracle::reduce(dtype, ReduceOp::Sum, &column(index), &all, factors),
                        false => mean_of_integers(dtype, &column(index)),
                    })
                    .collect();
                let mut inputs: Vec<_> = buffers.iter().map(|buffer| buffer.as_ptr()).collect();
                for count in [0, 1, 2, 15, 33, COUNT] {
                    let bytes = count * size;
                    let mut results = vec![0xcc; COUNT * size];
                    // SAFETY: every buffer holds `COUNT` elements.
                    unsafe { mean(dtype, results.as_mut_ptr(), &inputs, count) }.expect("a defined mean");
                    assert_eq!(
                        results[..bytes],
                        wanted[..bytes],
                        "{dtype} of {ranks}, {count} elements, {isa}"
                    );
                    assert!(
                        results[bytes..].iter().all(|&byte| byte == 0xcc),
                        "{dtype} of {ranks}: too many"
                    );
                }
                let mut shared = buffers[ranks / 2].clone();
                inputs[ranks / 2] = shared.as_ptr();
                // SAFETY: as above; the destination is one of the inputs.
                unsafe { mean(dtype, shared.as_mut_ptr(), &inputs, COUNT) }.expect("a defined mean");
                assert_eq!(shared, wanted, "{dtype} of {ranks} in place, {isa}");
            }
        }
    });
}

#[test]
fn wide_sums_of_any_data_match_the_oracle_on_every_instruction_set() {
    const COUNT: usize = 70;
    on_each_isa(|isa| {
        for dtype in DataType::ALL.iter().copied().filter(|dtype| dtype.is_integer()) {
            for ranks in [1usize, 2, 3, 7, 12] {
                let n = ranks as u64;
                let wide = wide_type(dtype, n).expect("a wide type of integers");
                let buffers: Vec<_> = (0..ranks)
                    .map(|rank| values::elements(dtype, rank, COUNT))
                    .collect();
                let mut parts = vec![vec![0u8; COUNT * wide.bytes()]; ranks];
                let mut sum = vec![0u8; COUNT * wide.bytes()];
                // One byte off every alignment.
                let mut results = vec![0u8; COUNT * dtype.size() + 1];
                // SAFETY: every buffer holds `COUNT` elements, wide ones where they are wanted.
                unsafe {
                    for (part, buffer) in parts.iter_mut().zip(&buffers) {
                        widen(dtype, n, part.as_mut_ptr(), buffer.as_ptr(), COUNT).expect("widens");
                    }
                    let inputs: Vec<_> = parts
                        .iter()
                        .map(|part| Input {
                            ptr: part.as_ptr(),
                            pre: false,
                        })
                        .collect();
                    let lanes = COUNT * wide.lanes();
                    reduce(
                        wide.lane_type(),
                        ReduceOp::Sum,
                        sum.as_mut_ptr(),
                        &inputs,
                        lanes,
                        Factors::NONE,
                    )
                    .expect("adds");
                    narrow_mean(dtype, n, results[1..].as_mut_ptr(), sum.as_ptr(), COUNT).expect("narrows");
                }
                for (index, result) in results[1..].chunks(dtype.size()).enumerate() {
                    let size = dtype.size();
                    let column: Vec<_> = buffers
                        .iter()
                        .map(|buffer| &buffer[index * size..][..size])
                        .collect();
                    assert_eq!(
                        result,
                        mean_of_integers(dtype, &column),
                        "{dtype} of {ranks} at {index}, {isa}"
                    );
                }
            }
        }
    });
}

#[test]
fn wide_sums_hold_the_extremes_of_as_many_ranks_as_they_promise() {
    for dtype in DataType::ALL.iter().copied().filter(|dtype| dtype.is_integer()) {
        let bits = 8 * dtype.size() as u32;
        let signed = oracle::integer(dtype, &vec![0xff; dtype.size()]) < 0;
        let (smallest, largest) = if signed {
            (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
        } else {
            (0, (1i128 << bits) - 1)
        };
        for n in [1, 2, 3, 1 << 15, (1 << 15) + 1, MAX_RANKS - 1, MAX_RANKS] {
            let wide = wide_type(dtype, n).expect("a wide type of integers");
            for value in [smallest, smallest + 1, -1, 0, 1, largest - 1, largest] {
                if !(smallest..=largest).contains(&value) {
                    continue;
                }
                let element = oracle::wrapped(dtype, value);
                let mut lanes = vec![0u8; wide.bytes()];
                let mut result = vec![0u8; dtype.size()];
                // SAFETY: one element each.
                unsafe { widen(dtype, n, lanes.as_mut_ptr(), element.as_ptr(), 1) }.expect("widens");
                for lane in lanes.chunks_mut(wide.lane_type().size()) {
                    let sum = oracle::integer(wide.lane_type(), lane) * i128::from(n);
                    lane.copy_from_slice(&oracle::wrapped(wide.lane_type(), sum));
                    assert_eq!(
                        oracle::integer(wide.lane_type(), lane),
                        sum,
                        "{dtype}: {n} times {value} overflows"
                    );
                }
                // SAFETY: as above.
                unsafe { narrow_mean(dtype, n, result.as_mut_ptr(), lanes.as_ptr(), 1) }.expect("narrows");
                assert_eq!(
                    oracle::integer(dtype, &result),
                    value,
                    "{dtype}: the mean of {n} times {value}"
                );
            }
        }
    }
}

#[test]
fn wide_elements_are_for_integers_and_possible_numbers_of_ranks() {
    for &dtype in DataType::ALL {
        assert_eq!(wide_type(dtype, 4).is_some(), dtype.is_integer(), "{dtype}");
        assert_eq!(wide_type(dtype, 0), None);
        assert_eq!(wide_type(dtype, MAX_RANKS + 1), None);
    }
    for (wide, bytes, lanes) in [
        (Wide::Int32, 4, 1),
        (Wide::Int64, 8, 1),
        (Wide::PairInt64, 16, 2),
        (Wide::PairUint64, 16, 2),
    ] {
        assert_eq!((wide.bytes(), wide.lanes()), (bytes, lanes), "{wide:?}");
    }
    let mut target = [5u8; 16];
    let source = [1u8; 16];
    // SAFETY: refused before anything is touched.
    unsafe {
        widen(DataType::Float32, 2, target.as_mut_ptr(), source.as_ptr(), 1).expect_err("no wide floats");
        narrow_mean(DataType::Bool, 2, target.as_mut_ptr(), source.as_ptr(), 1).expect_err("no wide bools");
        widen(DataType::Int8, 0, target.as_mut_ptr(), source.as_ptr(), 1).expect_err("no ranks");
    }
    assert_eq!(target, [5; 16]);
}

#[test]
fn factors_of_a_mean_are_a_power_of_two_and_what_remains() {
    assert_eq!(avg_factors(1), Factors::NONE);
    assert_eq!(avg_factors(2), Factors { pre: 0.5, post: 1.0 });
    assert_eq!(
        avg_factors(3),
        Factors {
            pre: 0.25,
            post: 4.0 / 3.0
        }
    );
    assert_eq!(
        avg_factors(8),
        Factors {
            pre: 0.125,
            post: 1.0
        }
    );
    assert_eq!(
        avg_factors(9),
        Factors {
            pre: 0.0625,
            post: 16.0 / 9.0
        }
    );
    for n in 1..2000u64 {
        let Factors { pre, post } = avg_factors(n);
        assert!(pre * n as f64 <= 1.0 && (1.0..2.0).contains(&post), "{n}");
        assert!((pre * post * n as f64 - 1.0).abs() < 1e-15, "{n}");
    }
}
