//! What ranks start with and must end with, by the oracle of the test kit.

use crate::call::{Collective, RedOp, Request};
use crate::plan::Vector;
use crate::schedule::InPlace;
use infiniccl_reduce::{DataType, ReduceOp};
use infiniccl_testkit::oracle::{self, Case, Dtype, Op, Values, decode_float, encode_float};

/// How elements are combined: one of the fixed operators, or a sum with a scalar for each rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Combine {
    Fixed(Op),
    Premul,
}

/// A request with data.
#[derive(Debug, Clone, Copy)]
pub(super) struct Data {
    pub(super) collective: Collective,
    pub(super) case: Case,
    pub(super) combine: Combine,
}

impl Data {
    pub(super) fn size(&self) -> usize {
        self.case.dtype.size()
    }

    pub(super) fn dtype(&self) -> DataType {
        let index = Dtype::ALL.iter().position(|d| *d == self.case.dtype).unwrap();
        DataType::ALL[index]
    }

    /// The request as `rank` makes it.
    pub(super) fn request(&self, rank: usize) -> Request {
        let op = match self.combine {
            Combine::Fixed(op) => {
                RedOp::Fixed(*ReduceOp::ALL.iter().find(|r| r.name() == op.name()).unwrap())
            }
            Combine::Premul => RedOp::PreMulSum {
                scalar_bits: self.scalar_bits(rank),
            },
        };
        let blocks_differ = self.vector(rank).is_some();
        Request {
            collective: self.collective,
            dtype: self.dtype(),
            op,
            count: if blocks_differ { 0 } else { self.case.count as u64 },
            root: self.case.root as u32,
        }
    }

    /// Counts and displacements as `rank` gives them; blocks lie one after the other.
    pub(super) fn vector(&self, rank: usize) -> Option<Vector> {
        let wide = |counts: Vec<usize>| -> Vec<u64> { counts.into_iter().map(|n| n as u64).collect() };
        let starts = |counts: &[u64]| -> Vec<u64> {
            let next = |at: &mut u64, n: &u64| Some(std::mem::replace(at, *at + n));
            counts.iter().scan(0, next).collect()
        };
        let blocks = || wide(self.case.block_counts());
        let none = Vec::new();
        Some(match self.collective {
            Collective::AllToAllV => {
                let (sent, got) = (
                    wide(self.case.pair_counts_sent(rank)),
                    wide(self.case.pair_counts_received(rank)),
                );
                Vector {
                    send_displs: starts(&sent),
                    recv_displs: starts(&got),
                    send_counts: sent,
                    recv_counts: got,
                }
            }
            Collective::AllGatherV => Vector {
                recv_displs: starts(&blocks()),
                recv_counts: blocks(),
                send_counts: none.clone(),
                send_displs: none,
            },
            Collective::ReduceScatterV => Vector {
                send_counts: blocks(),
                send_displs: none.clone(),
                recv_counts: none.clone(),
                recv_displs: none,
            },
            _ => return None,
        })
    }

    /// Where input and output of `rank` lie in one buffer, in bytes, and how long that is.
    pub(super) fn in_place(&self, rank: usize) -> Option<(InPlace, usize)> {
        let place = self.case.in_place(rank)?;
        let size = self.size();
        let shared = InPlace {
            send_offset: (place.send_at * size) as u64,
            recv_offset: (place.recv_at * size) as u64,
        };
        Some((shared, place.elements * size))
    }

    fn scalar(&self, rank: usize) -> f64 {
        [2.0, -1.0, 0.5, 1.0, 3.0, -0.25, 0.0][(rank * 5 + self.case.salt as usize) % 7]
    }

    fn scalar_bits(&self, rank: usize) -> u64 {
        if self.case.dtype.is_float() {
            encode_float(self.case.dtype, self.scalar(rank))
        } else {
            // Large enough to wrap.
            (rank as u64 + self.case.salt).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
        }
    }

