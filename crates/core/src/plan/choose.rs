//! Which algorithms could serve a request, what each costs, and which one is taken.

use super::algorithm::{Algorithm, flat, has_hierarchy};
use super::rounding::{must_round_once, rounding_steps};
use super::world::World;
use super::{Vector, costs, eligible};
use crate::call::{Collective, Request};
use crate::capability::{Case, Verdict};

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
    /// Roundings that a result may have seen; see [`rounding_steps`].
    pub(crate) rounding_steps: u32,
}

/// All candidates for a request, and the one to take.
pub(crate) fn choose(world: &World, request: &Request, vector: Option<&Vector>) -> Result<Choice, String> {
    if let Some(why) = refusal(world, request) {
        return Err(why);
    }
    let mut candidates = Vec::new();
    if !request.collective.is_message() {
        candidates.push(vendor(world, request, vector));
    }
    if has_hierarchy(request.collective) {
        candidates.extend(hierarchical(world, request));
    }
    candidates.extend(flat(request.collective).iter().map(|a| Candidate {
        algorithm: *a,
        cost: flat_cost(world, request, vector, *a),
    }));
    let bytes = bytes_per_rank(world, request, vector);
    let ranks = u64::from(world.size());
    let rule = world.settings.rules.iter().find(|rule| {
        let named = |c: &Candidate| c.algorithm.name() == rule.algorithm && c.cost.is_ok();
        rule.collective
            .as_deref()
            .is_none_or(|c| c == request.collective.name())
            && (rule.min_bytes..=rule.max_bytes).contains(&bytes)
            && (rule.min_ranks..=rule.max_ranks).contains(&ranks)
            && candidates.iter().any(named)
    });
    let wanted = |c: &&Candidate| rule.is_none_or(|rule| rule.algorithm == c.algorithm.name());
    let possible = candidates.iter().filter(wanted);
    let costs = possible.filter_map(|c| c.cost.as_ref().ok().map(|cost| (*cost, c.algorithm)));
    let Some((_, algorithm)) = costs.min_by_key(|(cost, _)| *cost) else {
        return Err(format!("there is no algorithm for {}", request.collective));
    };
    Ok(Choice {
        algorithm,
        decided_by: if rule.is_some() { "rule" } else { "model" },
        rounding_steps: rounding_steps(world, request, algorithm),
        candidates,
    })
}

/// Bytes as NCCL counts them; where blocks have any size, those of a rank on average.
fn bytes_per_rank(world: &World, request: &Request, vector: Option<&Vector>) -> u64 {
    match request.collective {
        Collective::AllGatherV | Collective::ReduceScatterV => {
            costs::total_bytes(world, request, vector) / u64::from(world.size())
        }
        _ => request.bytes(),
    }
}

/// An override may refuse a case on any island; then it is refused on all.
fn refusal(world: &World, request: &Request) -> Option<String> {
    let mut islands = world.topology.islands.iter().zip(&world.capabilities);
    islands.find_map(
        |(ranks, caps)| match caps.verdict(&case(request, ranks.len() as u64)) {
            Verdict::Refused(why) => Some(why),
            Verdict::Native | Verdict::Emulated(_) => None,
        },
    )
}

/// What a library of `ranks` ranks is asked for when it serves the whole request.
pub(super) fn case(request: &Request, ranks: u64) -> Case {
    Case {
        collective: request.collective,
        dtype: request.dtype,
        op: request.collective.reduces().then_some(request.op),
        bytes: request.bytes(),
        ranks,
    }
}

/// The smallest and the largest number of bytes that a library may be asked for at once, as far as all ranks know.
fn sizes(request: &Request, vector: Option<&Vector>) -> (u64, u64) {
    let blocks = |counts: &[u64]| {
        let largest = counts.iter().max().copied().unwrap_or(0);
        (0, largest.saturating_mul(request.dtype.size() as u64))
    };
    match (request.collective, vector) {
        (Collective::AllGatherV, Some(v)) => blocks(&v.recv_counts),
        (Collective::ReduceScatterV, Some(v)) => blocks(&v.send_counts),
        (Collective::AllToAllV, _) => (0, u64::MAX),
        _ => (request.bytes(), request.bytes()),
    }
}

fn vendor(world: &World, request: &Request, vector: Option<&Vector>) -> Candidate {
    let ranks = u64::from(world.size());
    let cost = if !world.one_island() {
        Err(format!("the ranks form {} islands", world.topology.islands.len()))
    } else if ranks == 1 {
        Err("there is one rank".to_string())
    } else {
        let (least, most) = sizes(request, vector);
        match world.capabilities[0].verdict_for_sizes(&case(request, ranks), least, most) {
            Verdict::Native => Ok(costs::vendor(world, request, vector)),
            Verdict::Emulated(why) | Verdict::Refused(why) => Err(why),
        }
    };
    Candidate {
        algorithm: Algorithm::Vendor,
        cost,
    }
}

fn hierarchical(world: &World, request: &Request) -> impl Iterator<Item = Candidate> {
    use Collective::*;
    let most = world.largest_island();
    let parallel = matches!(request.collective, AllReduce | AllGather | ReduceScatter) && most > 1;
    let flows = [Some(1), parallel.then_some(most)];
    flows.into_iter().flatten().map(move |flows| Candidate {
        algorithm: Algorithm::Hierarchical { flows },
        cost: eligible::hierarchy(world, request, flows)
            .map(|()| costs::hierarchical(world, request, u64::from(flows))),
    })
}

/// Scratch memory that an algorithm may take where others do with less.
const MOST_SCRATCH: u64 = 8 << 20;

fn flat_cost(
    world: &World,
    request: &Request,
    vector: Option<&Vector>,
    algorithm: Algorithm,
) -> Result<u64, String> {
    if algorithm == Algorithm::RecursiveDoubling && !world.topology.one_arithmetic() {
        return Err("the ranks' arithmetic differs, so they must not compute the same result each".into());
    }
    let scratch = costs::direct_scratch(world, request, vector);
    let at_once = scratch <= MOST_SCRATCH;
    if algorithm == Algorithm::Direct && !at_once {
        return Err(format!(
            "it would take {scratch} bytes of scratch memory to combine all inputs at once"
        ));
    }
    if algorithm != Algorithm::Direct && at_once && must_round_once(world, request) {
        return Err("it rounds at every step, where the direct way combines all inputs at once".into());
    }
    costs::flat_cost(world, request, vector, algorithm)
        .ok_or_else(|| format!("{algorithm} is no algorithm for {}", request.collective))
}
