//! An untyped call: what the typed functions, the C interface and the command build.

use crate::call::{Collective, RedOp};
use infiniccl_reduce::{DataType, ReduceOp};

/// Counts and displacements of a V collective, in elements, indexed by rank.
///
/// For [`Collective::AllToAllV`] the `send_` fields describe the blocks of the input and the `recv_` fields those
/// of the output. [`Collective::AllGatherV`] reads `recv_counts` and `recv_displs`;
/// [`Collective::ReduceScatterV`] reads `send_counts`, whose blocks lie one after the other.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct VectorCounts {
    /// Elements of each block of the input.
    pub send_counts: Vec<u64>,
    /// Where each block of the input starts.
    pub send_displs: Vec<u64>,
    /// Elements of each block of the output.
    pub recv_counts: Vec<u64>,
    /// Where each block of the output starts.
    pub recv_displs: Vec<u64>,
}

/// One call on untyped memory, in NCCL's terms.
///
/// `count` is counted as in NCCL: elements of the buffer for AllReduce, Broadcast, Reduce and messages, elements
/// of one rank's part for AllGather, Gather, Scatter and AllToAll, elements of the output for ReduceScatter.
#[derive(Debug, Clone)]
pub struct RawCall {
    pub(crate) collective: Collective,
    pub(crate) send: *const u8,
    pub(crate) recv: *mut u8,
    pub(crate) count: u64,
    pub(crate) dtype: DataType,
    pub(crate) op: RedOp,
    pub(crate) root: u32,
    pub(crate) peer: u32,
    pub(crate) vector: Option<VectorCounts>,
}

impl RawCall {
    fn new(collective: Collective, send: *const u8, recv: *mut u8, count: u64, dtype: DataType) -> Self {
        RawCall {
            collective,
            send,
            recv,
            count,
            dtype,
            op: RedOp::Fixed(ReduceOp::Sum),
            root: 0,
            peer: 0,
            vector: None,
        }
    }

    /// AllReduce of `count` elements.
    pub fn all_reduce(
        send: *const u8,
        recv: *mut u8,
        count: u64,
        dtype: DataType,
        op: impl Into<RedOp>,
    ) -> Self {
        RawCall {
            op: op.into(),
            ..Self::new(Collective::AllReduce, send, recv, count, dtype)
        }
    }

    /// Broadcast of `count` elements from `root`; `send` is read on the root only.
    pub fn broadcast(send: *const u8, recv: *mut u8, count: u64, dtype: DataType, root: u32) -> Self {
        RawCall {
            root,
            ..Self::new(Collective::Broadcast, send, recv, count, dtype)
        }
    }

    /// Reduce of `count` elements to `root`; `recv` is written on the root only.
    pub fn reduce(
        send: *const u8,
        recv: *mut u8,
        count: u64,
        dtype: DataType,
        op: impl Into<RedOp>,
        root: u32,
    ) -> Self {
        RawCall {
            op: op.into(),
            root,
            ..Self::new(Collective::Reduce, send, recv, count, dtype)
        }
    }

    /// AllGather of `count` elements per rank.
    pub fn all_gather(send: *const u8, recv: *mut u8, count: u64, dtype: DataType) -> Self {
        Self::new(Collective::AllGather, send, recv, count, dtype)
    }

    /// ReduceScatter with `count` elements of output per rank.
    pub fn reduce_scatter(
        send: *const u8,
        recv: *mut u8,
        count: u64,
        dtype: DataType,
        op: impl Into<RedOp>,
    ) -> Self {
        RawCall {
            op: op.into(),
            ..Self::new(Collective::ReduceScatter, send, recv, count, dtype)
        }
    }

    /// Gather of `count` elements per rank to `root`; `recv` is written on the root only.
    pub fn gather(send: *const u8, recv: *mut u8, count: u64, dtype: DataType, root: u32) -> Self {
        RawCall {
            root,
            ..Self::new(Collective::Gather, send, recv, count, dtype)
        }
    }

    /// Scatter of `count` elements per rank from `root`; `send` is read on the root only.
    pub fn scatter(send: *const u8, recv: *mut u8, count: u64, dtype: DataType, root: u32) -> Self {
        RawCall {
            root,
            ..Self::new(Collective::Scatter, send, recv, count, dtype)
        }
    }

    /// AllToAll with `count` elements per pair of ranks.
    pub fn all_to_all(send: *const u8, recv: *mut u8, count: u64, dtype: DataType) -> Self {
        Self::new(Collective::AllToAll, send, recv, count, dtype)
    }

    /// AllToAll with blocks of any size; a rank knows its own blocks only.
    pub fn all_to_all_v(send: *const u8, recv: *mut u8, counts: VectorCounts, dtype: DataType) -> Self {
        RawCall {
            vector: Some(counts),
            ..Self::new(Collective::AllToAllV, send, recv, 0, dtype)
        }
    }

    /// AllGather with blocks of any size; all ranks give the same `recv_counts` and `recv_displs`.
    pub fn all_gather_v(send: *const u8, recv: *mut u8, counts: VectorCounts, dtype: DataType) -> Self {
        RawCall {
            vector: Some(counts),
            ..Self::new(Collective::AllGatherV, send, recv, 0, dtype)
        }
    }

    /// ReduceScatter with blocks of any size; all ranks give the same `send_counts`.
    pub fn reduce_scatter_v(
        send: *const u8,
        recv: *mut u8,
        counts: VectorCounts,
        dtype: DataType,
        op: impl Into<RedOp>,
    ) -> Self {
        let call = Self::new(Collective::ReduceScatterV, send, recv, 0, dtype);
        RawCall {
            op: op.into(),
            vector: Some(counts),
            ..call
        }
    }

    /// One half of a message: `count` elements to rank `peer`.
    pub fn send(send: *const u8, count: u64, dtype: DataType, peer: u32) -> Self {
        RawCall {
            peer,
            ..Self::new(Collective::Send, send, std::ptr::null_mut(), count, dtype)
        }
    }

    /// One half of a message: `count` elements from rank `peer`.
    pub fn recv(recv: *mut u8, count: u64, dtype: DataType, peer: u32) -> Self {
        RawCall {
            peer,
            ..Self::new(Collective::Recv, std::ptr::null(), recv, count, dtype)
        }
    }

    /// A barrier.
    pub fn barrier() -> Self {
        Self::new(
            Collective::Barrier,
            std::ptr::null(),
            std::ptr::null_mut(),
            0,
            DataType::Uint8,
        )
    }

    /// The collective that is asked for.
    pub fn collective(&self) -> Collective {
        self.collective
    }
}
