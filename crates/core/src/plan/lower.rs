//! Lowering: rewrites what no library and no wire has (AVG, PREMUL_SUM) to sums, once for the whole call.

use crate::algo::{Buffers, Reduction};
use crate::call::{RedOp, Request};
use crate::schedule::{Builder, Loc};
use infiniccl_reduce::{DataType, ReduceOp, Wide, avg_factors, wide_type};

/// Segments in flight.
const SEGMENTS_IN_FLIGHT: u64 = 2;
/// A message is cut into at most about this many segments, which bounds the steps of a schedule.
const MOST_SEGMENTS: u64 = 2048;
/// The fewest elements of each block in a segment of blocks.
const LEAST_STRETCH: u64 = 256;

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

/// A reduction on its way from the caller's terms to plain ones.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lowering<'a> {
    pub(super) request: &'a Request,
    pub(super) ranks: u64,
    /// Bytes that are brought into another form at once.
    pub(super) segment: u64,
    /// AVG of floats: each input is multiplied by the factor with these bits before anybody combines it; otherwise
    /// it is while it is loaded.
    pub(super) scaled_before: Option<u64>,
}

/// What is done to the elements of a segment before they are combined, and after.
#[derive(Debug, Clone, Copy)]
enum Form {
    /// Multiplied by a factor with these bits.
    Scaled(u64),
    Widened(Wide),
}

