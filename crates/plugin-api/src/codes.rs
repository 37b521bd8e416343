//! Enumerations that cross the boundary: transparent integers, so that an unknown code is never undefined.

use abi_stable::StableAbi;

macro_rules! code {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $value:ident = $number:literal,)+ }) => {
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(StableAbi, Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
        pub struct $name(pub u32);

        impl $name {
            $($(#[$vdoc])* pub const $value: $name = $name($number);)+

            /// The name of a known code.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 { $($number => Some(stringify!($value)),)+ _ => None }
            }
        }
    };
}

code! {
    /// A collective operation, or one half of a point-to-point message.
    Collective {
        /// Every rank gets the reduction of all ranks' buffers.
        ALL_REDUCE = 0,
        /// Every rank gets the root's buffer.
        BROADCAST = 1,
        /// The root gets the reduction of all ranks' buffers.
        REDUCE = 2,
        /// Every rank gets all ranks' buffers, in rank order.
        ALL_GATHER = 3,
        /// Rank r gets block r of the reduction.
        REDUCE_SCATTER = 4,
        /// The root gets all ranks' buffers, in rank order.
        GATHER = 5,
        /// Rank r gets block r of the root's buffer.
        SCATTER = 6,
        /// Rank r's block s becomes rank s's block r.
        ALL_TO_ALL = 7,
        /// As [`Self::ALL_TO_ALL`], with counts and displacements per rank.
        ALL_TO_ALL_V = 8,
        /// As [`Self::ALL_GATHER`], with counts and displacements per rank.
        ALL_GATHER_V = 9,
        /// As [`Self::REDUCE_SCATTER`], with counts per rank.
        REDUCE_SCATTER_V = 10,
        /// Half of a message between two ranks: this rank sends.
        SEND = 11,
        /// Half of a message between two ranks: this rank receives.
        RECV = 12,
        /// No rank leaves before all have entered.
        BARRIER = 13,
        /// Capability rows only: element-wise reduction on the device, without peers.
        LOCAL_REDUCE = 64,
        /// Capability rows only: multiplication by a factor on the device, without peers.
        LOCAL_SCALE = 65,
    }
}

code! {
    /// The type of an element; the numbers of the C interface.
    DType {
        /// 8-bit signed integer.
        INT8 = 0,
        /// 16-bit signed integer.
        INT16 = 1,
        /// 32-bit signed integer.
        INT32 = 2,
        /// 64-bit signed integer.
        INT64 = 3,
        /// 8-bit unsigned integer.
        UINT8 = 4,
        /// 16-bit unsigned integer.
        UINT16 = 5,
        /// 32-bit unsigned integer.
        UINT32 = 6,
        /// 64-bit unsigned integer.
        UINT64 = 7,
        /// IEEE 754 binary16.
        FLOAT16 = 8,
        /// bfloat16.
        BFLOAT16 = 9,
        /// IEEE 754 binary32.
        FLOAT32 = 10,
        /// IEEE 754 binary64.
        FLOAT64 = 11,
        /// OCP FP8 E4M3 (finite and NaN).
        FLOAT8_E4M3 = 12,
        /// OCP FP8 E5M2.
        FLOAT8_E5M2 = 13,
        /// One byte, zero or one.
        BOOL = 14,
    }
}

code! {
    /// A reduction operator; the numbers of the C interface.
    RedOp {
        /// Sum.
        SUM = 0,
        /// Product.
        PROD = 1,
        /// Maximum.
        MAX = 2,
        /// Minimum.
        MIN = 3,
        /// Arithmetic mean.
        AVG = 4,
        /// Sum of inputs that were each multiplied by the caller's `scale_bits`.
        PREMUL_SUM = 5,
    }
}

code! {
    /// A kind of memory.
    MemKind {
        /// Pageable host memory.
        HOST = 0,
        /// Host memory that the device reads and writes by itself.
        PINNED = 1,
        /// Memory of the device.
        DEVICE = 2,
        /// Memory that moves between host and device by itself.
        MANAGED = 3,
    }
}

code! {
    /// How far apart the ranks of a capability row may be.
    Scope {
        /// One device.
        DEVICE = 0,
        /// One node.
        NODE = 1,
        /// Several nodes.
        FABRIC = 2,
    }
}

code! {
    /// What a [`crate::WorkRequest`] asks of a channel.
    WorkOp {
        /// The next message of the channel, out.
        SEND = 0,
        /// The next message of the channel, in.
        RECV = 1,
        /// One-sided write.
        PUT = 2,
        /// One-sided write that is followed by a signal with `imm`.
        PUT_SIGNAL = 3,
        /// One-sided read.
        GET = 4,
        /// Makes earlier one-sided writes visible to the memory's owner.
        FLUSH = 5,
    }
}

code! {
    /// Severity of a plugin's log line.
    LogLevel {
        /// The operation failed.
        ERROR = 1,
        /// It works, but not as it should.
        WARN = 2,
        /// What was found and chosen.
        INFO = 3,
        /// For developers.
        DEBUG = 4,
        /// For developers, per message.
        TRACE = 5,
    }
}

code! {
    /// State of a channel between two ranks.
    ChannelState {
        /// Being set up; work may be posted already.
        CONNECTING = 0,
        /// Both ends proved themselves.
        READY = 1,
        /// Unusable for good.
        FAILED = 2,
        /// Closed in good order by either end.
        CLOSED = 3,
    }
}
