//! Lowering: rewrites what no library and no wire has (AVG, PREMUL_SUM) to sums, once for the whole call.

use crate::algo::{Buffers, Reduction};
use crate::call::{RedOp, Request};
use crate::schedule::{Builder, Loc};
use infiniccl_reduce::{DataType, ReduceOp, Wide, avg_factors, wide_type};

/// Elements of a segment whose wide form is in scratch memory at once.
const SEGMENT: u64 = 128 << 10;
/// Segments in flight.
const SEGMENTS_IN_FLIGHT: usize = 2;

/// How the reduction of a request is carried out between ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// As it is asked.
    Plain(ReduceOp),
    /// AVG of floats: a sum of scaled inputs, scaled once more at the end.
    AvgFloat,
    /// AVG of integers: a sum in wide elements.
    AvgInteger(Wide),
    /// A sum of inputs that each rank scales by its own factor.
    Premul(u64),
}

impl Mode {
    /// The mode of a request over `ranks` ranks.
    pub(crate) fn of(request: &Request, ranks: u64) -> Mode {
        match request.op {
            RedOp::PreMulSum { scalar_bits } => Mode::Premul(scalar_bits),
            // The mean of one is the one.
            RedOp::Fixed(ReduceOp::Avg) if ranks == 1 => Mode::Plain(ReduceOp::Sum),
            RedOp::Fixed(ReduceOp::Avg) => match wide_type(request.dtype, ranks) {
                Some(wide) => Mode::AvgInteger(wide),
                None => Mode::AvgFloat,
            },
            RedOp::Fixed(op) => Mode::Plain(op),
        }
    }

    /// What the reports say of it; `None` where nothing is rewritten.
    pub(crate) fn name(self) -> Option<&'static str> {
        match self {
            Mode::Plain(_) => None,
            Mode::AvgFloat => Some("avg as a sum of inputs scaled by 2^-k, scaled by 2^k/n at the end"),
            Mode::AvgInteger(Wide::Int32) => Some("avg as an exact sum in int32, divided at the end"),
            Mode::AvgInteger(Wide::Int64) => Some("avg as an exact sum in int64, divided at the end"),
            Mode::AvgInteger(_) => Some("avg as exact sums of quotients and remainders"),
            Mode::Premul(_) => Some("premul_sum as a sum of inputs scaled on their rank"),
        }
    }
}

/// A reduction over one buffer of `count` elements (AllReduce, Reduce), in the mode that it needs.
///
/// `run` adds the steps of a plain reduction of `count` elements from `src` to `dst`; `wanted`: this rank gets the
/// result.
pub(crate) fn reduce_whole(
    b: &mut Builder,
    request: &Request,
    ranks: u64,
    buffers: Buffers,
    wanted: bool,
    mut run: impl FnMut(&mut Builder, Buffers, Reduction, u64),
) {
    let dtype = request.dtype;
    let plain = |dtype, op| Reduction {
        dtype,
        op,
        raw: false,
        last: false,
    };
    match Mode::of(request, ranks) {
        Mode::Plain(op) => run(b, buffers, plain(dtype, op), request.count),
        Mode::AvgFloat => {
            b.set_factors(avg_factors(ranks));
            let scaled = Reduction {
                raw: true,
                last: true,
                ..plain(dtype, ReduceOp::Sum)
            };
            run(b, buffers, scaled, request.count);
        }
        Mode::AvgInteger(wide) => {
            let segments = Segments::new(b, request.count, wide.bytes() as u64);
            let mark = b.mark();
            for (slot, first, count) in segments {
                b.rewind(mark);
                let at = first * dtype.size() as u64;
                b.widen(dtype, wide, slot, buffers.src.plus(at), count, ranks);
                let both = Buffers { src: slot, dst: slot };
                run(
                    b,
                    both,
                    plain(wide.lane_type(), ReduceOp::Sum),
                    count * wide.lanes() as u64,
                );
                if wanted {
                    b.narrow_mean(dtype, wide, buffers.dst.plus(at), slot, count, ranks);
                }
            }
        }
        Mode::Premul(scalar_bits) => {
            let segments = Segments::new(b, request.count, dtype.size() as u64);
            let mark = b.mark();
            for (slot, first, count) in segments {
                b.rewind(mark);
                let at = first * dtype.size() as u64;
                b.premul(dtype, slot, buffers.src.plus(at), count, scalar_bits);
                let dst = if wanted { buffers.dst.plus(at) } else { slot };
                run(b, Buffers { src: slot, dst }, plain(dtype, ReduceOp::Sum), count);
            }
        }
    }
}