impl Lowering<'_> {
    /// The plain reduction between ranks, and what is done to the elements around it.
    fn parts(&self, b: &mut Builder) -> (Reduction, Option<Form>) {
        let plain = |dtype, op| Reduction {
            dtype,
            op,
            raw: false,
            last: false,
        };
        let sum = |dtype| plain(dtype, ReduceOp::Sum);
        let dtype = self.request.dtype;
        match Mode::of(self.request, self.ranks) {
            Mode::Plain(op) => (plain(dtype, op), None),
            Mode::AvgInteger(wide) => (sum(wide.lane_type()), Some(Form::Widened(wide))),
            Mode::Premul(bits) => (sum(dtype), Some(Form::Scaled(bits))),
            Mode::AvgFloat => {
                b.set_factors(avg_factors(self.ranks));
                let reduction = Reduction {
                    raw: self.scaled_before.is_none(),
                    last: true,
                    ..sum(dtype)
                };
                (reduction, self.scaled_before.map(Form::Scaled))
            }
        }
    }

    /// Bytes and lanes of an element in its form.
    fn unit(&self, form: Form) -> (u64, u64) {
        match form {
            Form::Scaled(_) => (self.request.dtype.size() as u64, 1),
            Form::Widened(wide) => (wide.bytes() as u64, wide.lanes() as u64),
        }
    }

    /// Brings `count` elements into their form.
    fn enter(&self, b: &mut Builder, form: Form, dst: Loc, src: Loc, count: u64) {
        match form {
            Form::Scaled(bits) => b.premul(self.request.dtype, dst, src, count, bits),
            Form::Widened(wide) => b.widen(self.request.dtype, wide, dst, src, count, self.ranks),
        }
    }

    /// Where a plain reduction puts its result so that [`Self::leave`] brings it to `dst`.
    fn landing(form: Form, dst: Loc, slot: Loc) -> Loc {
        match form {
            Form::Scaled(_) => dst,
            Form::Widened(_) => slot,
        }
    }

    /// Brings the combination of `count` elements to `dst`.
    fn leave(&self, b: &mut Builder, form: Form, dst: Loc, result: Loc, count: u64) {
        match form {
            Form::Scaled(_) => {}
            Form::Widened(wide) => b.narrow_mean(self.request.dtype, wide, dst, result, count, self.ranks),
        }
    }

    /// A reduction over one buffer (AllReduce, Reduce).
    ///
    /// `run` adds the steps of a plain reduction of so many elements; `wanted`: this rank gets the result.
    pub(super) fn whole(
        &self,
        b: &mut Builder,
        buffers: Buffers,
        wanted: bool,
        mut run: impl FnMut(&mut Builder, Buffers, Reduction, u64),
    ) {
        let (reduction, form) = self.parts(b);
        let count = self.request.count;
        let Some(form) = form else {
            return run(b, buffers, reduction, count);
        };
        let elem = self.request.dtype.size() as u64;
        let (unit, lanes) = self.unit(form);
        let stretch = (self.segment / unit).max(count / MOST_SEGMENTS).min(count).max(1);
        let segments = count.div_ceil(stretch);
        let slots: Vec<Loc> = (0..SEGMENTS_IN_FLIGHT.min(segments))
            .map(|_| b.alloc(stretch * unit))
            .collect();
        let mark = b.mark();
        for (first, slot) in (0..segments).map(|i| i * stretch).zip(slots.iter().cycle()) {
            b.rewind(mark);
            let count = stretch.min(count - first);
            let (src, dst) = (buffers.src.plus(first * elem), buffers.dst.plus(first * elem));
            self.enter(b, form, *slot, src, count);
            let landing = if wanted {
                Self::landing(form, dst, *slot)
            } else {
                *slot
            };
            let inner = Buffers {
                src: *slot,
                dst: landing,
            };
            run(b, inner, reduction, count * lanes);
            if wanted {
                self.leave(b, form, dst, landing, count);
            }
        }
    }

    /// A reduction whose result is scattered: block `me` of `blocks`, each `(first element, elements)`, comes here.
    ///
    /// `run` adds the steps of a plain reduction: from the buffer at the first place, whose blocks are given, to the
    /// second place.
    pub(super) fn blocks(
        &self,
        b: &mut Builder,
        buffers: Buffers,
        me: usize,
        blocks: &[(u64, u64)],
        mut run: impl FnMut(&mut Builder, Buffers, Reduction, &[(u64, u64)]),
    ) {
        let (reduction, form) = self.parts(b);
        let Some(form) = form else {
            return run(b, buffers, reduction, blocks);
        };
        let elem = self.request.dtype.size() as u64;
        let (unit, lanes) = self.unit(form);
        // A segment holds the same stretch of every block, one after the other.
        let members = blocks.len() as u64;
        let longest = blocks.iter().map(|(_, count)| *count).max().unwrap_or(0);
        let room = (self.segment / unit / members)
            .max(LEAST_STRETCH)
            .max(longest / MOST_SEGMENTS);
        let stretch = room.min(longest).max(1);
        let rounds = longest.div_ceil(stretch);
        let slots: Vec<(Loc, Loc)> = (0..SEGMENTS_IN_FLIGHT.min(rounds))
            .map(|_| (b.alloc(stretch * members * unit), b.alloc(stretch * unit)))
            .collect();
        let mark = b.mark();
        for (start, (inputs, result)) in (0..rounds).map(|i| i * stretch).zip(slots.iter().cycle()) {
            b.rewind(mark);
            let piece =
                |(first, count): (u64, u64)| (first + start, count.saturating_sub(start).min(stretch));
            let mut packed = Vec::with_capacity(blocks.len());
            for (index, (first, count)) in (0u64..).zip(blocks.iter().copied().map(piece)) {
                let at = index * stretch;
                packed.push((at * lanes, count * lanes));
                if count > 0 {
                    let src = buffers.src.plus(first * elem);
                    self.enter(b, form, inputs.plus(at * unit), src, count);
                }
            }
            let mine = piece(blocks[me]).1;
            let dst = buffers.dst.plus(start * elem);
            let landing = Self::landing(form, dst, *result);
            let inner = Buffers {
                src: *inputs,
                dst: landing,
            };
            run(b, inner, reduction, &packed);
            if mine > 0 {
                self.leave(b, form, dst, landing, mine);
            }
        }
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
