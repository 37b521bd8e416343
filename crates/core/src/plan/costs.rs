//! What the ways to carry out a request cost in the agreed world, in ns.

use super::algorithm::{Algorithm, flat};
use super::lower::Mode;
use super::rounding::must_round_once;
use super::seeds::OVERHEAD_NS;
use super::world::{LinkCost, World};
use super::{Vector, build};
use crate::algo::cost;
use crate::call::{Collective, Request};

/// Members, bytes and links of a flat algorithm.
struct Shape {
    members: u64,
    bytes: u64,
    chunk: u64,
    /// The link of patterns that leave a node by few members at once: rings, chains and trees.
    ring: cost::LinkCost,
    /// The link of patterns that leave a node by all of its members at once.
    mesh: cost::LinkCost,
    /// The link between the two binary trees' neighbours.
    trees: cost::LinkCost,
}

impl Shape {
    /// Among one rank per island, on `flows` flows at once.
    fn between(world: &World, bytes: u64, flows: u64) -> Shape {
        let far = link(world.far, flows, world.gamma_ps);
        Shape {
            members: world.topology.islands.len() as u64,
            bytes,
            chunk: world.settings.chunk,
            ring: far,
            mesh: far,
            trees: far,
        }
    }
}

/// Bytes that the whole of a call is about: those that each rank ends up with, or starts from.
pub(super) fn total_bytes(world: &World, request: &Request, vector: Option<&Vector>) -> u64 {
    use Collective::*;
    let elem = request.dtype.size() as u64;
    let sum = |counts: &[u64]| {
        counts
            .iter()
            .fold(0u64, |sum, n| sum.saturating_add(*n))
            .saturating_mul(elem)
    };
    match (request.collective, vector) {
        (AllGather | ReduceScatter | Gather | Scatter | AllToAll, _) => {
            request.bytes().saturating_mul(u64::from(world.size()))
        }
        // Of the counts, only those that all ranks know.
        (AllGatherV, Some(v)) => sum(&v.recv_counts),
        (ReduceScatterV, Some(v)) => sum(&v.send_counts),
        _ => request.bytes(),
    }
}

/// As [`total_bytes`], in the elements that travel: those of an integer mean are wider.
fn carried_bytes(world: &World, request: &Request, vector: Option<&Vector>) -> u64 {
    let bytes = total_bytes(world, request, vector);
    match Mode::of(request, u64::from(world.size())) {
        Mode::AvgInteger(wide) if request.collective.reduces() => {
            (bytes / request.dtype.size() as u64).saturating_mul(wide.bytes() as u64)
        }
        _ => bytes,
    }
}

/// A call of the one vendor library: no flat algorithm over the same links moves less.
pub(super) fn vendor(world: &World, request: &Request, vector: Option<&Vector>) -> u64 {
    use Collective::*;
    let (bytes, ranks) = (total_bytes(world, request, vector), u64::from(world.size()));
    let moved = match request.collective {
        AllReduce | Broadcast | Reduce => bytes,
        _ => (u128::from(bytes) * u128::from(ranks - 1) / u128::from(ranks)) as u64,
    };
    call(world, moved)
}

/// A flat algorithm among all ranks; `None` if it is none for the collective.
pub(super) fn flat_cost(
    world: &World,
    request: &Request,
    vector: Option<&Vector>,
    algorithm: Algorithm,
) -> Option<u64> {
    let near = link(world.near, 1, world.gamma_ps);
    let far = |flows| {
        if world.one_island() {
            near
        } else {
            link(world.far, flows, world.gamma_ps)
        }
    };
    let shape = Shape {
        members: u64::from(world.size()),
        bytes: carried_bytes(world, request, vector),
        chunk: world.settings.chunk,
        // In the order of the islands they cross between two nodes once each way.
        ring: far(1),
        mesh: far(world.ranks_per_way_out()),
        // Most edges of the two trees join neighbours; about two of each tree leave a node.
        trees: far(world.ranks_per_way_out().min(4)),
    };
    algorithm_cost(request.collective, algorithm, &shape)
}

