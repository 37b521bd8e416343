//! The planner: from a request and the agreed world to a schedule. A pure function, the same on every rank.
//!
//! | file | job |
//! |---|---|
//! | `world`, `seeds` | what plans are decided from, and where the costs start |
//! | `algorithm`, `choose`, `eligible`, `costs`, `rounding` | the ways there are, which may be taken, what each costs and loses |
//! | `lower` | AVG and PREMUL_SUM as sums |
//! | `build`, `flat`, `hierarchical` | the steps of the way that was chosen |
#![forbid(unsafe_code)]

mod algorithm;
mod build;
mod choose;
mod costs;
mod eligible;
mod flat;
mod hierarchical;
mod lower;
mod rounding;
pub(crate) mod seeds;
#[cfg(test)]
mod tests;
mod world;

pub(crate) use algorithm::{Algorithm, offers};
pub(crate) use choose::Choice;
pub(crate) use lower::Mode;
pub(crate) use world::{Rule, Settings, World};

use crate::call::Request;
use crate::schedule::{InPlace, Schedule};
use choose::choose;

/// Counts and displacements of a V collective in elements, by rank.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Vector {
    pub(crate) send_counts: Vec<u64>,
    pub(crate) send_displs: Vec<u64>,
    pub(crate) recv_counts: Vec<u64>,
    pub(crate) recv_displs: Vec<u64>,
}

/// The steps of one rank, and how they were chosen.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    pub(crate) schedule: Schedule,
    pub(crate) choice: Choice,
}

/// Plans `request` for `rank`; `in_place` changes local copies and the order of steps only.
///
/// The error says why nothing can serve the request; it is the same on all ranks.
pub(crate) fn plan(
    world: &World,
    rank: u32,
    request: &Request,
    vector: Option<&Vector>,
    in_place: Option<InPlace>,
) -> Result<Plan, String> {
    let choice = choose(world, request, vector)?;
    let schedule = build::build(world, rank, request, vector, in_place, choice.algorithm);
    Ok(Plan { schedule, choice })
}
