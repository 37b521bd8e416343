//! Several nodes on one machine: network namespaces where they are permitted, loopback addresses otherwise.
//!
//! Namespaces are held by descriptors of this process and have no name, so they vanish with it, after a panic
//! or a SIGKILL too; there is nothing to sweep.

mod environment;
mod error;
mod layout;
mod namespace;
mod port;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fmt, io};

pub use environment::{FOREIGN_VARIABLES, Rendezvous, Secret, rank_variables};
pub use error::ClusterError;
pub use layout::{Layout, MAX_NODES, Order, Place};
pub use port::ReservedPort;

use namespace::NodeSpaces;

/// Whether nodes are network namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Namespaces {
    /// Namespaces where they can be made, loopback addresses otherwise.
    #[default]
    Auto,
    /// Namespaces; an error where they cannot be made.
    Always,
    /// Loopback addresses.
    Never,
}

/// The Internet protocol that nodes have addresses of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Family {
    /// IPv4, and IPv6 beside it in namespaces; [`Node::address`] is the IPv4 one.
    #[default]
    V4,
    /// IPv6 alone.
    V6,
}

/// What a [`Cluster`] is built from.
#[derive(Debug, Clone, Default)]
pub struct ClusterSpec {
    /// Number of nodes, 1 to [`MAX_NODES`].
    pub nodes: usize,
    /// Whether to use namespaces.
    pub namespaces: Namespaces,
    /// The protocol of the nodes' addresses.
    pub family: Family,
    /// Link speed of each node in either direction, in bits per second; namespaces only.
    pub rate: Option<u64>,
}

/// One node of a [`Cluster`].
#[derive(Debug, Clone)]
pub struct Node {
    /// A label that no other node of the cluster has; in a namespace it is the host name too.
    pub name: String,
    /// The interface that leads to the other nodes.
    pub interface: String,
    /// The address that the other nodes reach it by.
    pub address: IpAddr,
    spaces: Option<Arc<NodeSpaces>>,
}

/// Nodes on this machine. Dropping it removes them once the processes in them have ended.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Node>,
    which: String,
}

/// Clusters made by this process so far: keeps their loopback addresses apart.
static CLUSTERS: AtomicUsize = AtomicUsize::new(0);

impl Cluster {
    /// Makes the nodes. Blocks for some 50 ms with namespaces.
    pub fn build(spec: &ClusterSpec) -> Result<Self, ClusterError> {
        if spec.nodes == 0 || spec.nodes > MAX_NODES {
            return Err(ClusterError::new(format!(
                "{} nodes: one machine plays 1 to {MAX_NODES}",
                spec.nodes
            )));
        }
        let reason = match spec.namespaces {
            Namespaces::Never => "as asked".to_string(),
            Namespaces::Always => return Self::in_namespaces(spec),
            Namespaces::Auto => match Self::in_namespaces(spec) {
                Ok(cluster) => return Ok(cluster),
                Err(e) => format!("since network namespaces cannot be made here ({e})"),
            },
        };
        if spec.rate.is_some() {
            return Err(ClusterError::new(format!(
                "a link speed needs network namespaces; loopback, {reason}"
            )));
        }
        Ok(Self::on_loopback(spec, &reason))
    }

    /// This machine as it is, as the only node.
    pub fn this_machine() -> Self {
        let node = Node {
            name: host_name(),
            interface: "lo".into(),
            address: Ipv4Addr::LOCALHOST.into(),
            spaces: None,
        };
        Cluster {
            nodes: vec![node],
            which: "one node, this machine".into(),
        }
    }

