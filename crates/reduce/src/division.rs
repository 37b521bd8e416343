//! Exact division of integer sums by the number of ranks, without a division per element.

use crate::DataType;

/// The most ranks that an exact integer mean is formed over: 2^31.
pub const MAX_RANKS: u64 = 1 << 31;

/// A divisor prepared for many dividends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Divisor {
    n: u64,
    /// Low 64 bits of the 65-bit reciprocal ⌊2^(64+k) / n⌋ + 1, k = ⌈log2 n⌉: Granlund and Montgomery, "Division
    /// by Invariant Integers using Multiplication", figure 4.1.
    reciprocal: u64,
    /// min(k, 1) and k - min(k, 1).
    shifts: (u32, u32),
}

impl Divisor {
    /// # Panics
    /// If `n` is not in 1..=[`MAX_RANKS`].
    pub(crate) fn new(n: u64) -> Self {
        assert!((1..=MAX_RANKS).contains(&n), "an integer mean over {n} ranks");
        let power = n.next_power_of_two();
        let reciprocal = (u128::from(power - n) << 64) / u128::from(n) + 1;
        let k = power.trailing_zeros();
        Self {
            n,
            reciprocal: reciprocal as u64,
            shifts: (k.min(1), k - k.min(1)),
        }
    }

    #[inline(always)]
    pub(crate) fn n(self) -> u64 {
        self.n
    }

    /// Quotient and remainder.
    #[inline(always)]
    pub(crate) fn divide(self, dividend: u64) -> (u64, u64) {
        let product = ((u128::from(self.reciprocal) * u128::from(dividend)) >> 64) as u64;
        // The sum of `product` and half of the rest cannot overflow, since `product` is at most the dividend.
        let quotient = (product + ((dividend - product) >> self.shifts.0)) >> self.shifts.1;
        (quotient, dividend - quotient * self.n)
    }

    /// Quotient truncated toward zero, and a remainder with the sign of the dividend.
    #[inline(always)]
    pub(crate) fn divide_signed(self, dividend: i64) -> (i64, i64) {
        let (quotient, rest) = self.divide(dividend.unsigned_abs());
        let sign = dividend >> 63;
        // Wraps for the smallest value divided by one, to the right quotient.
        let signed = |magnitude: u64| (magnitude as i64 ^ sign).wrapping_sub(sign);
        (signed(quotient), signed(rest))
    }
}

/// An integer element of at most 32 bits, whose sums fit wider lanes.
pub(crate) trait Small: Copy {
    const DTYPE: DataType;
    fn widened(self) -> i64;
    /// The element with this value, which is in range.
    fn narrowed(value: i64) -> Self;
}

macro_rules! small {
    ($($type:ty => $dtype:ident),+) => {$(
        impl Small for $type {
            const DTYPE: DataType = DataType::$dtype;
            #[inline(always)]
            fn widened(self) -> i64 {
                i64::from(self)
            }
            #[inline(always)]
            fn narrowed(value: i64) -> Self {
                value as $type
            }
        }
    )+};
}
small!(i8 => Int8, i16 => Int16, i32 => Int32, u8 => Uint8, u16 => Uint16, u32 => Uint32);

/// A lane that holds the sum of small elements.
pub(crate) trait Total: Copy {
    /// The total with this value, which is in range.
    fn of(value: i64) -> Self;
    fn plus(self, other: Self) -> Self;
    /// The quotient, truncated toward zero.
    fn over(self, divisor: Divisor) -> i64;
}

impl Total for i32 {
    #[inline(always)]
    fn of(value: i64) -> Self {
        value as i32
    }
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
    #[inline(always)]
    fn over(self, divisor: Divisor) -> i64 {
        // Vectorises, and is exact: a quotient that is no integer is at least 1/n away from one, more than the
        // rounding of a double while dividend and divisor stay below 2^32.
        let quotient = f64::from(self) / divisor.n as f64;
        // SAFETY: the divisor is at least one, so the quotient is in the range of the dividend.
        i64::from(unsafe { quotient.to_int_unchecked::<i32>() })
    }
}

impl Total for i64 {
    #[inline(always)]
    fn of(value: i64) -> Self {
        value
    }
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
    #[inline(always)]
    fn over(self, divisor: Divisor) -> i64 {
        divisor.divide_signed(self).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotients_and_remainders_are_those_of_the_processor() {
        let divisors = (1..=300).chain([641, 1000, 65535, 65537, 6700417, MAX_RANKS - 1, MAX_RANKS]);
        for n in divisors {
            let divisor = Divisor::new(n);
            let multiples = [0, 1, 2, 77, u64::MAX / n / 2, u64::MAX / n - 1, u64::MAX / n];
            let near_multiples = multiples
                .iter()
                .flat_map(|m| [-1i64, 0, 1].map(|d| (m * n).wrapping_add_signed(d)));
            let powers = (0..64).flat_map(|bit| [1u64 << bit, (1 << bit) - 1]);
            for dividend in near_multiples.chain(powers) {
                assert_eq!(
                    divisor.divide(dividend),
                    (dividend / n, dividend % n),
                    "{dividend} / {n}"
                );
                let (signed, by) = (dividend as i64, n as i64);
                assert_eq!(
                    divisor.divide_signed(signed),
                    (signed / by, signed % by),
                    "{signed} / {n}"
                );
                let total = dividend as i32;
                assert_eq!(total.over(divisor), i64::from(total) / by, "{total} / {n}");
            }
        }
    }
}
