//! The elements that ranks start with: they differ by rank and by index, and repeat after a prime number of
//! elements, which no chunk or block of an algorithm is a multiple of.

use super::formats::{Format, format_of};
use super::{Dtype, Op};

/// Elements repeat after so many. Data that lands in a wrong place is off by a power of two, or by a block,
/// far more often than by a multiple of this.
pub const PERIOD: usize = 7919;

/// Which sort of elements a case starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// The result is exact in every order of combination, even if each step is rounded to the element type.
    Exact,
    /// Floats that round; the result has a bound. Integers and bool as in `Exact`.
    Rounding,
    /// NaN, both zeros, infinities and the largest numbers; extreme integers.
    Special,
}

/// Mixes three numbers into 64 bits that look random.
pub(super) fn mix(a: u64, b: u64, c: u64) -> u64 {
    let mut x = a
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(b.wrapping_mul(0xd1b5_4a32_d192_ed03))
        .wrapping_add(c.wrapping_mul(0x8cb9_2ba7_2f3d_8dd7));
    x = (x ^ (x >> 32)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 29)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Any bits at all, cut to the element's size: for collectives that must not look at what they move.
pub(super) fn any_bits(dtype: Dtype, salt: u64, rank: usize, index: usize) -> u64 {
    let bits = mix(salt ^ 0xb175, rank as u64, (index % PERIOD) as u64);
    if dtype == Dtype::Bool {
        bits & 1
    } else {
        cut(dtype, bits)
    }
}

fn cut(dtype: Dtype, bits: u64) -> u64 {
    bits & (u64::MAX >> (64 - 8 * dtype.size()))
}

/// What a rank contributes at an index of a reduction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Contribution {
    pub(super) dtype: Dtype,
    pub(super) op: Op,
    pub(super) values: Values,
    pub(super) ranks: usize,
    pub(super) salt: u64,
}

impl Contribution {
    /// The bits of one element.
    pub(super) fn bits(&self, rank: usize, index: usize) -> u64 {
        let index = index % PERIOD;
        let random = mix(self.salt, rank as u64, index as u64);
        match format_of(self.dtype) {
            Some(format) => self.float(format, rank, index, random),
            None if self.dtype == Dtype::Bool => self.boolean(random),
            // Every operator on integers is exact in any order, so they take the whole range.
            None if self.values == Values::Special && index.is_multiple_of(3) => self.extreme(random),
            None => cut(self.dtype, random),
        }
    }

    /// Rare where one decides the result, so that the result is not the same at almost every index.
    fn boolean(&self, random: u64) -> u64 {
        let rare = random.is_multiple_of(self.ranks as u64 + 1);
        match self.op {
            Op::Sum | Op::Max => u64::from(rare),
            Op::Prod | Op::Min => u64::from(!rare),
            Op::Avg => 0,
        }
    }

    /// The ends of the range, and their neighbours.
    fn extreme(&self, random: u64) -> u64 {
        let top = 1u64 << (8 * self.dtype.size() - 1);
        let picks = [0, 1, top - 1, top, top + 1, cut(self.dtype, u64::MAX)];
        picks[(random % picks.len() as u64) as usize]
    }

    fn float(&self, format: Format, rank: usize, index: usize, random: u64) -> u64 {
        if self.values == Values::Special {
            return self.special_float(format, rank, index, random);
        }
        match self.op {
            Op::Max | Op::Min => {
                // Any finite number: nothing is rounded.
                let bits = cut(self.dtype, random);
                let below_top = !(1 << (format.mantissa_bits + 1));
                if format.decode(bits).is_finite() {
                    bits
                } else {
                    bits & below_top
                }
            }
            _ if self.values == Values::Rounding => format.encode(self.rounding(random)),
            Op::Sum => format.encode(self.exact_term(format, rank, index, random)),
            Op::Avg => format.encode(self.exact_mean_term(format, rank, index)),
            Op::Prod => format.encode(self.exact_factor(rank, index, random)),
        }
    }

    fn rounding(&self, random: u64) -> f64 {
        let unit = (random >> 11) as f64 / (1u64 << 53) as f64;
        match self.op {
            // A product of 17 of them stays within the range of every format.
            Op::Prod => (0.75 + 0.5 * unit) * if random & 1 == 0 { 1.0 } else { -1.0 },
            _ => 16.0 * unit - 8.0,
        }
    }

    /// The largest sum of magnitudes at which all sums of some of the ranks' whole numbers are exact.
    fn exact_budget(format: Format) -> usize {
        1 << (format.mantissa_bits + 1).min(20)
    }

    /// Whole numbers, scaled by a power of two that the index chooses.
    fn exact_term(&self, format: Format, rank: usize, index: usize, random: u64) -> f64 {
        let budget = Self::exact_budget(format);
        let each = (budget / self.ranks) as u64;
        let number = if each >= 1 {
            (random % (2 * each + 1)) as f64 - each as f64
        } else if (rank + index) % self.ranks < budget {
            if random & 1 == 0 { 1.0 } else { -1.0 }
        } else {
            0.0
        };
        number * [0.5, 1.0, 2.0, 4.0][index % 4]
    }

    /// Whole numbers whose mean is whole: one middle, and pairs of ranks that differ from it in opposite ways.
    fn exact_mean_term(&self, format: Format, rank: usize, index: usize) -> f64 {
        let budget = Self::exact_budget(format);
        let each = budget / self.ranks;
        let seat = (rank + index) % self.ranks;
        let shared = mix(self.salt ^ 1, index as u64, 0);
        let pair = mix(self.salt ^ 2, index as u64, (seat / 2) as u64);
        let half = (each / 2) as u64;
        let within = |random: u64, limit: u64| (random % (2 * limit + 1)) as f64 - limit as f64;
        let (middle, mut distance) = match each {
            0 if seat / 2 < budget / 2 => (0.0, 1.0),
            0 => (0.0, 0.0),
            // Either a middle or distances: both at once would pass the budget.
            1 if shared.is_multiple_of(3) => (if shared & 8 == 0 { 1.0 } else { -1.0 }, 0.0),
            1 => (0.0, within(pair, 1)),
            _ => (within(shared, half), within(pair, half)),
        };
        let has_partner = seat % 2 == 1 || seat + 1 < self.ranks;
        if !has_partner {
            distance = 0.0;
        }
        if seat.is_multiple_of(2) {
            middle + distance
        } else {
            middle - distance
        }
    }

    /// Powers of two of either sign; at most eight ranks differ from one in magnitude.
    fn exact_factor(&self, rank: usize, index: usize, random: u64) -> f64 {
        let sign = if random & 1 == 0 { 1.0 } else { -1.0 };
        let magnitude = if (rank + index) % self.ranks < 8 {
            [0.5, 1.0, 2.0][(random >> 1) as usize % 3]
        } else {
            1.0
        };
        sign * magnitude
    }

    fn special_float(&self, format: Format, rank: usize, index: usize, random: u64) -> u64 {
        let ordinary = Contribution {
            values: Values::Exact,
            ..*self
        };
        let sign = if random & 1 == 0 { 1.0 } else { -1.0 };
        let chosen = (index / 4) % self.ranks == rank;
        match index % 4 {
            0 if chosen => format.canonical_nan(),
            1 => format.encode(0.0 * sign),
            2 if chosen && let Some(infinity) = format.infinity() => infinity,
            // A mean of the largest numbers is one of them, though their sum is none.
            3 if self.op == Op::Avg => format.encode(format.largest()),
            3 if matches!(self.op, Op::Max | Op::Min) => format.encode(format.largest() * sign),
            _ => ordinary.float(format, rank, index, random),
        }
    }
}