    /// What the output of `rank` has wrong, in words.
    pub(super) fn wrong(&self, rank: usize, got: &[u8], rounding_steps: u32) -> Option<String> {
        let rounds = self.case.values == Values::Rounding && self.collective.reduces();
        let inexact = matches!(
            self.combine,
            Combine::Premul | Combine::Fixed(Op::Sum | Op::Prod | Op::Avg)
        );
        if self.combine == Combine::Premul || (rounds && inexact && self.case.dtype.is_float()) {
            return self.wrong_by_more(rank, got, rounding_steps);
        }
        let found = self.case.check(rank, got);
        found.first
    }

    /// The same by the bound that the plan states, or exactly for integers.
    fn wrong_by_more(&self, rank: usize, got: &[u8], rounding_steps: u32) -> Option<String> {
        let (size, ranks) = (self.size(), self.case.ranks);
        let start = match self.collective {
            Collective::ReduceScatter => rank * self.case.count,
            Collective::ReduceScatterV => self.case.block_counts()[..rank].iter().sum(),
            _ => 0,
        };
        for (index, bytes) in got.chunks_exact(size).enumerate() {
            let mut word = [0; 8];
            word[..size].copy_from_slice(bytes);
            let bits = u64::from_le_bytes(word);
            let inputs: Vec<u64> = (0..ranks)
                .map(|r| self.case.input_bits(r, start + index))
                .collect();
            if !self.case.dtype.is_float() {
                let mask = u64::MAX >> (64 - 8 * size);
                let sum = (0..).zip(&inputs).fold(0u64, |sum, (rank, x)| {
                    sum.wrapping_add(x.wrapping_mul(self.scalar_bits(rank)))
                });
                if bits != sum & mask {
                    return Some(format!("element {index}: {bits:#x} instead of {:#x}", sum & mask));
                }
                continue;
            }
            let got = decode_float(self.case.dtype, bits);
            let (want, tolerance) = self.float_bound(&inputs, rounding_steps);
            if (got - want).abs() > tolerance {
                return Some(format!(
                    "element {index}: {got} instead of {want} ± {tolerance:e} after {rounding_steps} roundings"
                ));
            }
        }
        None
    }

    /// The exact result, and how far a result may be from it.
    fn float_bound(&self, inputs: &[u64], rounding_steps: u32) -> (f64, f64) {
        let dtype = self.case.dtype;
        let (digits, smallest) = match dtype {
            Dtype::Float16 => (11, 2f64.powi(-24)),
            Dtype::BFloat16 => (8, 2f64.powi(-133)),
            Dtype::Float32 => (24, 2f64.powi(-149)),
            Dtype::Float64 => (53, 2f64.powi(-1074)),
            Dtype::Float8E4M3 => (4, 2f64.powi(-9)),
            _ => (3, 2f64.powi(-16)),
        };
        let unit = 2f64.powi(-digits);
        let values = (0..).zip(inputs).map(|(rank, bits)| {
            let value = decode_float(dtype, *bits);
            match self.combine {
                Combine::Premul => value * self.scalar(rank),
                Combine::Fixed(_) => value,
            }
        });
        let values: Vec<f64> = values.collect();
        let (steps, ranks) = (f64::from(rounding_steps), values.len() as f64);
        let (want, size) = match self.combine {
            Combine::Fixed(Op::Prod) => {
                let product: f64 = values.iter().product();
                (product, product.abs())
            }
            Combine::Fixed(Op::Avg) => (
                values.iter().sum::<f64>() / ranks,
                values.iter().map(|v| v.abs()).sum::<f64>() / ranks,
            ),
            _ => (values.iter().sum(), values.iter().map(|v| v.abs()).sum()),
        };
        // Each rounding, compounded; what this very function rounds; float32 in between; and subnormals, of every
        // input and partial result.
        let compounded = steps * unit * (1.0 + unit).powi(rounding_steps as i32);
        let own = ranks * 2f64.powi(-53);
        let between = if digits < 24 {
            (2.0 * ranks + 2.0) * 2f64.powi(-24)
        } else {
            0.0
        };
        let lost = 2.0 * (ranks + steps) * smallest;
        (want, size * (compounded + own + between) + lost)
    }
}

/// The name of a collective in the oracle's words.
pub(super) fn oracle_name(collective: Collective) -> oracle::Collective {
    oracle::Collective::from_name(collective.name()).unwrap()
}
