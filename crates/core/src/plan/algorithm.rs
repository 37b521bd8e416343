//! The ways to carry out a collective, and their names.

use crate::call::Collective;
use std::fmt;

/// A way to carry out a collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Algorithm {
    /// One call of the island's vendor library.
    Vendor,
    /// Vendor library inside the islands, flat between them, with so many concurrent flows.
    Hierarchical {
        flows: u32,
    },
    RecursiveDoubling,
    Rabenseifner,
    Ring,
    DoubleTree,
    Direct,
    RecursiveHalving,
    Binomial,
    Chain,
    ScatterAllgather,
    ScatterGather,
    Bruck,
    Pairwise,
    Linear,
    Dissemination,
}

impl Algorithm {
    /// The name that rules of the configuration use.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Algorithm::Vendor => "vendor",
            Algorithm::Hierarchical { .. } => "hierarchical",
            Algorithm::RecursiveDoubling => "recursive_doubling",
            Algorithm::Rabenseifner => "rabenseifner",
            Algorithm::Ring => "ring",
            Algorithm::DoubleTree => "double_tree",
            Algorithm::Direct => "direct",
            Algorithm::RecursiveHalving => "recursive_halving",
            Algorithm::Binomial => "binomial",
            Algorithm::Chain => "chain",
            Algorithm::ScatterAllgather => "scatter_allgather",
            Algorithm::ScatterGather => "scatter_gather",
            Algorithm::Bruck => "bruck",
            Algorithm::Pairwise => "pairwise",
            Algorithm::Linear => "linear",
            Algorithm::Dissemination => "dissemination",
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Algorithm::Hierarchical { flows: 1 } => f.write_str("hierarchical (1 flow)"),
            Algorithm::Hierarchical { flows } => write!(f, "hierarchical ({flows} flows)"),
            other => f.write_str(other.name()),
        }
    }
}

/// The flat algorithms of a collective, in the order that breaks ties.
pub(super) const fn flat(collective: Collective) -> &'static [Algorithm] {
    use Algorithm::*;
    match collective {
        Collective::AllReduce => &[RecursiveDoubling, Rabenseifner, Ring, DoubleTree, Direct],
        Collective::Broadcast => &[Binomial, ScatterAllgather, Chain],
        Collective::Reduce => &[Binomial, ScatterGather, Chain, Direct],
        Collective::AllGather | Collective::AllGatherV => &[Bruck, Ring, Direct],
        Collective::ReduceScatter | Collective::ReduceScatterV => &[RecursiveHalving, Ring, Direct],
        Collective::Gather | Collective::Scatter => &[Binomial, Linear],
        Collective::AllToAll => &[Bruck, Pairwise],
        Collective::AllToAllV => &[Pairwise],
        Collective::Barrier => &[Dissemination],
        Collective::Send | Collective::Recv => &[],
    }
}

/// Whether there is a hierarchical algorithm for a collective.
pub(super) const fn has_hierarchy(collective: Collective) -> bool {
    use Collective::*;
    match collective {
        AllReduce | Broadcast | Reduce | AllGather | ReduceScatter | Gather | Scatter | Barrier => true,
        AllToAll | AllToAllV | AllGatherV | ReduceScatterV | Send | Recv => false,
    }
}

/// Whether `algorithm` is one of those that `collective` may be carried out with.
pub(crate) fn offers(collective: &str, algorithm: &str) -> bool {
    let Ok(collective) = collective.parse::<Collective>() else {
        return false;
    };
    algorithm == "vendor" && !collective.is_message()
        || algorithm == "hierarchical" && has_hierarchy(collective)
        || flat(collective).iter().any(|a| a.name() == algorithm)
}
