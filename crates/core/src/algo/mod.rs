//! The flat algorithms: pure functions that add one rank's steps of a collective to a
//! [`Builder`](crate::schedule::Builder).
//!
//! Rules that all of them keep:
//! - run one after the other, the steps give the right answer, also when input and output are the same memory;
//! - what rank A sends to rank B is, in number, order and size, what B receives from A;
//! - no step waits for one that waits for it, even if a send ends only when the peer receives;
//! - scratch memory is a few chunks ([`Tuning`]), whatever the message is, and no message is longer than
//!   [`Tuning::chunk_for`];
//! - memory that the collective does not give to this rank (the output of Reduce on other ranks than the root, say)
//!   is not touched.
#![forbid(unsafe_code)]

pub(crate) mod all_gather;
pub(crate) mod all_to_all;
pub(crate) mod allreduce;
pub(crate) mod barrier;
mod blocks;
pub(crate) mod broadcast;
pub(crate) mod cost;
mod fold;
pub(crate) mod gather;
pub(crate) mod reduce;
pub(crate) mod reduce_scatter;
pub(crate) mod scatter;
mod staging;
#[cfg(test)]
mod tests;
mod tree;

pub(crate) use blocks::{Blocks, Span};

use crate::schedule::{Builder, Loc, Operand};
use infiniccl_reduce::{DataType, ReduceOp};

/// Chunks are multiples of this, so that a chunk boundary is an element boundary of every data type.
const CHUNK_ALIGN: u64 = 64;

/// A message is cut into at most about this many chunks, which bounds the steps of a schedule.
const MOST_CHUNKS: u64 = 4096;

/// The ranks that take part, in ring order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Group<'a> {
    /// Ranks of the communicator; neighbours here should be neighbours in the machine.
    pub(crate) ranks: &'a [u32],
    /// Where in `ranks` this rank is.
    pub(crate) me: usize,
}

impl Group<'_> {
    /// How many ranks take part.
    fn len(&self) -> usize {
        self.ranks.len()
    }

    /// The member `steps` after this one, around the ring.
    fn after(&self, steps: usize) -> usize {
        (self.me + steps) % self.len()
    }

    /// The member `steps` before this one, around the ring.
    fn before(&self, steps: usize) -> usize {
        (self.me + self.len() - steps % self.len()) % self.len()
    }

    /// The communicator rank of the next member.
    fn next(&self) -> u32 {
        self.ranks[self.after(1)]
    }

    /// The communicator rank of the previous member.
    fn prev(&self) -> u32 {
        self.ranks[self.before(1)]
    }

    /// The same ring, counted from `root`; the second value is this rank's place in it.
    fn from(&self, root: usize) -> (impl Fn(usize) -> usize, usize) {
        let p = self.len();
        (move |v: usize| (v + root) % p, (self.me + p - root) % p)
    }
}

/// How messages are cut.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tuning {
    /// Bytes of a chunk; what is longer is sent in chunks.
    pub(crate) chunk: u64,
    /// Chunks in flight: how many may be received before the first of them has been used.
    pub(crate) slots: u32,
}

impl Tuning {
    /// Bytes of the chunks of a call on `bytes` bytes: [`Tuning::chunk`], larger where there would be too many
    /// chunks, and a multiple of 64.
    pub(crate) fn chunk_for(&self, bytes: u64) -> u64 {
        let chunk = self.chunk.max(bytes.div_ceil(MOST_CHUNKS)).max(1);
        chunk
            .checked_next_multiple_of(CHUNK_ALIGN)
            .unwrap_or(chunk - chunk % CHUNK_ALIGN)
    }

    fn slots(&self) -> usize {
        self.slots.max(1) as usize
    }
}

/// Input and output of this rank.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Buffers {
    pub(crate) src: Loc,
    pub(crate) dst: Loc,
}

/// How elements are combined.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reduction {
    pub(crate) dtype: DataType,
    /// Never AVG: of floats it is a sum with factors, of integers a sum of wide elements.
    pub(crate) op: ReduceOp,
    /// The inputs have not been multiplied by the schedule's factor yet: do it as each is loaded.
    pub(crate) raw: bool,
    /// Multiply what this group has completed by the schedule's factor on the result.
    pub(crate) last: bool,
}

/// What a step of a [`Reduction`] makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// A value that more will be combined with.
    Partial,
    /// The combination of all members' inputs.
    Complete,
}

impl Outcome {
    fn complete_if(complete: bool) -> Self {
        if complete {
            Outcome::Complete
        } else {
            Outcome::Partial
        }
    }
}

impl Reduction {
    fn elem(&self) -> u64 {
        self.dtype.size() as u64
    }

    /// An operand that is one rank's input as it was given.
    fn input(&self, at: Loc) -> Operand {
        Operand { at, pre: self.raw }
    }

    /// An operand that an earlier reduction made.
    fn partial(&self, at: Loc) -> Operand {
        Operand { at, pre: false }
    }

    /// Adds the step `dst = op(operands)` on `bytes` bytes.
    fn combine(&self, b: &mut Builder, dst: Loc, operands: &[Operand], bytes: u64, outcome: Outcome) {
        let post = self.last && outcome == Outcome::Complete;
        b.reduce((self.dtype, self.op), dst, operands, bytes / self.elem(), post);
    }

    /// All of a reduction in a group of one.
    fn alone(&self, b: &mut Builder, buffers: Buffers, bytes: u64, chunk: u64) {
        for piece in Span::whole(bytes).pieces(chunk) {
            let (src, dst) = (buffers.src.plus(piece.offset), buffers.dst.plus(piece.offset));
            if self.raw || self.last || self.dtype == DataType::Bool {
                self.combine(b, dst, &[self.input(src)], piece.bytes, Outcome::Complete);
            } else {
                b.copy(dst, src, piece.bytes);
            }
        }
    }
}
