//! What a combination of elements must give: exact bits, a number within a bound, or NaN.

use super::formats::{Format, format_of};
use super::{Dtype, Op, Values};

/// The right result of one element.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Want {
    /// These bits.
    Bits(u64),
    /// A number no further than `tolerance` from `value`; zeros of either sign are the same.
    Near {
        /// The exact result, or as near as a 64-bit float comes.
        value: f64,
        /// The largest distance allowed.
        tolerance: f64,
    },
    /// NaN, of any pattern.
    Nan,
}

/// Combines the elements of all ranks, given as bits.
///
/// # Panics
/// For the mean of bool, which is not defined.
pub fn combine(dtype: Dtype, op: Op, values: Values, inputs: &[u64]) -> Want {
    match format_of(dtype) {
        Some(format) => combine_floats(format, dtype, op, values, inputs),
        None if dtype == Dtype::Bool => Want::Bits(combine_bools(op, inputs)),
        None => Want::Bits(combine_integers(dtype, op, inputs)),
    }
}

fn combine_bools(op: Op, inputs: &[u64]) -> u64 {
    match op {
        Op::Sum | Op::Max => u64::from(inputs.iter().any(|&b| b != 0)),
        Op::Prod | Op::Min => u64::from(inputs.iter().all(|&b| b != 0)),
        Op::Avg => panic!("the mean of bool is not defined"),
    }
}

fn combine_integers(dtype: Dtype, op: Op, inputs: &[u64]) -> u64 {
    let numbers = inputs.iter().map(|&bits| integer(dtype, bits));
    let result = match op {
        Op::Sum => numbers.sum(),
        // Only the low bits of a factor matter to the low bits of a product.
        Op::Prod => numbers.fold(1i128, |a, b| i128::from((a as u64).wrapping_mul(b as u64))),
        Op::Max => numbers.max().unwrap_or(0),
        Op::Min => numbers.min().unwrap_or(0),
        Op::Avg => numbers.sum::<i128>() / inputs.len() as i128,
    };
    result as u64 & (u64::MAX >> (64 - 8 * dtype.size()))
}

/// The whole number that `bits` of an integer type stand for.
pub(super) fn integer(dtype: Dtype, bits: u64) -> i128 {
    match dtype {
        Dtype::Int8 => i128::from(bits as u8 as i8),
        Dtype::Int16 => i128::from(bits as u16 as i16),
        Dtype::Int32 => i128::from(bits as u32 as i32),
        Dtype::Int64 => i128::from(bits as i64),
        _ => i128::from(bits),
    }
}

fn combine_floats(format: Format, dtype: Dtype, op: Op, values: Values, inputs: &[u64]) -> Want {
    let numbers: Vec<f64> = inputs.iter().map(|&bits| format.decode(bits)).collect();
    if numbers.iter().any(|x| x.is_nan()) {
        return Want::Nan;
    }
    let n = numbers.len() as f64;
    let size: f64 = numbers.iter().map(|x| x.abs()).sum();
    let unit = format.unit_roundoff();
    let value = match op {
        // IEEE's total order has -0 before +0.
        Op::Max => {
            return Want::Bits(format.encode(numbers.into_iter().max_by(f64::total_cmp).unwrap_or(0.0)));
        }
        Op::Min => {
            return Want::Bits(format.encode(numbers.into_iter().min_by(f64::total_cmp).unwrap_or(0.0)));
        }
        Op::Sum => compensated_sum(&numbers),
        Op::Avg => mean(&numbers),
        Op::Prod => compensated_product(&numbers),
    };
    if value.is_nan() {
        return Want::Nan;
    }
    if value.is_infinite() || (value.abs() > format.largest() && format.infinity().is_some()) {
        return Want::Bits(format.encode(value));
    }
    // A mean of wide formats is one multiplication by a rounded factor, and so may miss by a unit.
    let factor_rounds = op == Op::Avg && !inputs.len().is_power_of_two();
    let wide = matches!(dtype, Dtype::Float32 | Dtype::Float64);
    let tolerance = match (values, op) {
        (Values::Exact, _) if factor_rounds && wide => 2.0 * unit * value.abs(),
        (Values::Exact, _) => 0.0,
        (_, Op::Prod) => n * unit * value.abs() + n * format.smallest(),
        (_, Op::Avg) => (n + 3.0) * unit * (size / n).min(f64::MAX) + 2.0 * n * format.smallest(),
        (_, _) => n * unit * size + n * format.smallest(),
    };
    Want::Near { value, tolerance }
}

/// The mean, also of numbers whose sum no 64-bit float holds.
fn mean(numbers: &[f64]) -> f64 {
    let largest = numbers.iter().fold(0.0, |a: f64, x| a.max(x.abs()));
    if largest.is_infinite() {
        return compensated_sum(numbers);
    }
    // Scaling by a power of two is exact for numbers that could overflow, and a mean lies between its numbers.
    let scale = if largest > 1e300 { 2f64.powi(-20) } else { 1.0 };
    let scaled: Vec<f64> = numbers.iter().map(|x| x * scale).collect();
    (compensated_sum(&scaled) / numbers.len() as f64 / scale).clamp(-largest, largest)
}

