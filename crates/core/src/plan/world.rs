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
    /// A digest of each part, for the ranks to compare: the topology, the capabilities, the settings, the costs.
    pub(crate) fn digests(&self) -> [(&'static str, u64); 4] {
        let digest = |text: String| {
            let hash = blake3::hash(text.as_bytes());
            let mut first = [0; 8];
            first.copy_from_slice(&hash.as_bytes()[..8]);
            u64::from_le_bytes(first)
        };
        let costs = (self.near, self.far, self.gamma_ps);
        [
            ("the topology", digest(format!("{:?}", self.topology))),
            ("the capabilities", digest(format!("{:?}", self.capabilities))),
            ("the settings", digest(format!("{:?}", self.settings))),
            ("the link costs", digest(format!("{costs:?}"))),
        ]
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::mock;

    #[test]
    fn a_difference_shows_in_the_digest_of_its_part_alone() {
        let world = |nodes: &[u32], chunk| World {
            topology: mock::hosts(nodes),
            capabilities: Vec::new(),
            settings: Settings {
                rules: Vec::new(),
                chunk,
            },
            near: LinkCost {
                alpha_ns: 1,
                beta_ps: 2,
            },
            far: LinkCost {
                alpha_ns: 3,
                beta_ps: 4,
            },
            gamma_ps: 5,
        };
        let first = world(&[0, 0, 1], 64).digests();
        assert_eq!(first, world(&[0, 0, 1], 64).digests());
        let differ = |other: World| {
            let pairs = first.into_iter().zip(other.digests());
            pairs
                .filter(|(a, b)| a != b)
                .map(|(a, _)| a.0)
                .collect::<Vec<_>>()
        };
        assert_eq!(differ(world(&[0, 1, 1], 64)), ["the topology"]);
        assert_eq!(differ(world(&[0, 0, 1], 128)), ["the settings"]);
    }
}
