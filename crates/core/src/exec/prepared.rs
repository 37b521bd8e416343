//! A schedule with what the executor needs beside it: the lanes, in which steps start in program order.

use crate::schedule::{Action, Schedule};

/// The lane of local steps, which start in any order.
pub(super) const LOCAL: u32 = u32::MAX;

/// What a lane leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LaneKind {
    /// Messages to a rank.
    Send(u32),
    /// Messages from a rank.
    Recv(u32),
    /// Groups of the vendor's library.
    Vendor,
}

/// Steps that start one after the other.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) kind: LaneKind,
    pub(super) steps: Vec<u32>,
}

/// A schedule ready to run.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) schedule: Schedule,
    pub(super) lanes: Vec<Lane>,
    /// For each step its lane, or [`LOCAL`].
    pub(super) lane_of: Vec<u32>,
    /// Steps that wait for nothing.
    pub(super) first: Vec<u32>,
}

impl Prepared {
    /// Sorts the steps into lanes.
    pub(crate) fn new(schedule: Schedule) -> Self {
        let mut lanes: Vec<Lane> = Vec::new();
        let mut lane_of = Vec::with_capacity(schedule.actions.len());
        let mut index = std::collections::HashMap::new();
        for (step, action) in (0u32..).zip(&schedule.actions) {
            let kind = match action {
                Action::Send { peer, .. } => LaneKind::Send(*peer),
                Action::Recv { peer, .. } => LaneKind::Recv(*peer),
                Action::Vendor { .. } => LaneKind::Vendor,
                _ => {
                    lane_of.push(LOCAL);
                    continue;
                }
            };
            let key = match kind {
                LaneKind::Send(p) => (0u8, p),
                LaneKind::Recv(p) => (1, p),
                LaneKind::Vendor => (2, 0),
            };
            let lane = *index.entry(key).or_insert_with(|| {
                lanes.push(Lane {
                    kind,
                    steps: Vec::new(),
                });
                lanes.len() - 1
            });
            lanes[lane].steps.push(step);
            lane_of.push(lane as u32);
        }
        let first = (0u32..)
            .zip(&schedule.wait_counts)
            .filter(|(_, waits)| **waits == 0)
            .map(|(step, _)| step)
            .collect();
        Prepared {
            schedule,
            lanes,
            lane_of,
            first,
        }
    }
}
