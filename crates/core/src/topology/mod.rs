//! Where the ranks are: nodes, islands, and the order in which algorithms walk through them.
//!
//! Everything here is computed from the agreed world alone, so that every rank computes the same.
#![forbid(unsafe_code)]

use std::collections::HashMap;

/// One rank, as all ranks agreed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct RankInfo {
    /// Index of the node, by first appearance in rank order.
    pub(crate) node: u32,
    /// Index of the island, by first appearance in rank order.
    pub(crate) island: u32,
    /// Position within the island.
    pub(crate) island_rank: u32,
    /// NUMA node and device, for the order inside a node.
    pub(crate) numa: u32,
    pub(crate) device: u32,
    /// Name of the vendor plugin.
    pub(crate) vendor: String,
    /// Host name, for messages.
    pub(crate) host: String,
    /// Ranks with the same text compute the same bytes from the same inputs.
    pub(crate) arithmetic: String,
}

/// What decides a rank's place: facts from its record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Placement {
    /// Identity of the node.
    pub(crate) node: String,
    /// Identity of the island within the node; empty: the rank is an island of its own.
    pub(crate) island: String,
    pub(crate) numa: u32,
    pub(crate) device: u32,
    pub(crate) vendor: String,
    pub(crate) host: String,
    pub(crate) arithmetic: String,
}

/// The ranks of a communicator in their places.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Topology {
    pub(crate) ranks: Vec<RankInfo>,
    /// Ranks of each island, ascending.
    pub(crate) islands: Vec<Vec<u32>>,
    /// Ranks of each node, ascending.
    pub(crate) nodes: Vec<Vec<u32>>,
    /// All ranks sorted by node, island, NUMA node and device: neighbours are near.
    pub(crate) order: Vec<u32>,
}

impl Topology {
    /// Puts each rank into its node and island.
    pub(crate) fn new(placements: &[Placement]) -> Self {
        let (mut nodes, mut islands): (Vec<Vec<u32>>, Vec<Vec<u32>>) = (Vec::new(), Vec::new());
        let (mut node_of, mut island_of) = (HashMap::new(), HashMap::new());
        let mut ranks = Vec::with_capacity(placements.len());
        for (rank, p) in (0u32..).zip(placements) {
            let next = nodes.len();
            let node = *node_of.entry(&p.node).or_insert(next);
            join(&mut nodes, node, rank);
            let next = islands.len();
            let island = match p.island.is_empty() {
                true => next,
                false => *island_of.entry((&p.node, &p.vendor, &p.island)).or_insert(next),
            };
            join(&mut islands, island, rank);
            ranks.push(RankInfo {
                node: node as u32,
                island: island as u32,
                island_rank: islands[island].len() as u32 - 1,
                numa: p.numa,
                device: p.device,
                vendor: p.vendor.clone(),
                host: p.host.clone(),
                arithmetic: p.arithmetic.clone(),
            });
        }
        let mut order: Vec<u32> = (0..ranks.len() as u32).collect();
        order.sort_by_key(|r| {
            let i = &ranks[*r as usize];
            (i.node, i.island, i.numa, i.device, *r)
        });
        Topology {
            ranks,
            islands,
            nodes,
            order,
        }
    }

    /// Number of ranks.
    pub(crate) fn size(&self) -> u32 {
        self.ranks.len() as u32
    }

    /// The island of a rank.
    pub(crate) fn island_of(&self, rank: u32) -> &[u32] {
        &self.islands[self.ranks[rank as usize].island as usize]
    }

    /// Whether all ranks compute the same bytes from the same inputs.
    pub(crate) fn one_arithmetic(&self) -> bool {
        self.ranks.windows(2).all(|w| w[0].arithmetic == w[1].arithmetic)
    }
}

/// Adds a rank to a group, which may be the next new one.
fn join(groups: &mut Vec<Vec<u32>>, group: usize, rank: u32) {
    match groups.get_mut(group) {
        Some(ranks) => ranks.push(rank),
        None => groups.push(vec![rank]),
    }
}

#[cfg(test)]
pub(crate) mod mock {
    //! Mock worlds for the tests of the planner.
    use super::*;

    /// Ranks on `nodes[rank]`, each node one island of the host plugin.
    pub(crate) fn hosts(nodes: &[u32]) -> Topology {
        let placements: Vec<Placement> = nodes
            .iter()
            .map(|n| Placement {
                node: format!("node{n}"),
                island: "shm".into(),
                numa: 0,
                device: 0,
                vendor: "host".into(),
                host: format!("host{n}"),
                arithmetic: "ieee".into(),
            })
            .collect();
        Topology::new(&placements)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interleaved_ranks_find_their_islands() {
        let t = mock::hosts(&[0, 1, 0, 2, 1, 0]);
        assert_eq!(t.islands, [vec![0, 2, 5], vec![1, 4], vec![3]]);
        assert_eq!(t.order, [0, 2, 5, 1, 4, 3]);
        assert_eq!(t.ranks[4].island_rank, 1);
    }

    #[test]
    fn a_rank_without_island_is_alone_and_vendors_do_not_mix() {
        let place = |vendor: &str, island: &str| Placement {
            node: "n".into(),
            island: island.into(),
            numa: 0,
            device: 0,
            vendor: vendor.into(),
            host: "h".into(),
            arithmetic: vendor.into(),
        };
        let t = Topology::new(&[
            place("a", "x"),
            place("b", "x"),
            place("a", ""),
            place("a", ""),
            place("a", "x"),
        ]);
        assert_eq!(t.islands, [vec![0, 4], vec![1], vec![2], vec![3]]);
        assert_eq!(t.nodes, [vec![0, 1, 2, 3, 4]]);
        assert!(!t.one_arithmetic());
    }
}
