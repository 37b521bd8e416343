//! The oracle's own names of collectives, element types and operators.

use std::fmt;

macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident => $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$vdoc])* $variant,)+ }

        impl $name {
            /// Every value.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// The name on the command line.
            pub fn name(self) -> &'static str {
                match self { $($name::$variant => $text,)+ }
            }

            /// The value of that name.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|v| v.name() == name)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

named! {
    /// The type of an element.
    Dtype {
        /// 8-bit signed.
        Int8 => "int8",
        /// 16-bit signed.
        Int16 => "int16",
        /// 32-bit signed.
        Int32 => "int32",
        /// 64-bit signed.
        Int64 => "int64",
        /// 8-bit unsigned.
        Uint8 => "uint8",
        /// 16-bit unsigned.
        Uint16 => "uint16",
        /// 32-bit unsigned.
        Uint32 => "uint32",
        /// 64-bit unsigned.
        Uint64 => "uint64",
        /// binary16.
        Float16 => "float16",
        /// The upper half of binary32.
        BFloat16 => "bfloat16",
        /// binary32.
        Float32 => "float32",
        /// binary64.
        Float64 => "float64",
        /// OCP E4M3, without infinities.
        Float8E4M3 => "float8_e4m3",
        /// OCP E5M2.
        Float8E5M2 => "float8_e5m2",
        /// A byte that is 0 or 1.
        Bool => "bool",
    }
}

named! {
    /// How elements of all ranks are combined.
    Op {
        /// Sum; wraps for integers, or for bool.
        Sum => "sum",
        /// Product; wraps for integers, and for bool.
        Prod => "prod",
        /// Maximum; NaN wins.
        Max => "max",
        /// Minimum; NaN wins.
        Min => "min",
        /// Mean; truncated toward zero for integers, not defined for bool.
        Avg => "avg",
    }
}

named! {
    /// What is asked of the ranks. Counts are those of NCCL's calls.
    Collective {
        /// Every rank gets the combination of all.
        AllReduce => "all_reduce",
        /// Every rank gets the root's elements.
        Broadcast => "broadcast",
        /// The root gets the combination of all.
        Reduce => "reduce",
        /// Every rank gets the elements of all, in order.
        AllGather => "all_gather",
        /// Rank r gets the r-th block of the combination.
        ReduceScatter => "reduce_scatter",
        /// The root gets the elements of all, in order.
        Gather => "gather",
        /// Rank r gets the r-th block of the root's elements.
        Scatter => "scatter",
        /// Rank r gets the r-th block of every rank.
        AllToAll => "all_to_all",
        /// The same with blocks of any size.
        AllToAllV => "all_to_all_v",
        /// AllGather of blocks of any size.
        AllGatherV => "all_gather_v",
        /// ReduceScatter to blocks of any size.
        ReduceScatterV => "reduce_scatter_v",
        /// Each rank sends to the next one, the last to the first.
        SendRecv => "send_recv",
    }
}

impl Dtype {
    /// Bytes of an element.
    pub fn size(self) -> usize {
        use Dtype::*;
        match self {
            Int8 | Uint8 | Float8E4M3 | Float8E5M2 | Bool => 1,
            Int16 | Uint16 | Float16 | BFloat16 => 2,
            Int32 | Uint32 | Float32 => 4,
            Int64 | Uint64 | Float64 => 8,
        }
    }

    /// Whether it is a floating-point type.
    pub fn is_float(self) -> bool {
        use Dtype::*;
        matches!(
            self,
            Float16 | BFloat16 | Float32 | Float64 | Float8E4M3 | Float8E5M2
        )
    }

    /// Whether `op` is defined on it.
    pub fn supports(self, op: Op) -> bool {
        (self, op) != (Dtype::Bool, Op::Avg)
    }
}

impl Collective {
    /// Whether elements are combined, so that an operator belongs to the call.
    pub fn reduces(self) -> bool {
        use Collective::*;
        match self {
            AllReduce | Reduce | ReduceScatter | ReduceScatterV => true,
            Broadcast | AllGather | Gather | Scatter | AllToAll | AllToAllV | AllGatherV | SendRecv => false,
        }
    }

    /// Whether one rank has a part of its own.
    pub fn has_root(self) -> bool {
        use Collective::*;
        match self {
            Broadcast | Reduce | Gather | Scatter => true,
            AllReduce | AllGather | ReduceScatter | AllToAll | AllToAllV | AllGatherV | ReduceScatterV
            | SendRecv => false,
        }
    }
}