/// The cheapest way between the islands for `bytes` bytes on each of `flows` concurrent flows, and its cost.
///
/// `once`: only what combines all inputs at once.
pub(super) fn between(
    world: &World,
    collective: Collective,
    bytes: u64,
    flows: u64,
    once: bool,
) -> (Algorithm, u64) {
    let shape = Shape::between(world, bytes, flows);
    let alike = world.topology.one_arithmetic();
    let ways = flat(collective)
        .iter()
        .filter(|a| alike || **a != Algorithm::RecursiveDoubling)
        .filter(|a| !once || **a == Algorithm::Direct);
    let costs = ways.filter_map(|a| algorithm_cost(collective, *a, &shape).map(|cost| (*a, cost)));
    costs
        .min_by_key(|(_, cost)| *cost)
        .unwrap_or((Algorithm::Ring, u64::MAX))
}

/// A hierarchical algorithm with `flows` concurrent flows between the islands.
pub(super) fn hierarchical(world: &World, request: &Request, flows: u64) -> u64 {
    use Collective as C;
    let bytes = carried_bytes(world, request, None);
    let islands = world.topology.islands.len() as u64;
    let inner = u64::from(world.largest_island());
    let part = bytes.div_ceil(flows);
    let piece = part.min(world.settings.chunk);
    let combine = scaled(bytes.saturating_mul(inner - 1) / flows, world.gamma_ps);
    let copies = scaled(bytes, world.gamma_ps);
    // Between the islands, with the algorithm that is right for a piece.
    let once = must_round_once(world, request);
    let far = |collective: C, part: u64| {
        let chosen = between(world, collective, piece, flows, once && collective.reduces()).0;
        algorithm_cost(collective, chosen, &Shape::between(world, part, flows)).unwrap_or(u64::MAX)
    };
    let (inside, outside) = match request.collective {
        C::AllReduce => {
            let calls = if world.topology.islands.iter().all(|r| r.len() as u64 == flows) {
                1
            } else {
                flows
            };
            (group(world, calls, bytes) * 2 + combine, far(C::AllReduce, part))
        }
        C::Reduce => (call(world, bytes) + combine, far(C::Reduce, part)),
        C::Broadcast => (call(world, bytes), far(C::Broadcast, part)),
        C::AllGather if flows == 1 => (
            call(world, bytes / islands) + call(world, bytes) + copies,
            far(C::AllGather, part),
        ),
        C::AllGather => (
            group(world, u64::from(world.size()), bytes),
            far(C::AllGather, part),
        ),
        C::ReduceScatter if flows == 1 => {
            let inside = call(world, bytes) + call(world, bytes / islands) + combine + copies;
            (inside, far(C::ReduceScatter, part))
        }
        C::ReduceScatter => (
            group(world, u64::from(world.size()), bytes) + combine,
            far(C::ReduceScatter, part),
        ),
        C::Barrier => (2 * call(world, 0), far(C::Barrier, 0)),
        other => {
            let shape = Shape::between(world, bytes, 1);
            let outside = algorithm_cost(other, Algorithm::Linear, &shape).unwrap_or(u64::MAX);
            (call(world, bytes / islands) + copies, outside)
        }
    };
    // Long messages overlap the phases, short ones add them up.
    let fragments = part.div_ceil(world.settings.chunk).max(1);
    let (long, short) = (inside.max(outside), inside.min(outside));
    long.saturating_add(short / fragments)
}

/// One call of a vendor library that moves `bytes` bytes.
fn call(world: &World, bytes: u64) -> u64 {
    world
        .near
        .alpha_ns
        .saturating_add(scaled(bytes, world.near.beta_ps))
}

/// A group of `calls` calls, which share most of their latency.
fn group(world: &World, calls: u64, bytes: u64) -> u64 {
    call(world, bytes).saturating_add((calls - 1).saturating_mul(world.near.alpha_ns / 4))
}

