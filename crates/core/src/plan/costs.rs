//! What the ways to carry out a request cost in the agreed world, in ns.

use super::algorithm::{Algorithm, flat};
use super::hierarchical::SMALL_BLOCK;
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
        (Barrier, _) => 0,
        // Of the counts, only those that all ranks know.
        (AllGatherV, Some(v)) => sum(&v.recv_counts),
        (ReduceScatterV, Some(v)) => sum(&v.send_counts),
        _ => request.bytes(),
    }
}

/// As [`total_bytes`], in the elements that travel: those of an integer mean are wider.
pub(super) fn carried_bytes(world: &World, request: &Request, vector: Option<&Vector>) -> u64 {
    let bytes = total_bytes(world, request, vector);
    match Mode::of(request, u64::from(world.size())) {
        Mode::AvgInteger(wide) if request.collective.reduces() => {
            (bytes / request.dtype.size() as u64).saturating_mul(wide.bytes() as u64)
        }
        _ => bytes,
    }
}

/// Bytes of the pieces that `bytes` bytes are cut into, so that one phase works on a piece while the other works on
/// the next: a few pieces, none so short that latency counts most, none longer than a chunk on each of the flows.
pub(super) fn piece(bytes: u64, flows: u64, chunk: u64) -> u64 {
    (bytes / PIECES / 64 * 64)
        .max(LEAST_PIECE)
        .min(chunk.saturating_mul(flows))
}

const PIECES: u64 = 4;
const LEAST_PIECE: u64 = 32 << 10;

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

/// Bytes of scratch memory of the direct algorithm among all ranks: two rounds of a chunk from each other rank.
pub(super) fn direct_scratch(world: &World, request: &Request, vector: Option<&Vector>) -> u64 {
    use Collective::*;
    let (bytes, ranks) = (carried_bytes(world, request, vector), u64::from(world.size()));
    let longest = match request.collective {
        AllReduce | ReduceScatter => bytes.div_ceil(ranks),
        Reduce | ReduceScatterV => bytes,
        _ => return 0,
    };
    let chunk = build::tuning(world, request, vector).chunk;
    longest.min(chunk).saturating_mul(2 * (ranks - 1))
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
    let (ranks, islands) = (u64::from(world.size()), world.topology.islands.len() as u64);
    let inner = u64::from(world.largest_island());
    let part = bytes.div_ceil(flows);
    let chunk = world.settings.chunk;
    let piece = piece(bytes, flows, chunk);
    let combine = scaled(bytes.saturating_mul(inner - 1) / flows, world.gamma_ps);
    let copies = scaled(bytes, world.gamma_ps);
    // Between the islands, with the algorithm that is right for a piece. Flows of a node share its way out.
    let once = must_round_once(world, request);
    let far = |collective: C| {
        let length = piece.div_ceil(flows).min(part);
        let chosen = between(world, collective, length, flows, once && collective.reduces()).0;
        let cost = algorithm_cost(collective, chosen, &Shape::between(world, part, flows));
        cost.unwrap_or(u64::MAX)
            .saturating_add((flows - 1) * OVERHEAD_NS / 4)
    };
    let linear = |collective: C| {
        let shape = Shape::between(world, bytes, 1);
        algorithm_cost(collective, Algorithm::Linear, &shape).unwrap_or(u64::MAX)
    };
    let pieces = bytes.div_ceil(piece);
    // Time inside the islands, time between them, and how many pieces pass through both.
    let (inside, outside, pieces) = match request.collective {
        C::AllReduce => {
            let one_each = world.topology.islands.iter().all(|r| r.len() as u64 == flows);
            let calls = group(world, if one_each { 1 } else { flows }, bytes);
            (2 * calls + combine, far(C::AllReduce), pieces)
        }
        C::Reduce => (call(world, bytes) + combine, far(C::Reduce), pieces),
        C::Broadcast => (call(world, bytes), far(C::Broadcast), pieces),
        C::AllGather if flows == 1 => {
            let inside = call(world, bytes / islands) + call(world, bytes) + copies;
            (inside, far(C::AllGather), 1)
        }
        C::ReduceScatter if flows == 1 => {
            let inside = call(world, bytes) + call(world, bytes / islands) + combine + copies;
            (inside, far(C::ReduceScatter), 1)
        }
        // What belongs to one island is inside while that of the next one is on its way.
        C::AllGather => (group(world, ranks, bytes), far(C::AllGather), pieces.max(islands)),
        C::ReduceScatter => (
            group(world, ranks, bytes) + combine,
            far(C::ReduceScatter),
            pieces.max(islands),
        ),
        C::Barrier => (2 * call(world, 0), far(C::Barrier), 1),
        other if request.bytes() <= SMALL_BLOCK => (call(world, bytes / islands) + copies, linear(other), 1),
        other => (
            call(world, bytes / islands),
            linear(other),
            request.bytes().div_ceil(chunk),
        ),
    };
    // Long messages overlap the phases, short ones add them up.
    let (long, short) = (inside.max(outside), inside.min(outside));
    long.saturating_add(short / pieces.max(1))
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
