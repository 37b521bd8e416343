//! Which algorithms could serve a request, what each costs, and which one is taken.

use super::lower::Mode;
use super::world::{LinkCost, World};
use crate::algo::cost;
use crate::call::{Collective, RedOp, Request};
use crate::capability::{Case, Verdict};
use infiniccl_reduce::{DataType, ReduceOp};
use std::fmt;

/// A way to carry out a collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Algorithm {
    /// One call of the island's vendor library.
    Vendor,
    /// Vendor library inside the islands, flat between them, with so many concurrent flows.
    Hierarchical {
        owners: u32,
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
            Algorithm::Hierarchical { owners } => write!(f, "hierarchical ({owners} flows)"),
            other => f.write_str(other.name()),
        }
    }
}

/// One way, with its cost or the reason why it cannot be taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) algorithm: Algorithm,
    /// Modelled time in ns.
    pub(crate) cost: Result<u64, String>,
}

/// What was chosen, and from what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) algorithm: Algorithm,
    pub(crate) candidates: Vec<Candidate>,
    /// What decided: the model, or a rule of the configuration.
    pub(crate) decided_by: &'static str,
}

/// The flat algorithms of a collective, in the order that breaks ties.
pub(crate) fn flat(collective: Collective) -> &'static [Algorithm] {
    use Algorithm::*;
    match collective {
        Collective::AllReduce => &[RecursiveDoubling, Rabenseifner, Ring, DoubleTree, Direct],
        Collective::Broadcast => &[Binomial, ScatterAllgather, Chain],
        Collective::Reduce => &[Binomial, ScatterGather, Chain, Direct],
        Collective::AllGather => &[Bruck, Ring, Direct],
        Collective::AllGatherV => &[Ring, Direct],
        Collective::ReduceScatter => &[RecursiveHalving, Ring, Direct],
        Collective::ReduceScatterV => &[Ring, Direct],
        Collective::Gather | Collective::Scatter => &[Binomial, Linear],
        Collective::AllToAll => &[Bruck, Pairwise],
        Collective::AllToAllV => &[Pairwise],
        Collective::Barrier => &[Dissemination],
        Collective::Send | Collective::Recv => &[],
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

fn has_hierarchy(collective: Collective) -> bool {
    use Collective::*;
    matches!(collective, AllReduce | Broadcast | Reduce | AllGather)
}

/// All candidates for a request, and the one to take.
pub(crate) fn choose(world: &World, request: &Request) -> Result<Choice, String> {
    if let Verdict::Refused(why) = refusal(world, request) {
        return Err(why);
    }
    let mut candidates = vec![vendor(world, request)];
    if has_hierarchy(request.collective) {
        candidates.extend(hierarchical(world, request));
    }
    candidates.extend(flat(request.collective).iter().map(|a| Candidate {
        algorithm: *a,
        cost: flat_cost(world, request, *a),
    }));
    let bytes = request.bytes();
    let ranks = u64::from(world.size());
    let rule = world.settings.rules.iter().find(|rule| {
        rule.collective
            .as_deref()
            .is_none_or(|c| c == request.collective.name())
            && (rule.min_bytes..=rule.max_bytes).contains(&bytes)
            && (rule.min_ranks..=rule.max_ranks).contains(&ranks)
            && candidates
                .iter()
                .any(|c| c.algorithm.name() == rule.algorithm && c.cost.is_ok())
    });
    let wanted = |c: &&Candidate| rule.is_none_or(|rule| rule.algorithm == c.algorithm.name());
    let best = candidates
        .iter()
        .filter(wanted)
        .filter_map(|c| c.cost.as_ref().ok().map(|cost| (*cost, c.algorithm)))
        .min_by_key(|(cost, _)| *cost);
    let decided_by = if rule.is_some() { "rule" } else { "model" };
    match best {
        Some((_, algorithm)) => Ok(Choice {
            algorithm,
            candidates,
            decided_by,
        }),
        None => Err("no algorithm can serve it".into()),
    }
}

/// An override may refuse a case on any island; then it is refused on all.
fn refusal(world: &World, request: &Request) -> Verdict {
    let islands = world.topology.islands.iter().zip(&world.capabilities);
    for (ranks, caps) in islands {
        let verdict = caps.verdict(&case(request, ranks.len() as u64));
        if matches!(verdict, Verdict::Refused(_)) {
            return verdict;
        }
    }
    Verdict::Native
}

pub(super) fn case(request: &Request, ranks: u64) -> Case {
    Case {
        collective: request.collective,
        dtype: request.dtype,
        op: request.collective.reduces().then_some(request.op),
        bytes: request.bytes(),
        ranks,
    }
}

fn vendor(world: &World, request: &Request) -> Candidate {
    let cost = if !world.one_island() {
        Err(format!("the ranks form {} islands", world.topology.islands.len()))
    } else if world.size() == 1 {
        Err("there is one rank".to_string())
    } else {
        match world.capabilities[0].verdict(&case(request, u64::from(world.size()))) {
            Verdict::Native => Ok(vendor_cost(world, request)),
            Verdict::Emulated(why) | Verdict::Refused(why) => Err(why),
        }
    };
    Candidate {
        algorithm: Algorithm::Vendor,
        cost,
    }
}

/// A vendor's library is taken where it may be: half of the cheapest way over the same links.
fn vendor_cost(world: &World, request: &Request) -> u64 {
    world.near.alpha_ns / 2 + scaled(total_bytes(world, request), world.near.beta_ps) / 2
}

fn hierarchical(world: &World, request: &Request) -> Vec<Candidate> {
    let most = world
        .topology
        .islands
        .iter()
        .map(|r| r.len() as u32)
        .max()
        .unwrap_or(1);
    let flows: &[u32] = if request.collective == Collective::AllReduce && most > 1 {
        &[1, most]
    } else {
        &[1]
    };
    let reason = hierarchy_refused(world, request, most);
    flows
        .iter()
        .map(|owners| Candidate {
            algorithm: Algorithm::Hierarchical { owners: *owners },
            cost: match &reason {
                Some(why) => Err(why.clone()),
                None => Ok(hierarchical_cost(world, request, u64::from(*owners))),
            },
        })
        .collect()
}

fn hierarchy_refused(world: &World, request: &Request, most: u32) -> Option<String> {
    if world.one_island() {
        return Some("all ranks are in one island".into());
    }
    if most == 1 {
        return Some("every island has one rank".into());
    }
    let needs: &[(Collective, DataType, Option<RedOp>)] = &match request.collective {
        Collective::AllReduce | Collective::Reduce => {
            let Some((dtype, op)) = inner_reduction(world, request) else {
                return Some(format!("{} cannot express the factor of an avg", request.dtype));
            };
            [
                (Collective::Reduce, dtype, Some(op)),
                (Collective::Broadcast, dtype, None),
            ]
        }
        Collective::AllGather => [
            (Collective::Gather, DataType::Uint8, None),
            (Collective::Broadcast, DataType::Uint8, None),
        ],
        _ => [(Collective::Broadcast, DataType::Uint8, None); 2],
    };
    for (collective, dtype, op) in needs {
        let case = Case {
            collective: *collective,
            dtype: *dtype,
            op: *op,
            bytes: world.settings.chunk,
            ranks: 0,
        };
        if !world.native_in_all_islands(case) {
            let op = op.map(|op| format!(" {}", op.name())).unwrap_or_default();
            return Some(format!("not every island has {collective} {dtype}{op}"));
        }
    }
    None
}

/// The reduction that the islands are asked for, if their element type can express it.
pub(super) fn inner_reduction(world: &World, request: &Request) -> Option<(DataType, RedOp)> {
    Some(match Mode::of(request, u64::from(world.size())) {
        Mode::Plain(op) => (request.dtype, RedOp::Fixed(op)),
        Mode::AvgInteger(wide) => (wide.lane_type(), RedOp::Fixed(ReduceOp::Sum)),
        Mode::Premul(_) => (request.dtype, RedOp::Fixed(ReduceOp::Sum)),
        Mode::AvgFloat => {
            let scalar_bits = super::lower::pre_factor_bits(request.dtype, u64::from(world.size()))?;
            (request.dtype, RedOp::PreMulSum { scalar_bits })
        }
    })
}

fn hierarchical_cost(world: &World, request: &Request, owners: u64) -> u64 {
    let islands = world.topology.islands.len() as u64;
    let bytes = total_bytes(world, request);
    let inside = 2 * (world.near.alpha_ns + scaled(bytes, world.near.beta_ps));
    let far = shared(world, owners);
    let part = bytes.div_ceil(owners);
    let between = match request.collective {
        Collective::AllReduce => cost::allreduce_recursive_doubling(islands, part, &far)
            .min(cost::allreduce_ring(islands, part, world.settings.chunk, &far)),
        Collective::AllGather => cost::all_gather_ring(islands, bytes, &far),
        Collective::Broadcast => cost::broadcast_binomial(islands, bytes, &far),
        _ => cost::reduce_binomial(islands, bytes, &far),
    };
    // Long messages overlap the phases, short ones add them up.
    let fragments = part.div_ceil(world.settings.chunk).max(1);
    let (long, short) = (inside.max(between), inside.min(between));
    long + short / fragments
}

/// Time to post a message, seeded by one virtual machine.
const OVERHEAD_NS: u64 = 1_500;

/// The far link as `flows` concurrent flows of a node see it.
fn shared(world: &World, flows: u64) -> cost::LinkCost {
    link(world.far, flows, world.gamma_ps)
}

fn link(class: LinkCost, flows: u64, gamma_ps: u64) -> cost::LinkCost {
    cost::LinkCost {
        alpha_ns: class.alpha_ns,
        beta_ps: class.beta_ps * flows.max(1),
        gamma_ps,
        overhead_ns: OVERHEAD_NS,
    }
}

fn scaled(bytes: u64, ps: u64) -> u64 {
    (u128::from(bytes) * u128::from(ps) / 1000)
        .try_into()
        .unwrap_or(u64::MAX)
}

/// Bytes that each rank ends up with, or starts from.
fn total_bytes(world: &World, request: &Request) -> u64 {
    use Collective::*;
    let factor = match request.collective {
        AllGather | ReduceScatter | Gather | Scatter | AllToAll => u64::from(world.size()),
        _ => 1,
    };
    request.bytes().saturating_mul(factor)
}

fn flat_cost(world: &World, request: &Request, algorithm: Algorithm) -> Result<u64, String> {
    use Algorithm as A;
    use Collective as C;
    let p = u64::from(world.size());
    let n = total_bytes(world, request);
    let near = link(world.near, 1, world.gamma_ps);
    // A ring in the order of the islands crosses between two nodes once each way; other patterns cross with all
    // ranks of a node at once.
    let ring = if world.one_island() {
        near
    } else {
        shared(world, 1)
    };
    let mesh = if world.one_island() {
        near
    } else {
        shared(world, world.ranks_per_node())
    };
    // Most edges of the two trees join neighbours; about two of each tree leave a node.
    let trees = if world.one_island() {
        near
    } else {
        shared(world, world.ranks_per_node().min(4))
    };
    if algorithm == A::RecursiveDoubling && !world.topology.one_arithmetic() {
        return Err("the ranks' arithmetic differs, so they must not compute the same result each".into());
    }
    Ok(match (request.collective, algorithm) {
        (C::AllReduce, A::RecursiveDoubling) => cost::allreduce_recursive_doubling(p, n, &mesh),
        (C::AllReduce, A::Rabenseifner) => cost::allreduce_rabenseifner(p, n, &mesh),
        (C::AllReduce, A::Ring) => cost::allreduce_ring(p, n, world.settings.chunk, &ring),
        (C::AllReduce, A::DoubleTree) => cost::allreduce_double_tree(p, n, world.settings.chunk, &trees),
        (C::AllReduce, A::Direct) => cost::allreduce_direct(p, n, &mesh),
        (C::Broadcast, A::Binomial) => cost::broadcast_binomial(p, n, &mesh),
        (C::Broadcast, A::ScatterAllgather) => cost::broadcast_scatter_allgather(p, n, &mesh),
        (C::Broadcast, A::Chain) => cost::broadcast_chain(p, n, world.settings.chunk, &ring),
        (C::Reduce, A::Binomial) => cost::reduce_binomial(p, n, &mesh),
        (C::Reduce, A::ScatterGather) => cost::reduce_scatter_gather(p, n, world.settings.chunk, &ring),
        (C::Reduce, A::Chain) => cost::reduce_chain(p, n, world.settings.chunk, &ring),
        (C::Reduce, A::Direct) => cost::reduce_direct(p, n, &mesh),
        (C::AllGather | C::AllGatherV, A::Ring) => cost::all_gather_ring(p, n, &ring),
        (C::AllGather, A::Bruck) => cost::all_gather_bruck(p, n, &mesh),
        (C::AllGather | C::AllGatherV, A::Direct) => cost::all_gather_direct(p, n, &mesh),
        (C::ReduceScatter, A::RecursiveHalving) => cost::reduce_scatter_recursive_halving(p, n, &mesh),
        (C::ReduceScatter | C::ReduceScatterV, A::Ring) => {
            cost::reduce_scatter_ring(p, n, world.settings.chunk, &ring)
        }
        (C::ReduceScatter | C::ReduceScatterV, A::Direct) => cost::reduce_scatter_direct(p, n, &mesh),
        (C::Gather, A::Binomial) => cost::gather_binomial(p, n, &mesh),
        (C::Gather, A::Linear) => cost::gather_linear(p, n, &mesh),
        (C::Scatter, A::Binomial) => cost::scatter_binomial(p, n, &mesh),
        (C::Scatter, A::Linear) => cost::scatter_linear(p, n, &mesh),
        (C::AllToAll, A::Bruck) => cost::all_to_all_bruck(p, n, &mesh),
        (C::AllToAll | C::AllToAllV, A::Pairwise) => {
            cost::all_to_all_pairwise(p, n, super::build::WINDOW as u64, &mesh)
        }
        (C::Barrier, A::Dissemination) => cost::barrier_dissemination(p, &mesh),
        (collective, algorithm) => return Err(format!("{algorithm} is no algorithm for {collective}")),
    })
}
