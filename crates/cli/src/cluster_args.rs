//! The options that say where ranks run: nodes, their order, and whether they are namespaces.

use std::time::Duration;

use clap::{Args, ValueEnum};
use infiniccl_testkit::cluster::{Cluster, ClusterSpec, Layout, Namespaces, Order};

use crate::failure::Failure;

/// Order of the ranks on the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OrderArg {
    /// Fill one node after the other
    Block,
    /// Deal ranks round robin
    Interleaved,
}

impl From<OrderArg> for Order {
    fn from(order: OrderArg) -> Self {
        match order {
            OrderArg::Block => Order::Block,
            OrderArg::Interleaved => Order::Interleaved,
        }
    }
}

/// Whether nodes are network namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum NamespacesArg {
    /// Namespaces where they can be made, loopback addresses otherwise
    Auto,
    /// Namespaces, or an error
    Always,
    /// Loopback addresses
    Never,
}

impl From<NamespacesArg> for Namespaces {
    fn from(namespaces: NamespacesArg) -> Self {
        match namespaces {
            NamespacesArg::Auto => Namespaces::Auto,
            NamespacesArg::Always => Namespaces::Always,
            NamespacesArg::Never => Namespaces::Never,
        }
    }
}

/// Nodes and order of the ranks.
#[derive(Debug, Args)]
pub(crate) struct ClusterArgs {
    /// Ranks of each node that this machine plays, such as 3+1+2+2
    #[arg(long, value_name = "A+B+…")]
    pub(crate) nodes: Option<String>,
    /// How ranks are dealt to the nodes
    #[arg(long, value_enum, default_value_t = OrderArg::Block)]
    pub(crate) order: OrderArg,
    /// Whether the nodes are network namespaces; auto with --nodes, never without
    #[arg(long, value_enum)]
    pub(crate) namespaces: Option<NamespacesArg>,
}

impl ClusterArgs {
    /// The layout, where `ranks` and `--nodes` have to agree.
    pub(crate) fn layout(&self, ranks: Option<usize>) -> Result<Layout, Failure> {
        let usage = |e: infiniccl_testkit::cluster::ClusterError| Failure::usage(e.to_string());
        match (&self.nodes, ranks) {
            (None, None) => Err(Failure::usage(
                "say how many ranks to start, with -n or with --nodes",
            )),
            (None, Some(0)) => Err(Failure::usage("-n 0: a job needs at least one rank")),
            (None, Some(ranks)) => Layout::one_node(ranks).map_err(usage),
            (Some(spec), ranks) => {
                let layout = Layout::parse(spec, self.order.into()).map_err(usage)?;
                match ranks {
                    Some(ranks) if ranks != layout.ranks() => Err(Failure::usage(format!(
                        "-n {ranks} and --nodes {spec} disagree: the nodes have {} ranks together",
                        layout.ranks()
                    ))),
                    _ => Ok(layout),
                }
            }
        }
    }

    /// The nodes for `layout`: this machine as it is, unless nodes or namespaces were asked for.
    pub(crate) fn build(&self, layout: &Layout) -> Result<Cluster, Failure> {
        if self.nodes.is_none() && matches!(self.namespaces, None | Some(NamespacesArg::Never)) {
            return Ok(Cluster::this_machine());
        }
        Ok(Cluster::build(&ClusterSpec {
            nodes: layout.nodes(),
            namespaces: self.namespaces.unwrap_or(NamespacesArg::Auto).into(),
            ..Default::default()
        })?)
    }
}

/// Reads seconds, with a fraction if wanted, as a time limit.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| "give a number of seconds".to_string())?;
    match Duration::try_from_secs_f64(number) {
        Ok(limit) if !limit.is_zero() => Ok(limit),
        _ => Err("give a positive number of seconds".to_string()),
    }
}
