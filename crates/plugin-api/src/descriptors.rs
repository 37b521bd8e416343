//! Plain data that crosses the boundary; sizes never change, each struct ends in reserved words.

use crate::{Collective, DType, MemKind, RedOp, Scope, WorkOp};
use abi_stable::StableAbi;

/// A string borrowed for the call: `len` bytes of UTF-8 at `ptr`, without a terminating zero.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, Copy)]
pub struct Str {
    /// First byte; may be null when `len` is zero.
    pub ptr: *const u8,
    /// Bytes.
    pub len: u64,
}

/// One row of a property list; unknown keys are ignored by both sides.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, Copy)]
pub struct Property {
    /// Name, for example `"bus_id"` or an option of the configuration.
    pub key: Str,
    /// Value as text.
    pub value: Str,
}

/// Where a plugin puts properties: the plugin calls `put` for each row; strings are copied by the host at once.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct PropertySink {
    /// Passed back as the first argument of `put`.
    pub context: *mut std::ffi::c_void,
    /// Takes one row.
    pub put: extern "C" fn(context: *mut std::ffi::c_void, key: Str, value: Str),
}

/// A function with its argument, called at most once.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct Callback {
    /// Passed to the function.
    pub argument: *mut std::ffi::c_void,
    /// What to call.
    pub function: extern "C" fn(argument: *mut std::ffi::c_void),
}

/// A caller's buffer for text or bytes: the callee writes at most `capacity` bytes and stores the full length.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, Copy)]
pub struct Buffer {
    /// Where to write; may be null when `capacity` is zero.
    pub ptr: *mut u8,
    /// Bytes that fit.
    pub capacity: u64,
    /// Receives the number of bytes there are, also when they did not fit.
    pub len: *mut u64,
}

/// One collective, or one half of a message, of a vendor communicator.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, Copy)]
pub struct CollDesc {
    /// What to do.
    pub collective: Collective,
    /// Element type.
    pub dtype: DType,
    /// Operator of a reduction; ignored otherwise.
    pub op: RedOp,
    /// Zero.
    pub flags: u32,
    /// Rank whose buffer is the source or the target of a rooted collective.
    pub root: u32,
    /// The other rank of SEND and RECV.
    pub peer: u32,
    /// Input; may equal `recv` where NCCL's in-place rules allow it.
    pub send: *const u8,
    /// Output.
    pub recv: *mut u8,
    /// Elements, counted as in NCCL (per rank for gathers and scatters, of the output for REDUCE_SCATTER).
    pub count: u64,
    /// V collectives: elements per rank, else null. For ALL_TO_ALL_V: of the sent blocks, then of the received.
    pub counts: *const u64,
    /// V collectives: displacement of each rank's block in elements, else null; laid out as `counts`.
    pub displs: *const u64,
    /// PREMUL_SUM: the factor, as bits of the element type.
    pub scale_bits: u64,
    /// Equal on all ranks that mean the same call; a library that can compare it answers
    /// [`crate::Status::MISMATCH`] when a peer's differs. Zero: do not compare.
    pub check: u64,
    /// Zero.
    pub reserved: [u64; 4],
}

/// One thing that a vendor's library or device can do by itself.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, Copy, PartialEq, Eq)]
pub struct CapRow {
    /// Which collective or local operation.
    pub collective: Collective,
    /// How far apart the ranks may be.
    pub scope: Scope,
    /// Bit n set: the dtype with code n.
    pub dtype_mask: u64,
    /// Bit n set: the operator with code n; zero for collectives without one.
    pub op_mask: u64,
    /// Bit n set: memory of the kind with code n.
    pub mem_mask: u64,
    /// Fewest ranks.
    pub min_ranks: u64,
    /// Most ranks; zero: no limit.
    pub max_ranks: u64,
    /// Smallest message in bytes.
    pub min_bytes: u64,
    /// Largest message in bytes; zero: no limit.
    pub max_bytes: u64,
    /// What holds for the results: [`cap_flags`].
    pub flags: u64,
    /// Fixed cost of a call in ns; zero: unknown.
    pub alpha_ns: u64,
    /// Cost of a byte in ps; zero: unknown.
    pub beta_ps_per_byte: u64,
    /// Zero.
    pub reserved: [u64; 2],
}