/// A product in which the rounding error of each step is carried along, so that the last one alone counts.
fn compensated_product(numbers: &[f64]) -> f64 {
    let (mut product, mut lost) = (1.0f64, 0.0f64);
    for &x in numbers {
        let next = product * x;
        lost = product.mul_add(x, -next) + lost * x;
        product = next;
    }
    if product.is_finite() && lost.is_finite() {
        product + lost
    } else {
        product
    }
}

/// A sum in which the rounding error of each step is added at the end, after Neumaier.
fn compensated_sum(numbers: &[f64]) -> f64 {
    let (mut sum, mut lost) = (0.0f64, 0.0f64);
    for &x in numbers {
        let next = sum + x;
        lost += if sum.abs() >= x.abs() {
            (sum - next) + x
        } else {
            (x - next) + sum
        };
        sum = next;
    }
    if sum.is_finite() { sum + lost } else { sum }
}

impl Want {
    /// Whether `bits` of `dtype` are right.
    pub(super) fn accepts(&self, dtype: Dtype, bits: u64) -> bool {
        match (*self, format_of(dtype)) {
            (Want::Bits(want), _) => bits == want,
            (Want::Nan, Some(format)) => format.decode(bits).is_nan(),
            (Want::Near { value, tolerance }, Some(format)) => {
                let got = format.decode(bits);
                // The nearest number of the type is right, however far from the exact result it lies.
                got == format.decode(format.encode(value)) || (got - value).abs() <= tolerance
            }
            (Want::Nan | Want::Near { .. }, None) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{encode_float, values::Contribution};
    use super::*;

    const FLOATS: [Dtype; 6] = [
        Dtype::Float16,
        Dtype::BFloat16,
        Dtype::Float32,
        Dtype::Float64,
        Dtype::Float8E4M3,
        Dtype::Float8E5M2,
    ];

    fn signed(values: &[i64]) -> Vec<u64> {
        values.iter().map(|&v| v as u64).collect()
    }

    #[test]
    fn the_mean_of_2_4_6_is_4_in_every_type() {
        for &dtype in Dtype::ALL.iter().filter(|d| d.supports(Op::Avg)) {
            let bits = |v: u32| {
                if dtype.is_float() {
                    encode_float(dtype, v.into())
                } else {
                    v.into()
                }
            };
            let want = combine(dtype, Op::Avg, Values::Exact, &[bits(2), bits(4), bits(6)]);
            assert!(want.accepts(dtype, bits(4)), "{dtype}: {want:?}");
            assert!(!want.accepts(dtype, bits(12)), "{dtype}: a sum passed as a mean");
        }
    }

    #[test]
    fn known_integers() {
        let avg = |dtype, v: &[u64]| combine(dtype, Op::Avg, Values::Exact, v);
        assert_eq!(avg(Dtype::Int8, &[120, 121, 122]), Want::Bits(121));
        assert_eq!(
            avg(Dtype::Int32, &signed(&[-1, -2])[..]),
            Want::Bits(u32::MAX.into())
        );
        let large = (1u64 << 53) + 1;
        assert_eq!(avg(Dtype::Uint64, &[large, large, large]), Want::Bits(large));
        assert_eq!(avg(Dtype::Uint64, &[u64::MAX, u64::MAX]), Want::Bits(u64::MAX));
        assert_eq!(
            combine(Dtype::Int8, Op::Sum, Values::Exact, &[120, 100]),
            Want::Bits(220)
        );
        assert_eq!(
            combine(Dtype::Uint8, Op::Prod, Values::Exact, &[16, 16]),
            Want::Bits(0)
        );
        assert_eq!(
            combine(Dtype::Int64, Op::Min, Values::Exact, &signed(&[3, -7])),
            Want::Bits(-7i64 as u64)
        );
        let wide = [u64::MAX, u64::MAX - 1, u64::MAX - 2];
        assert_eq!(
            combine(Dtype::Uint64, Op::Prod, Values::Exact, &wide),
            Want::Bits(-6i64 as u64)
        );
    }

    #[test]
    fn known_floats() {
        let sixty = vec![encode_float(Dtype::Float16, 60000.0); 16];
        let want = combine(Dtype::Float16, Op::Avg, Values::Exact, &sixty);
        assert!(want.accepts(Dtype::Float16, sixty[0]) && !want.accepts(Dtype::Float16, 0x7c00));
        let sum = combine(Dtype::Float16, Op::Sum, Values::Special, &sixty);
        assert_eq!(sum, Want::Bits(0x7c00));
        let (minus, plus) = (0x8000_0000, 0);
        assert_eq!(
            combine(Dtype::Float32, Op::Max, Values::Exact, &[minus, plus]),
            Want::Bits(plus)
        );
        assert_eq!(
            combine(Dtype::Float32, Op::Min, Values::Exact, &[plus, minus]),
            Want::Bits(minus)
        );
        assert_eq!(
            combine(Dtype::Float32, Op::Max, Values::Exact, &[plus, 0x7fc0_0000]),
            Want::Nan
        );
        let largest = vec![f64::MAX.to_bits(); 3];
        let want = combine(Dtype::Float64, Op::Avg, Values::Special, &largest);
        assert!(want.accepts(Dtype::Float64, largest[0]), "{want:?}");
        assert!(want.accepts(Dtype::Float64, largest[0] - 1), "{want:?}");
        assert!(!want.accepts(Dtype::Float64, f64::INFINITY.to_bits()), "{want:?}");
        let saturated = combine(Dtype::Float8E4M3, Op::Sum, Values::Special, &[0x7e, 0x7e]);
        assert!(saturated.accepts(Dtype::Float8E4M3, 0x7e) && !saturated.accepts(Dtype::Float8E4M3, 0x7f));
    }

    /// Rounds to the type after every step, in an order that `turn` chooses.
    fn in_steps(dtype: Dtype, op: Op, inputs: &[u64], turn: usize) -> u64 {
        let number = |bits| super::super::decode_float(dtype, bits);
        let n = inputs.len();
        let (scale, factor) = match op {
            Op::Avg => {
                let power = n.next_power_of_two() as f64;
                let factor = power / n as f64;
                (
                    1.0 / power,
                    if dtype == Dtype::Float64 {
                        factor
                    } else {
                        f64::from(factor as f32)
                    },
                )
            }
            _ => (1.0, 1.0),
        };
        let term = |i: usize| encode_float(dtype, number(inputs[(i * 7 + turn) % n]) * scale);
        let mut total = term(0);
        for i in 1..n {
            let (a, b) = (number(total), number(term(i)));
            total = encode_float(dtype, if op == Op::Prod { a * b } else { a + b });
        }
        let result = number(total) * factor;
        let result = if dtype == Dtype::Float64 {
            result
        } else {
            f64::from(result as f32)
        };
        if op == Op::Avg {
            encode_float(dtype, result)
        } else {
            total
        }
    }

    #[test]
    fn exact_values_are_exact_in_any_order_with_rounding_at_every_step() {
        for dtype in FLOATS {
            for op in [Op::Sum, Op::Prod, Op::Avg] {
                for ranks in [1, 2, 3, 4, 5, 6, 8, 9, 16, 17] {
                    let c = Contribution {
                        dtype,
                        op,
                        values: Values::Exact,
                        ranks,
                        salt: 5,
                    };
                    let mut differ = 0;
                    for index in 0..300 {
                        let inputs: Vec<_> = (0..ranks).map(|r| c.bits(r, index)).collect();
                        differ += usize::from(inputs.iter().any(|&b| b != inputs[0]));
                        let want = combine(dtype, op, Values::Exact, &inputs);
                        for turn in 0..3 {
                            let got = in_steps(dtype, op, &inputs, turn);
                            assert!(
                                want.accepts(dtype, got),
                                "{dtype} {op} {ranks} ranks {index}: {want:?} {got:#x}"
                            );
                        }
                    }
                    assert!(
                        ranks == 1 || differ > 100,
                        "{dtype} {op} {ranks}: ranks hold the same"
                    );
                }
            }
        }
    }

    #[test]
    fn rounding_values_stay_within_the_bound_and_wrong_ones_do_not() {
        for dtype in FLOATS {
            for op in [Op::Sum, Op::Prod, Op::Avg] {
                for ranks in [2, 3, 8, 16] {
                    let c = Contribution {
                        dtype,
                        op,
                        values: Values::Rounding,
                        ranks,
                        salt: 9,
                    };
                    for index in 0..300 {
                        let inputs: Vec<_> = (0..ranks).map(|r| c.bits(r, index)).collect();
                        let want = combine(dtype, op, Values::Rounding, &inputs);
                        let got = in_steps(dtype, op, &inputs, index);
                        assert!(
                            want.accepts(dtype, got),
                            "{dtype} {op} {ranks} ranks: {want:?} {got:#x}"
                        );
                    }
                }
            }
        }
        let c = Contribution {
            dtype: Dtype::Float32,
            op: Op::Sum,
            values: Values::Rounding,
            ranks: 4,
            salt: 9,
        };
        let inputs: Vec<_> = (0..4).map(|r| c.bits(r, 0)).collect();
        let missing = in_steps(Dtype::Float32, Op::Sum, &inputs[..3], 0);
        assert!(
            !combine(Dtype::Float32, Op::Sum, Values::Rounding, &inputs).accepts(Dtype::Float32, missing)
        );
    }
}
