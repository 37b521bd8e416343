//! What a communicator can tell of itself: the capability matrix, plans with the candidates that lost, and links.

use super::communicator::Communicator;
use super::context::Context;
use crate::call::{Collective, RedOp, Request};
use crate::capability::{Case, Verdict};
use crate::error::{Error, ErrorKind, Result};
use crate::plan::{self, Mode, Plan, World};
use crate::topology::{Placement, Topology};
use infiniccl_reduce::{DataType, ReduceOp};

/// One line of the capability matrix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatrixRow {
    /// The island's plugin.
    pub plugin: String,
    /// The collective.
    pub collective: Collective,
    /// The element type.
    pub dtype: DataType,
    /// The operator; `None` for collectives without one.
    pub op: Option<ReduceOp>,
    /// Whether the plugin declared it.
    pub declared: bool,
    /// What came back when it was tried, if that was wrong.
    pub disproved: Option<String>,
    /// What an override of the configuration asks for: `native`, `emulate` or `refuse`.
    pub overridden: Option<&'static str>,
    /// How it is served: `native`, `emulated` or `refused`.
    pub effective: &'static str,
    /// Why it is not native, and what is done instead.
    pub how: String,
}

/// A way that a call could be carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanCandidate {
    /// The algorithm, with its parameters.
    pub algorithm: String,
    /// Modelled time in ns, or why it cannot be taken.
    pub cost_ns: std::result::Result<u64, String>,
}

/// How a call is carried out, and what else was considered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanReport {
    /// The algorithm that is taken.
    pub algorithm: String,
    /// What decided: `model` or `rule`.
    pub decided_by: &'static str,
    /// What the operator was rewritten to; `None`: nothing was.
    pub lowering: Option<&'static str>,
    /// All candidates, in the order that breaks ties.
    pub candidates: Vec<PlanCandidate>,
    /// Steps of the rank that was asked about.
    pub steps: usize,
    /// Bytes of scratch memory on that rank.
    pub scratch_bytes: u64,
    /// The most roundings to the element type that an input passes on its way into a result (for products: that a
    /// result is made of): with the type's unit roundoff u, a sum is off by at most about this many times u·Σ|x|.
    pub rounding_steps: u32,
}

/// How this rank reaches another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkReport {
    /// The other rank.
    pub peer: u32,
    /// Its host.
    pub host: String,
    /// The plugin that carries messages to it.
    pub path: String,
    /// `unused`, `connecting`, `ready`, `failed` or `closed`.
    pub state: &'static str,
    /// The addresses in use, or why it failed.
    pub detail: String,
}

/// Where the ranks of a communicator are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacementReport {
    /// Ranks by node.
    pub nodes: Vec<Vec<u32>>,
    /// Ranks by island: those that one vendor library serves.
    pub islands: Vec<Vec<u32>>,
    /// Vendor plugin of each island.
    pub plugins: Vec<String>,
    /// Host of each rank.
    pub hosts: Vec<String>,
}

impl Communicator {
    /// Where the ranks are.
    pub fn placement(&self) -> PlacementReport {
        let topology = &self.inner().world.topology;
        PlacementReport {
            nodes: topology.nodes.clone(),
            islands: topology.islands.clone(),
            plugins: self
                .inner()
                .world
                .capabilities
                .iter()
                .map(|c| c.plugin.clone())
                .collect(),
            hosts: topology.ranks.iter().map(|r| r.host.clone()).collect(),
        }
    }

    /// The capability matrix of this rank's island.
    pub fn matrix(&self) -> Vec<MatrixRow> {
        let inner = self.inner();
        let island = inner.world.topology.ranks[inner.rank as usize].island as usize;
        let ranks = inner.world.topology.islands[island].len() as u64;
        let caps = &inner.world.capabilities[island];
        let mut rows = Vec::new();
        for collective in Collective::ALL {
            let ops: Vec<Option<ReduceOp>> = match collective.reduces() {
                true => ReduceOp::ALL.iter().copied().map(Some).collect(),
                false => vec![None],
            };
            for dtype in DataType::ALL {
                for op in &ops {
                    let case = Case {
                        collective: *collective,
                        dtype: *dtype,
                        op: op.map(RedOp::Fixed),
                        bytes: MATRIX_BYTES,
                        ranks,
                    };
                    let (effective, why) = match caps.verdict(&case) {
                        Verdict::Native => ("native", String::new()),
                        Verdict::Emulated(why) => ("emulated", why),
                        Verdict::Refused(why) => ("refused", why),
                    };
                    rows.push(MatrixRow {
                        plugin: caps.plugin.clone(),
                        collective: *collective,
                        dtype: *dtype,
                        op: *op,
                        declared: caps.declares(&case),
                        disproved: caps.disproof(&case).map(|d| d.what.clone()),
                        overridden: caps.wish(&case).map(|wish| wish.name()),
                        effective,
                        how: why,
                    });
                }
            }
        }
        rows
    }