/// Bits of [`CapRow::flags`].
pub mod cap_flags {
    /// Works with the output in place of the input.
    pub const IN_PLACE: u64 = 1;
    /// Works with separate input and output.
    pub const OUT_OF_PLACE: u64 = 1 << 1;
    /// Sums FP16, BF16 and FP8 in FP32 and rounds once.
    pub const ACCUMULATES_FP32: u64 = 1 << 2;
    /// NaN propagates through MIN and MAX; -0 < +0.
    pub const NAN_KEPT: u64 = 1 << 3;
    /// AVG is exact for integers and does not overflow before the division.
    pub const EXACT_AVG: u64 = 1 << 4;
    /// FP8 saturates to the largest finite value.
    pub const FP8_SATURATES: u64 = 1 << 5;
    /// All ranks end with the same bytes.
    pub const SAME_BYTES: u64 = 1 << 6;
    /// The same bytes from run to run.
    pub const DETERMINISTIC: u64 = 1 << 7;
    /// May be captured in a graph of the device.
    pub const GRAPH_CAPTURABLE: u64 = 1 << 8;
    /// The library can serve only one rank in a process.
    pub const ONE_RANK_PER_PROCESS: u64 = 1 << 9;
    /// `enqueue` blocks its caller until the work is done.
    pub const BLOCKS_CALLER: u64 = 1 << 10;
    /// The library compares [`super::CollDesc::check`] between ranks.
    pub const COMPARES_CHECK: u64 = 1 << 11;
}

/// One copy of a batch; source and target must not overlap.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, Copy)]
pub struct CopyDesc {
    /// Target.
    pub dst: *mut u8,
    /// Source.
    pub src: *const u8,
    /// Bytes.
    pub bytes: u64,
    /// Kind of the target's memory.
    pub dst_kind: MemKind,
    /// Kind of the source's memory.
    pub src_kind: MemKind,
    /// Zero.
    pub reserved: [u64; 2],
}

/// An element-wise reduction on the device: `dst = (inputs[0]·pre op inputs[1]·pre …)·post`.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, Copy)]
pub struct ReduceDesc {
    /// Element type.
    pub dtype: DType,
    /// Operator; AVG is never asked here.
    pub op: RedOp,
    /// Target; may equal one of the inputs.
    pub dst: *mut u8,
    /// `input_count` pointers.
    pub inputs: *const *const u8,
    /// How many inputs.
    pub input_count: u64,
    /// Elements.
    pub count: u64,
    /// Bit n set: input n is multiplied by `pre` while it is loaded.
    pub pre_mask: u64,
    /// Bits of an f64: the factor on load.
    pub pre_bits: u64,
    /// Bits of an f64: the factor on the result.
    pub post_bits: u64,
    /// Zero.
    pub reserved: [u64; 2],
}

/// A scaling on the device: `dst = src·factor`, in place allowed.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, Copy)]
pub struct ScaleDesc {
    /// Element type.
    pub dtype: DType,
    /// Zero.
    pub flags: u32,
    /// Target.
    pub dst: *mut u8,
    /// Source.
    pub src: *const u8,
    /// Elements.
    pub count: u64,
    /// Bits of an f64: the factor.
    pub factor_bits: u64,
    /// Zero.
    pub reserved: [u64; 2],
}

/// What a device says of a pointer.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, Copy, Default)]
pub struct MemInfo {
    /// Kind of memory.
    pub kind: MemKind,
    /// Device that owns it; meaningless for host memory.
    pub device: u32,
    /// Start of the allocation; zero: unknown.
    pub base: u64,
    /// Bytes of the allocation; zero: unknown.
    pub len: u64,
    /// Changes when memory is freed and handed out again; zero: unknown, so that nothing may be cached for it.
    pub allocation_id: u64,
    /// Zero.
    pub reserved: [u64; 2],
}

/// How a channel between two ranks is opened.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, Copy)]
pub struct ChannelParams {
    /// Rank of this end, in the communicator.
    pub local_rank: u32,
    /// Rank of the other end.
    pub remote_rank: u32,
    /// Distinguishes several channels between the same two ranks.
    pub lane: u32,
    /// Zero.
    pub flags: u32,
    /// Time limit of the set-up in ns, from the call on.
    pub timeout_ns: u64,
    /// Zero.
    pub reserved: [u64; 2],
}

/// One piece of work for a channel.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, Copy)]
pub struct WorkRequest {
    /// What to do.
    pub op: WorkOp,
    /// Carried with SEND and PUT_SIGNAL to the other end's completion.
    pub imm: u32,
    /// Channel handle.
    pub channel: u64,
    /// Local memory.
    pub addr: *mut u8,
    /// Bytes; of a RECV exactly those of the matching SEND.
    pub len: u64,
    /// Registration of `addr`, or zero where the device asks for none.
    pub key: u64,
    /// Comes back in the completion; chosen by the caller.
    pub token: u64,
    /// One-sided operations: the remote address.
    pub remote_addr: u64,
    /// One-sided operations: the remote registration.
    pub remote_key: u64,
    /// Zero.
    pub flags: u64,
    /// Zero.
    pub reserved: [u64; 2],
}

/// The end of one [`WorkRequest`].
#[repr(C)]
#[derive(StableAbi, Debug, Clone, Copy)]
pub struct Completion {
    /// The token of the request.
    pub token: u64,
    /// The channel of the request.
    pub channel: u64,
    /// Bytes moved; with MISMATCH on a RECV, the bytes that the peer sent.
    pub bytes: u64,
    /// Outcome.
    pub status: crate::Status,
    /// The sender's `imm`, on a RECV.
    pub imm: u32,
    /// Zero.
    pub reserved: [u64; 2],
}
