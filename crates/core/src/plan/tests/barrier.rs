//! Barrier: what happens before what, on every way.

use super::worlds::{Layout, Random, world};
use crate::call::{Collective, RedOp, Request};
use crate::plan::choose::choose;
use crate::plan::{Algorithm, World, build};
use crate::schedule::{Action, Schedule};
use infiniccl_plugin_api as abi;
use infiniccl_reduce::{DataType, ReduceOp};
use std::collections::HashMap;

/// Ranks that must have begun before a step ends, one bit each.
type Begun = u32;

/// What is known of all steps, grown until nothing new follows.
struct Knowledge<'a> {
    world: &'a World,
    schedules: &'a [Schedule],
    of: Vec<Vec<Begun>>,
}

impl Knowledge<'_> {
    fn grow(&mut self) {
        let mut before = Vec::new();
        while before != self.of {
            before.clone_from(&self.of);
            self.along_dependencies();
            self.along_messages();
            self.along_calls();
        }
    }

    fn along_dependencies(&mut self) {
        for (schedule, of) in self.schedules.iter().zip(&mut self.of) {
            for step in 0..schedule.actions.len() {
                for next in schedule.dependents_of(step) {
                    of[*next as usize] |= of[step];
                }
            }
        }
    }

    /// A message ends on the receiver after it began on the sender.
    fn along_messages(&mut self) {
        let mut sent: HashMap<(u32, u32), Vec<Begun>> = HashMap::new();
        for (rank, schedule) in (0u32..).zip(self.schedules) {
            for (step, action) in schedule.actions.iter().enumerate() {
                if let Action::Send { peer, .. } = action {
                    sent.entry((rank, *peer))
                        .or_default()
                        .push(self.of[rank as usize][step]);
                }
            }
        }
        for (rank, schedule) in (0u32..).zip(self.schedules) {
            let mut next: HashMap<u32, usize> = HashMap::new();
            for (step, action) in schedule.actions.iter().enumerate() {
                if let Action::Recv { peer, .. } = action {
                    let index = next.entry(*peer).or_default();
                    self.of[rank as usize][step] |= sent[&(*peer, rank)][*index];
                    *index += 1;
                }
            }
        }
    }

    /// A gather ends on its root after all have begun it, a broadcast on all after its root has.
    fn along_calls(&mut self) {
        for members in &self.world.topology.islands {
            let steps = |rank: u32| -> Vec<(usize, abi::Collective, u32)> {
                let schedule = &self.schedules[rank as usize];
                let calls = schedule
                    .actions
                    .iter()
                    .enumerate()
                    .filter_map(|(step, action)| match action {
                        Action::Vendor { first, len } => {
                            let call = schedule.calls_of(*first, *len)[0];
                            Some((step, call.collective, call.root))
                        }
                        _ => None,
                    });
                calls.collect()
            };
            let all: Vec<_> = members.iter().map(|rank| steps(*rank)).collect();
            for (index, (_, collective, root)) in all[0].clone().into_iter().enumerate() {
                let at = |member: usize| (members[member] as usize, all[member][index].0);
                let of = |this: &Self, member: usize| this.of[at(member).0][at(member).1];
                let union = (0..members.len()).fold(0, |union, m| union | of(self, m));
                for member in 0..members.len() {
                    let told = match collective {
                        abi::Collective::BARRIER => union,
                        abi::Collective::GATHER if member == root as usize => union,
                        abi::Collective::BROADCAST => of(self, root as usize),
                        _ => 0,
                    };
                    self.of[at(member).0][at(member).1] |= told;
                }
            }
        }
    }
}

fn check(world: &World, way: Algorithm) -> Result<(), String> {
    let request = Request {
        collective: Collective::Barrier,
        dtype: DataType::Uint8,
        op: RedOp::Fixed(ReduceOp::Sum),
        count: 0,
        root: 0,
    };
    let ranks = world.size();
    let schedules: Vec<Schedule> = (0..ranks)
        .map(|r| build::build(world, r, &request, None, None, way))
        .collect();
    let of = (0u32..)
        .zip(&schedules)
        .map(|(rank, s)| vec![1 << rank; s.actions.len()])
        .collect();
    let mut knowledge = Knowledge {
        world,
        schedules: &schedules,
        of,
    };
    knowledge.grow();
    let all = (1u32 << ranks) - 1;
    for (rank, of) in knowledge.of.iter().enumerate() {
        let known = of.iter().fold(1 << rank, |known, step| known | step);
        if known != all {
            return Err(format!(
                "rank {rank} may end before ranks {:#b} have begun",
                all & !known
            ));
        }
    }
    Ok(())
}

#[test]
fn no_rank_ends_before_all_have_begun() {
    let mut random = Random(0xba);
    for layout in Layout::ALL {
        for ranks in 1..=17 {
            let world = world(layout.topology(ranks, &mut random), 4096);
            let request = Request {
                collective: Collective::Barrier,
                dtype: DataType::Uint8,
                op: RedOp::Fixed(ReduceOp::Sum),
                count: 0,
                root: 0,
            };
            let choice = choose(&world, &request, None).unwrap();
            for candidate in choice.candidates.iter().filter(|c| c.cost.is_ok()) {
                if let Err(wrong) = check(&world, candidate.algorithm) {
                    panic!("{wrong}: {} on {layout:?} of {ranks}", candidate.algorithm);
                }
            }
        }
    }
}
