//! What is asked: the collective, its operator, and the fields that are equal on all ranks.

use infiniccl_plugin_api as abi;
use infiniccl_reduce::{DataType, ReduceOp};
use std::fmt;
use std::str::FromStr;

macro_rules! collectives {
    ($($(#[$doc:meta])* $variant:ident = $code:ident => $text:literal,)+) => {
        /// A collective operation, or one half of a message between two ranks.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Collective { $($(#[$doc])* $variant,)+ }

        impl Collective {
            /// Every value.
            pub const ALL: &'static [Collective] = &[$(Collective::$variant),+];

            /// The name that the command line and the configuration use.
            pub const fn name(self) -> &'static str {
                match self { $(Collective::$variant => $text,)+ }
            }

            /// The code of the plugin ABI.
            pub const fn abi(self) -> abi::Collective {
                match self { $(Collective::$variant => abi::Collective::$code,)+ }
            }
        }

        impl FromStr for Collective {
            type Err = String;
            fn from_str(s: &str) -> Result<Self, String> {
                match s {
                    $($text => Ok(Collective::$variant),)+
                    other => Err(format!(
                        "unknown collective '{other}'; there are: {}",
                        Collective::ALL.iter().map(|c| c.name()).collect::<Vec<_>>().join(", ")
                    )),
                }
            }
        }
    };
}

collectives! {
    /// Every rank gets the reduction of all ranks' buffers.
    AllReduce = ALL_REDUCE => "all_reduce",
    /// Every rank gets the root's buffer.
    Broadcast = BROADCAST => "broadcast",
    /// The root gets the reduction of all ranks' buffers.
    Reduce = REDUCE => "reduce",
    /// Every rank gets all ranks' buffers, in rank order.
    AllGather = ALL_GATHER => "all_gather",
    /// Rank r gets block r of the reduction.
    ReduceScatter = REDUCE_SCATTER => "reduce_scatter",
    /// The root gets all ranks' buffers, in rank order.
    Gather = GATHER => "gather",
    /// Rank r gets block r of the root's buffer.
    Scatter = SCATTER => "scatter",
    /// Rank r's block s becomes rank s's block r.
    AllToAll = ALL_TO_ALL => "all_to_all",
    /// AllToAll with counts and displacements per rank.
    AllToAllV = ALL_TO_ALL_V => "all_to_all_v",
    /// AllGather with counts and displacements per rank.
    AllGatherV = ALL_GATHER_V => "all_gather_v",
    /// ReduceScatter with counts per rank.
    ReduceScatterV = REDUCE_SCATTER_V => "reduce_scatter_v",
    /// One half of a message: this rank sends.
    Send = SEND => "send",
    /// One half of a message: this rank receives.
    Recv = RECV => "recv",
    /// No rank leaves before all have entered.
    Barrier = BARRIER => "barrier",
}

impl Collective {
    /// Whether elements of several ranks are combined.
    pub const fn reduces(self) -> bool {
        use Collective::*;
        matches!(self, AllReduce | Reduce | ReduceScatter | ReduceScatterV)
    }

    /// Whether one rank is the source or the target.
    pub const fn has_root(self) -> bool {
        use Collective::*;
        matches!(self, Broadcast | Reduce | Gather | Scatter)
    }

    /// Whether it is one half of a message.
    pub const fn is_message(self) -> bool {
        matches!(self, Collective::Send | Collective::Recv)
    }
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How elements are combined: one of the fixed operators, or a sum of scaled inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RedOp {
    /// One of the fixed operators.
    Fixed(ReduceOp),
    /// The sum of inputs, each multiplied by its rank's own scalar, given as bits of the element type.
    PreMulSum {
        /// This rank's scalar, as little-endian bits of the element type.
        scalar_bits: u64,
    },
}

impl RedOp {
    /// The code of the plugin ABI.
    pub const fn abi(self) -> abi::RedOp {
        match self {
            RedOp::Fixed(op) => abi::RedOp(op.code()),
            RedOp::PreMulSum { .. } => abi::RedOp::PREMUL_SUM,
        }
    }

    /// The name that messages use.
    pub const fn name(self) -> &'static str {
        match self {
            RedOp::Fixed(op) => op.name(),
            RedOp::PreMulSum { .. } => "premul_sum",
        }
    }
}

impl From<ReduceOp> for RedOp {
    fn from(op: ReduceOp) -> Self {
        RedOp::Fixed(op)
    }
}

/// One call, in the fields that are equal on all ranks; `scalar_bits` of PREMUL_SUM is the one local value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Request {
    pub(crate) collective: Collective,
    pub(crate) dtype: DataType,
    pub(crate) op: RedOp,
    /// Elements, counted as NCCL does for this collective.
    pub(crate) count: u64,
    pub(crate) root: u32,
}

impl Request {
    /// Bytes of `count` elements.
    pub(crate) fn bytes(&self) -> u64 {
        self.count * self.dtype.size() as u64
    }
}