    fn in_namespaces(spec: &ClusterSpec) -> Result<Self, ClusterError> {
        let addresses: Vec<_> = (0..spec.nodes)
            .map(|i| namespace::addresses(i, spec.family))
            .collect();
        let names: Vec<_> = (0..spec.nodes)
            .map(|i| format!("iccl{}-{i}", std::process::id()))
            .collect();
        let spaces = namespace::make(&names, &addresses, spec.rate)?;
        let nodes: Vec<_> = names
            .into_iter()
            .zip(addresses)
            .zip(spaces)
            .map(|((name, addresses), spaces)| Node {
                name,
                interface: namespace::INTERFACE.into(),
                address: addresses[0],
                spaces: Some(Arc::new(spaces)),
            })
            .collect();
        let speed = spec
            .rate
            .map(|r| format!(", each link {} Mbit/s", r / 1_000_000))
            .unwrap_or_default();
        let which = format!(
            "{} network namespaces joined by a bridge, {}{speed}",
            nodes.len(),
            span(&nodes)
        );
        Ok(Cluster { nodes, which })
    }

    fn on_loopback(spec: &ClusterSpec, reason: &str) -> Self {
        let pid = std::process::id();
        let seed = pid as usize + CLUSTERS.fetch_add(1, Ordering::Relaxed);
        // MAX_NODES and the remainder below keep both octets in range.
        let octet = |n: usize| u8::try_from(n).expect("fits an octet of the address");
        let nodes: Vec<_> = (0..spec.nodes)
            .map(|i| Node {
                name: format!("iccl{pid}-{i}"),
                interface: "lo".into(),
                address: match spec.family {
                    Family::V4 => Ipv4Addr::new(127, 0, octet(seed % 254 + 1), octet(i + 1)).into(),
                    Family::V6 => Ipv6Addr::LOCALHOST.into(),
                },
                spaces: None,
            })
            .collect();
        let which = format!("loopback addresses {}, {reason}", span(&nodes));
        Cluster { nodes, which }
    }

    /// In words, what the nodes are and why.
    pub fn which(&self) -> &str {
        &self.which
    }

    /// Whether the nodes are namespaces.
    pub fn has_namespaces(&self) -> bool {
        self.nodes.iter().any(|n| n.spaces.is_some())
    }

    /// The nodes, in order.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Makes `command`, once spawned, start in `node`: its network, host name, System V IPC and `/dev/shm`.
    pub fn enter(&self, node: usize, command: &mut Command) -> Result<(), ClusterError> {
        match &self.nodes[node].spaces {
            Some(spaces) => namespace::enter(spaces, command),
            None => Ok(()),
        }
    }

    /// Spawns `command` in `node`.
    pub fn launch(&self, node: usize, mut command: Command) -> Result<Child, ClusterError> {
        self.enter(node, &mut command)?;
        let program = command.get_program().to_string_lossy().into_owned();
        command
            .spawn()
            .map_err(|e| ClusterError::caused(format!("cannot start '{program}'"), e))
    }

    /// Runs `work` on a thread that is inside `node`.
    pub fn in_node<T: Send>(&self, node: usize, work: impl FnOnce() -> T + Send) -> Result<T, ClusterError> {
        match &self.nodes[node].spaces {
            Some(spaces) => namespace::inside(spaces, work),
            None => Ok(work()),
        }
    }

    /// Keeps a TCP port of `node`'s address for a process that is started later; see [`ReservedPort`].
    pub fn reserve_port(&self, node: usize) -> Result<ReservedPort, ClusterError> {
        let address = self.nodes[node].address;
        self.in_node(node, || ReservedPort::on(address))?
            .map_err(|e| ClusterError::caused(format!("cannot reserve a TCP port on {address}"), e))
    }
}

impl fmt::Display for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.which)
    }
}

/// "10.83.0.1 … 10.83.0.4", or the one address.
fn span(nodes: &[Node]) -> String {
    match nodes {
        [first, .., last] if first.address != last.address => format!("{} … {}", first.address, last.address),
        [first, ..] => first.address.to_string(),
        [] => String::new(),
    }
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The error of the last system call as an `io::Error`, for results of rustix.
fn os(result: rustix::io::Result<()>) -> io::Result<()> {
    result.map_err(io::Error::from)
}

#[cfg(test)]
mod tests;
