//! The agreed world: all that a plan is decided from, equal on all ranks.

use crate::capability::{Capabilities, Case, Verdict};
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

    /// Most ranks that share a node, and with it the way out; one if no message leaves the node.
    pub(super) fn ranks_per_way_out(&self) -> u64 {
        match self.topology.nodes.len() {
            1 => 1,
            _ => self
                .topology
                .nodes
                .iter()
                .map(|n| n.len() as u64)
                .max()
                .unwrap_or(1),
        }
    }

    /// Ranks of the largest island.
    pub(super) fn largest_island(&self) -> u32 {
        self.topology
            .islands
            .iter()
            .map(|r| r.len() as u32)
            .max()
            .unwrap_or(1)
    }

    /// Whether the library of `island`, if it has several ranks, does the case for every size from `least` to
    /// `most` bytes; otherwise why not. The case's own ranks and bytes do not matter.
    pub(super) fn native_in(&self, island: usize, case: Case, least: u64, most: u64) -> Result<(), String> {
        let ranks = self.topology.islands[island].len() as u64;
        if ranks == 1 {
            return Ok(());
        }
        match self.capabilities[island].verdict_for_sizes(&Case { ranks, ..case }, least, most) {
            Verdict::Native => Ok(()),
            Verdict::Emulated(why) | Verdict::Refused(why) => {
                let op = case.op.map(|op| format!(" {}", op.name())).unwrap_or_default();
                Err(format!(
                    "island {island} has no {} {}{op} of its own: {why}",
                    case.collective, case.dtype
                ))
            }
        }
    }

    /// [`Self::native_in`] for all islands; the first reason if one of them does not.
    pub(super) fn native_in_all(&self, case: Case, least: u64, most: u64) -> Result<(), String> {
        (0..self.topology.islands.len()).try_for_each(|island| self.native_in(island, case, least, most))
    }
}