/// A reduction whose result is scattered: rank `r` of `blocks` gets block `r` of `(first element, elements)`.
///
/// `run` adds the steps of a plain reduction: from the buffer at the first place, whose blocks are given, to the
/// second place.
pub(crate) fn reduce_blocks(
    b: &mut Builder,
    request: &Request,
    ranks: u64,
    me: usize,
    buffers: Buffers,
    blocks: &[(u64, u64)],
    mut run: impl FnMut(&mut Builder, Buffers, Reduction, &[(u64, u64)]),
) {
    let dtype = request.dtype;
    let elem = dtype.size() as u64;
    let plain = |dtype, op| Reduction {
        dtype,
        op,
        raw: false,
        last: false,
    };
    let (unit, lanes, lane) = match Mode::of(request, ranks) {
        Mode::Plain(op) => return run(b, buffers, plain(dtype, op), blocks),
        Mode::AvgFloat => {
            b.set_factors(avg_factors(ranks));
            let scaled = Reduction {
                raw: true,
                last: true,
                ..plain(dtype, ReduceOp::Sum)
            };
            return run(b, buffers, scaled, blocks);
        }
        Mode::AvgInteger(wide) => (wide.bytes() as u64, wide.lanes() as u64, wide.lane_type()),
        Mode::Premul(_) => (elem, 1, dtype),
    };
    // A segment holds the same stretch of every block, one after the other.
    let longest = blocks.iter().map(|(_, count)| *count).max().unwrap_or(0);
    let stretch = (SEGMENT / blocks.len().max(1) as u64).max(1).min(longest.max(1));
    let slots: Vec<(Loc, Loc)> = (0..SEGMENTS_IN_FLIGHT)
        .map(|_| {
            (
                b.alloc(stretch * blocks.len() as u64 * unit),
                b.alloc(stretch * unit),
            )
        })
        .collect();
    let mark = b.mark();
    for (round, start) in (0..longest)
        .step_by(usize::try_from(stretch).unwrap_or(usize::MAX))
        .enumerate()
    {
        b.rewind(mark);
        let (inputs, result) = slots[round % slots.len()];
        let pieces: Vec<(u64, u64)> = blocks
            .iter()
            .map(|(first, count)| (first + start, count.saturating_sub(start).min(stretch)))
            .collect();
        let mut packed = Vec::with_capacity(blocks.len());
        for (index, (first, count)) in (0u64..).zip(&pieces) {
            let at = index * stretch;
            packed.push((at * lanes, count * lanes));
            if *count > 0 {
                let (dst, src) = (inputs.plus(at * unit), buffers.src.plus(first * elem));
                match Mode::of(request, ranks) {
                    Mode::AvgInteger(wide) => b.widen(dtype, wide, dst, src, *count, ranks),
                    Mode::Premul(bits) => b.premul(dtype, dst, src, *count, bits),
                    Mode::Plain(_) | Mode::AvgFloat => {}
                }
            }
        }
        run(
            b,
            Buffers {
                src: inputs,
                dst: result,
            },
            plain(lane, ReduceOp::Sum),
            &packed,
        );
        let mine = pieces[me].1;
        if mine > 0 {
            let dst = buffers.dst.plus(start * elem);
            match Mode::of(request, ranks) {
                Mode::AvgInteger(wide) => b.narrow_mean(dtype, wide, dst, result, mine, ranks),
                _ => b.copy(dst, result, mine * elem),
            }
        }
    }
}

/// Stretches of a buffer, each with a place in scratch memory.
struct Segments {
    slots: Vec<Loc>,
    stretch: u64,
    next: u64,
    count: u64,
    round: usize,
}

impl Segments {
    fn new(b: &mut Builder, count: u64, unit: u64) -> Self {
        let stretch = SEGMENT.min(count.max(1));
        let in_flight = SEGMENTS_IN_FLIGHT.min(count.div_ceil(stretch) as usize);
        let slots = (0..in_flight).map(|_| b.alloc(stretch * unit)).collect();
        Segments {
            slots,
            stretch,
            next: 0,
            count,
            round: 0,
        }
    }
}

impl Iterator for Segments {
    type Item = (Loc, u64, u64);

    fn next(&mut self) -> Option<Self::Item> {
        if self.next >= self.count {
            return None;
        }
        let first = self.next;
        let count = self.stretch.min(self.count - first);
        let slot = self.slots[self.round % self.slots.len()];
        self.next += count;
        self.round += 1;
        Some((slot, first, count))
    }
}

/// The factor by which an island scales its inputs for an AVG over `ranks` ranks, as bits of the element type, if
/// the type can express it.
pub(crate) fn pre_factor_bits(dtype: DataType, ranks: u64) -> Option<u64> {
    let pre = avg_factors(ranks).pre;
    match dtype {
        DataType::Float64 => Some(pre.to_bits()),
        DataType::Float32 => Some(u64::from((pre as f32).to_bits())),
        DataType::BFloat16 => Some(u64::from(half::bf16::from_f64(pre).to_bits())),
        DataType::Float16 => {
            let bits = half::f16::from_f64(pre);
            (bits.to_f64() == pre).then_some(u64::from(bits.to_bits()))
        }
        _ => None,
    }
}