/// A link as `flows` concurrent flows of a node see it.
fn link(class: LinkCost, flows: u64, gamma_ps: u64) -> cost::LinkCost {
    cost::LinkCost {
        alpha_ns: class.alpha_ns,
        beta_ps: class.beta_ps.saturating_mul(flows.max(1)),
        gamma_ps,
        overhead_ns: OVERHEAD_NS,
    }
}

fn scaled(bytes: u64, ps: u64) -> u64 {
    (u128::from(bytes) * u128::from(ps) / 1000)
        .try_into()
        .unwrap_or(u64::MAX)
}

fn algorithm_cost(collective: Collective, algorithm: Algorithm, shape: &Shape) -> Option<u64> {
    use Algorithm as A;
    use Collective as C;
    let Shape {
        members: p,
        bytes: n,
        chunk,
        ring,
        mesh,
        trees,
    } = shape;
    let (p, n, chunk) = (*p, *n, *chunk);
    Some(match (collective, algorithm) {
        (C::AllReduce, A::RecursiveDoubling) => cost::allreduce_recursive_doubling(p, n, mesh),
        (C::AllReduce, A::Rabenseifner) => cost::allreduce_rabenseifner(p, n, mesh),
        (C::AllReduce, A::Ring) => cost::allreduce_ring(p, n, chunk, ring),
        (C::AllReduce, A::DoubleTree) => cost::allreduce_double_tree(p, n, chunk, trees),
        (C::AllReduce, A::Direct) => cost::allreduce_direct(p, n, mesh),
        (C::Broadcast, A::Binomial) => cost::broadcast_binomial(p, n, ring),
        (C::Broadcast, A::ScatterAllgather) => cost::broadcast_scatter_allgather(p, n, ring),
        (C::Broadcast, A::Chain) => cost::broadcast_chain(p, n, chunk, ring),
        (C::Reduce, A::Binomial) => cost::reduce_binomial(p, n, ring),
        (C::Reduce, A::ScatterGather) => cost::reduce_scatter_gather(p, n, chunk, ring),
        (C::Reduce, A::Chain) => cost::reduce_chain(p, n, chunk, ring),
        (C::Reduce, A::Direct) => cost::reduce_direct(p, n, ring),
        (C::AllGather | C::AllGatherV, A::Ring) => cost::all_gather_ring(p, n, ring),
        (C::AllGather | C::AllGatherV, A::Bruck) => cost::all_gather_bruck(p, n, mesh),
        (C::AllGather | C::AllGatherV, A::Direct) => cost::all_gather_direct(p, n, mesh),
        (C::ReduceScatter | C::ReduceScatterV, A::RecursiveHalving) => {
            cost::reduce_scatter_recursive_halving(p, n, mesh)
        }
        (C::ReduceScatter | C::ReduceScatterV, A::Ring) => cost::reduce_scatter_ring(p, n, chunk, ring),
        (C::ReduceScatter | C::ReduceScatterV, A::Direct) => cost::reduce_scatter_direct(p, n, mesh),
        // What the root's own way out carries bounds these.
        (C::Gather, A::Binomial) => cost::gather_binomial(p, n, ring),
        (C::Gather, A::Linear) => cost::gather_linear(p, n, ring),
        (C::Scatter, A::Binomial) => cost::scatter_binomial(p, n, ring),
        (C::Scatter, A::Linear) => cost::scatter_linear(p, n, ring),
        (C::AllToAll, A::Bruck) => cost::all_to_all_bruck(p, n, mesh),
        (C::AllToAll | C::AllToAllV, A::Pairwise) => {
            cost::all_to_all_pairwise(p, n, build::WINDOW as u64, mesh)
        }
        (C::Barrier, A::Dissemination) => cost::barrier_dissemination(p, ring),
        _ => return None,
    })
}
