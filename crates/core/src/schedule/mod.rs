//! A schedule: what one rank does for one call, as data. Algorithms build it, the executor and the simulator run it.
//!
//! Addresses are relative to three bases that are patched in when the schedule is run: the caller's input, the
//! caller's output, and scratch memory. Sends to one peer leave in program order and meet that peer's receives
//! in its program order, so no tags are needed; every other order is a dependency that [`Builder`] found.
#![forbid(unsafe_code)]

mod builder;
mod hazard;

pub(crate) use builder::{Builder, InPlace};

use infiniccl_plugin_api::{Collective, RedOp};
use infiniccl_reduce::{DataType, ReduceOp, Wide};

/// Which memory an address is relative to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Base {
    /// The caller's input.
    Send,
    /// The caller's output.
    Recv,
    /// Memory of the executor, private to the call.
    Scratch,
}

/// A place in memory: `offset` bytes after a base.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Loc {
    pub(crate) base: Base,
    pub(crate) offset: u64,
}

impl Loc {
    pub(crate) const fn new(base: Base, offset: u64) -> Self {
        Loc { base, offset }
    }

    /// The place `bytes` further on.
    pub(crate) const fn plus(self, bytes: u64) -> Self {
        Loc {
            base: self.base,
            offset: self.offset + bytes,
        }
    }
}

/// One input of a reduction; `pre`: the AVG factor is applied while it is loaded, since nobody did before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Operand {
    pub(crate) at: Loc,
    pub(crate) pre: bool,
}

/// A collective of the island's vendor library; ranks are those of the island.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct VendorCall {
    pub(crate) collective: Collective,
    pub(crate) dtype: DataType,
    /// A code of the plugin ABI, since PREMUL_SUM is one.
    pub(crate) op: RedOp,
    pub(crate) root: u32,
    pub(crate) send: Loc,
    pub(crate) recv: Loc,
    /// Elements, as the plugin ABI counts them for this collective.
    pub(crate) count: u64,
    pub(crate) scale_bits: u64,
}

/// What a step does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Action {
    /// The next message to a rank of the communicator.
    Send { peer: u32, src: Loc, bytes: u64 },
    /// The next message from a rank of the communicator.
    Recv { peer: u32, dst: Loc, bytes: u64 },
    /// A copy on the host.
    Copy { dst: Loc, src: Loc, bytes: u64 },
    /// `dst = op over operands first..first+len`, times the AVG factor on the result if `post`.
    Reduce {
        dtype: DataType,
        op: ReduceOp,
        dst: Loc,
        first: u32,
        len: u32,
        count: u64,
        post: bool,
    },
    /// `dst = src · scalar`; the scalar's bits are those of the element type.
    Premul {
        dtype: DataType,
        dst: Loc,
        src: Loc,
        count: u64,
        scalar_bits: u64,
    },
    /// Integer AVG: elements to wide partial sums, for a mean over `ranks`.
    Widen {
        dtype: DataType,
        wide: Wide,
        dst: Loc,
        src: Loc,
        count: u64,
        ranks: u64,
    },
    /// Integer AVG: wide sums to exact means over `ranks`.
    NarrowMean {
        dtype: DataType,
        wide: Wide,
        dst: Loc,
        src: Loc,
        count: u64,
        ranks: u64,
    },
    /// A group of collectives of the vendor's library, calls `first..first+len`.
    Vendor { first: u32, len: u32 },
}

/// One rank's part of one call.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Schedule {
    pub(crate) actions: Vec<Action>,
    /// Operands of the reductions.
    pub(crate) operands: Vec<Operand>,
    /// Calls of the vendor steps.
    pub(crate) vendor_calls: Vec<VendorCall>,
    /// For each step, how many steps must be done before it may start.
    pub(crate) wait_counts: Vec<u32>,
    /// Steps that wait for step `i`: `dependents[starts[i]..starts[i + 1]]`.
    pub(crate) dependent_starts: Vec<u32>,
    pub(crate) dependents: Vec<u32>,
    /// Counts and displacements of a vendor call with blocks of any size, as the plugin ABI lays them out.
    pub(crate) vector_counts: Vec<u64>,
    pub(crate) vector_displs: Vec<u64>,
    /// Bytes of scratch memory.
    pub(crate) scratch_bytes: u64,
    /// AVG of floats: the factor on load and the factor on the result; 1 otherwise.
    pub(crate) pre_factor: f64,
    pub(crate) post_factor: f64,
}

impl Schedule {
    /// The steps that wait for `step`.
    pub(crate) fn dependents_of(&self, step: usize) -> &[u32] {
        &self.dependents[self.dependent_starts[step] as usize..self.dependent_starts[step + 1] as usize]
    }

    /// The operands of a [`Action::Reduce`].
    pub(crate) fn operands_of(&self, first: u32, len: u32) -> &[Operand] {
        &self.operands[first as usize..(first + len) as usize]
    }

    /// The calls of a [`Action::Vendor`].
    pub(crate) fn calls_of(&self, first: u32, len: u32) -> &[VendorCall] {
        &self.vendor_calls[first as usize..(first + len) as usize]
    }
}
