//! The agreed world: all that a plan is decided from, equal on all ranks.

use crate::capability::{Capabilities, Case};
use crate::topology::Topology;

/// Cost of a class of links, in integers so that all ranks compute the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct LinkCost {
    /// Latency of a small message in ns.
    pub(crate) alpha_ns: u64,
    /// Cost of a byte in ps.
    pub(crate) beta_ps: u64,
}

/// An operator's rule: which algorithm to take for some calls.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Rule {
    /// `None`: every collective.
    pub(crate) collective: Option<String>,
    pub(crate) min_bytes: u64,
    pub(crate) max_bytes: u64,
    pub(crate) min_ranks: u64,
    pub(crate) max_ranks: u64,
    pub(crate) algorithm: String,
}

/// Settings that change plans, equal on all ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) rules: Vec<Rule>,
    /// Bytes of a chunk of a long message.
    pub(crate) chunk: u64,
}

/// All that a plan is decided from.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) topology: Topology,
    /// By island.
    pub(crate) capabilities: Vec<Capabilities>,
    pub(crate) settings: Settings,
    /// Between ranks of one island.
    pub(crate) near: LinkCost,
    /// Between islands.
    pub(crate) far: LinkCost,
    /// Cost of reducing a byte in ps.
    pub(crate) gamma_ps: u64,
}

impl World {
    /// Number of ranks.
    pub(crate) fn size(&self) -> u32 {
        self.topology.size()
    }

    /// Whether one vendor library serves all ranks.
    pub(crate) fn one_island(&self) -> bool {
        self.topology.islands.len() == 1
    }

    /// Most ranks that share a node, and with it the way out.
    pub(crate) fn ranks_per_node(&self) -> u64 {
        self.topology
            .nodes
            .iter()
            .map(|n| n.len() as u64)
            .max()
            .unwrap_or(1)
    }

    /// Whether the vendor library of every island with several ranks does the case, each for its own number of
    /// ranks.
    pub(crate) fn native_in_all_islands(&self, case: Case) -> bool {
        self.topology
            .islands
            .iter()
            .zip(&self.capabilities)
            .all(|(ranks, caps)| {
                ranks.len() == 1
                    || caps.is_native(&Case {
                        ranks: ranks.len() as u64,
                        ..case
                    })
            })
    }
}