    /// How a call of `count` elements would be carried out, and what else was considered.
    ///
    /// # Errors
    /// `NotSupported` with the reason, if the call would be refused.
    pub fn explain(
        &self,
        collective: Collective,
        dtype: DataType,
        op: impl Into<RedOp>,
        count: u64,
        root: u32,
    ) -> Result<PlanReport> {
        let inner = self.inner();
        explain(
            &inner.world,
            inner.rank,
            Request {
                collective,
                dtype,
                op: op.into(),
                count,
                root,
            },
        )
    }

    /// How this rank reaches the others.
    pub fn links(&self) -> Vec<LinkReport> {
        let inner = self.inner();
        let hosts = &inner.world.topology.ranks;
        inner.with_engine(|engine| {
            (0..inner.size)
                .filter(|peer| *peer != inner.rank)
                .map(|peer| {
                    let island = engine.island().filter(|island| island.carries(peer));
                    let (path, state, detail) = match (island, engine.links()) {
                        (Some(island), _) => (island.plugin_name().to_string(), "ready", String::new()),
                        (None, Some(links)) => {
                            let (state, detail) = links.describe(peer).map_or_else(
                                || ("unused", "it opens with the first message".to_string()),
                                |(state, detail)| (state_name(state), detail),
                            );
                            (links.plugin_name().to_string(), state, detail)
                        }
                        (None, None) => ("none".to_string(), "failed", "there is no network".to_string()),
                    };
                    LinkReport {
                        peer,
                        host: hosts[peer as usize].host.clone(),
                        path,
                        state,
                        detail,
                    }
                })
                .collect()
        })
    }
}

impl Context {
    /// How a call would be carried out by ranks that lie on the nodes `nodes[rank]`, each with this machine's first
    /// vendor plugin; nothing but two ranks of this process is started.
    pub fn explain(
        &self,
        nodes: &[u32],
        collective: Collective,
        dtype: DataType,
        op: impl Into<RedOp>,
        count: u64,
        root: u32,
    ) -> Result<PlanReport> {
        if nodes.is_empty() || root as usize >= nodes.len() {
            let text = format!("root {root} is not a rank of a world of {}", nodes.len());
            return Err(Error::new(ErrorKind::InvalidArgument, text).with("argument", "root"));
        }
        let pair = Communicator::local(self, 2)?;
        let world = &pair[0].inner().world;
        let placements: Vec<Placement> = nodes
            .iter()
            .map(|node| Placement {
                node: node.to_string(),
                island: "mock".to_string(),
                numa: 0,
                device: 0,
                vendor: world.capabilities[0].plugin.clone(),
                host: format!("node{node}"),
                arithmetic: "mock".to_string(),
            })
            .collect();
        let topology = Topology::new(&placements);
        let capabilities = topology
            .islands
            .iter()
            .map(|_| world.capabilities[0].clone())
            .collect();
        let world = World {
            topology,
            capabilities,
            ..world.clone()
        };
        explain(
            &world,
            0,
            Request {
                collective,
                dtype,
                op: op.into(),
                count,
                root,
            },
        )
    }
}

/// Bytes that the matrix is shown for.
const MATRIX_BYTES: u64 = 1 << 20;

fn explain(world: &World, rank: u32, request: Request) -> Result<PlanReport> {
    if matches!(
        request.collective,
        Collective::AllToAllV | Collective::AllGatherV | Collective::ReduceScatterV
    ) {
        let text = format!(
            "{} depends on its counts; ask for the collective of equal blocks",
            request.collective
        );
        return Err(Error::new(ErrorKind::InvalidArgument, text).with("argument", "collective"));
    }
    if request.collective.is_message() {
        let text = format!("{} is one message, and has no plan", request.collective);
        return Err(Error::new(ErrorKind::InvalidArgument, text).with("argument", "collective"));
    }
    let Plan { schedule, choice } = plan::plan(world, rank, &request, None, None)
        .map_err(|why| Error::new(ErrorKind::NotSupported, why))?;
    let lowering = match request.collective.reduces() && choice.algorithm != plan::Algorithm::Vendor {
        true => Mode::of(&request, u64::from(world.size())).name(),
        false => None,
    };
    Ok(PlanReport {
        algorithm: choice.algorithm.to_string(),
        decided_by: choice.decided_by,
        lowering,
        candidates: choice
            .candidates
            .into_iter()
            .map(|c| PlanCandidate {
                algorithm: c.algorithm.to_string(),
                cost_ns: c.cost,
            })
            .collect(),
        steps: schedule.actions.len(),
        scratch_bytes: schedule.scratch_bytes,
        rounding_steps: choice.rounding_steps,
    })
}

fn state_name(state: infiniccl_plugin_api::ChannelState) -> &'static str {
    use infiniccl_plugin_api::ChannelState;
    match state {
        ChannelState::CONNECTING => "connecting",
        ChannelState::READY => "ready",
        ChannelState::CLOSED => "closed",
        _ => "failed",
    }
}
