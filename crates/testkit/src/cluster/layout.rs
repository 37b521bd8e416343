//! Which rank runs on which node: sizes of the nodes and the order in which ranks are dealt to them.

use std::fmt;
use std::str::FromStr;

use super::ClusterError;

/// The most nodes that one machine is asked to play.
pub const MAX_NODES: usize = 250;

/// The order in which ranks are dealt to nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// Ranks 0, 1, … fill the first node, then the second, and so on.
    #[default]
    Block,
    /// Ranks go round robin over the nodes that still have room.
    Interleaved,
}

impl FromStr for Order {
    type Err = ClusterError;

    fn from_str(s: &str) -> Result<Self, ClusterError> {
        match s {
            "block" => Ok(Order::Block),
            "interleaved" => Ok(Order::Interleaved),
            other => Err(ClusterError::new(format!(
                "unknown order '{other}': use block or interleaved"
            ))),
        }
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Order::Block => "block",
            Order::Interleaved => "interleaved",
        })
    }
}

/// Where one rank runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The rank.
    pub rank: usize,
    /// The node, from 0.
    pub node: usize,
    /// Its number among the ranks of its node.
    pub local_rank: usize,
    /// Ranks on its node.
    pub local_size: usize,
}

/// Ranks per node and their order, such as `3+1+2+2`, interleaved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    sizes: Vec<usize>,
    order: Order,
}

impl Layout {
    /// Nodes of the given sizes. Every node has at least one rank, and there are 1 to [`MAX_NODES`] nodes.
    pub fn new(sizes: Vec<usize>, order: Order) -> Result<Self, ClusterError> {
        if sizes.is_empty() || sizes.len() > MAX_NODES {
            return Err(ClusterError::new(format!(
                "{} nodes: one machine plays 1 to {MAX_NODES}",
                sizes.len()
            )));
        }
        if let Some(node) = sizes.iter().position(|&s| s == 0) {
            return Err(ClusterError::new(format!(
                "node {node} has no rank: every node needs at least one"
            )));
        }
        Ok(Layout { sizes, order })
    }

    /// All ranks on one node.
    pub fn one_node(ranks: usize) -> Result<Self, ClusterError> {
        Self::new(vec![ranks], Order::Block)
    }

    /// Reads sizes joined by plus signs: `4`, `2+2`, `3+1+2+2`.
    pub fn parse(spec: &str, order: Order) -> Result<Self, ClusterError> {
        let size = |part: &str| {
            part.parse::<usize>().map_err(|_| {
                ClusterError::new(format!(
                    "'{part}' in the nodes '{spec}' is no number of ranks: write sizes joined by '+', as in 3+1+2+2"
                ))
            })
        };
        Self::new(spec.split('+').map(size).collect::<Result<_, _>>()?, order)
    }

    /// Ranks of all nodes together.
    pub fn ranks(&self) -> usize {
        self.sizes.iter().sum()
    }

    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.sizes.len()
    }

    /// Ranks of each node.
    pub fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// The order in which ranks were dealt.
    pub fn order(&self) -> Order {
        self.order
    }

    /// The place of every rank, by rank.
    pub fn places(&self) -> Vec<Place> {
        let mut filled = vec![0; self.nodes()];
        let mut next = 0;
        (0..self.ranks())
            .map(|rank| {
                while filled[next] == self.sizes[next] {
                    next = (next + 1) % self.nodes();
                }
                let node = next;
                let place = Place {
                    rank,
                    node,
                    local_rank: filled[node],
                    local_size: self.sizes[node],
                };
                filled[node] += 1;
                if self.order == Order::Interleaved {
                    next = (next + 1) % self.nodes();
                }
                place
            })
            .collect()
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, size) in self.sizes.iter().enumerate() {
            write!(f, "{}{size}", if i == 0 { "" } else { "+" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(spec: &str, order: Order) -> Vec<usize> {
        Layout::parse(spec, order)
            .unwrap()
            .places()
            .iter()
            .map(|p| p.node)
            .collect()
    }

    #[test]
    fn block_fills_nodes_one_after_the_other() {
        assert_eq!(nodes("3+1+2", Order::Block), [0, 0, 0, 1, 2, 2]);
    }

    #[test]
    fn interleaved_deals_to_nodes_with_room() {
        assert_eq!(nodes("3+1+2+2", Order::Interleaved), [0, 1, 2, 3, 0, 2, 3, 0]);
    }

    #[test]
    fn local_ranks_count_within_the_node() {
        let places = Layout::parse("2+3", Order::Interleaved).unwrap().places();
        let of_node_1: Vec<_> = places
            .iter()
            .filter(|p| p.node == 1)
            .map(|p| (p.rank, p.local_rank, p.local_size))
            .collect();
        assert_eq!(of_node_1, [(1, 0, 3), (3, 1, 3), (4, 2, 3)]);
    }

    #[test]
    fn wrong_specs_say_what_is_wrong() {
        let text = |spec: &str| Layout::parse(spec, Order::Block).unwrap_err().to_string();
        assert!(text("2+x").contains("'x'"));
        assert!(text("2+0").contains("node 1 has no rank"));
        assert!(text("").contains("joined by '+'"));
        assert!(text(&vec!["1"; 251].join("+")).contains("251 nodes"));
    }
}
