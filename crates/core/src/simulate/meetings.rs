//! Where steps of different ranks meet: the messages of each pair, and the vendor steps of each island.

use crate::schedule::{Action, Loc, Schedule};
use std::collections::{HashMap, VecDeque};
use std::ops::Range;

/// The messages from one rank to another.
#[derive(Default)]
pub(super) struct Channel {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) sends: End,
    pub(super) recvs: End,
    /// Content of messages that were sent and not received, where sends end at once.
    pub(super) under_way: VecDeque<Vec<u8>>,
    pub(super) moved: usize,
}

/// One end of a channel.
#[derive(Default)]
pub(super) struct End {
    /// The steps, in the order in which they are posted.
    pub(super) steps: Vec<u32>,
    pub(super) posted: usize,
    ready: Vec<bool>,
}

impl End {
    fn push(&mut self, step: u32) -> usize {
        self.steps.push(step);
        self.ready.push(false);
        self.steps.len() - 1
    }

    /// Notes that message `index` may be posted, and returns the messages that are posted by that.
    pub(super) fn may_post(&mut self, index: usize) -> Range<usize> {
        self.ready[index] = true;
        let first = self.posted;
        while self.ready.get(self.posted) == Some(&true) {
            self.posted += 1;
        }
        first..self.posted
    }
}

/// The vendor steps of a rank.
#[derive(Default)]
pub(super) struct VendorSteps {
    pub(super) steps: Vec<u32>,
    pub(super) ready: Vec<bool>,
    pub(super) done: usize,
}

/// All places where steps meet.
pub(super) struct Meetings {
    pub(super) channels: Vec<Channel>,
    /// Of each rank.
    pub(super) vendor: Vec<VendorSteps>,
    /// Of each rank's steps: the channel or island, and the place among the steps there.
    pub(super) places: Vec<Vec<(usize, usize)>>,
}

impl Meetings {
    /// Finds them, and checks that both ends of every channel agree on number, order and size of its messages.
    pub(super) fn find(schedules: &[Schedule], islands: &[Vec<u32>]) -> Result<Self, String> {
        let mut meetings = Meetings {
            channels: Vec::new(),
            vendor: schedules.iter().map(|_| VendorSteps::default()).collect(),
            places: Vec::new(),
        };
        let mut by_ends = HashMap::new();
        for (rank, schedule) in schedules.iter().enumerate() {
            let steps = (0u32..).zip(&schedule.actions);
            let places = steps.map(|(step, action)| match action {
                Action::Send { peer, .. } => {
                    let channel = meetings.channel(&mut by_ends, rank, *peer as usize);
                    Ok((channel, meetings.channels[channel].sends.push(step)))
                }
                Action::Recv { peer, .. } => {
                    let channel = meetings.channel(&mut by_ends, *peer as usize, rank);
                    Ok((channel, meetings.channels[channel].recvs.push(step)))
                }
                Action::Vendor { .. } => {
                    let island = islands.iter().position(|i| i.iter().any(|r| *r as usize == rank));
                    let island = island.ok_or_else(|| format!("rank {rank} is in no island"))?;
                    let own = &mut meetings.vendor[rank];
                    own.steps.push(step);
                    own.ready.push(false);
                    Ok((island, own.steps.len() - 1))
                }
                _ => Ok((0, 0)),
            });
            let places = places.collect::<Result<Vec<_>, String>>()?;
            meetings.places.push(places);
        }
        meetings.channels.iter().try_for_each(|c| c.check(schedules))?;
        Ok(meetings)
    }

    fn channel(&mut self, by_ends: &mut HashMap<(usize, usize), usize>, from: usize, to: usize) -> usize {
        *by_ends.entry((from, to)).or_insert_with(|| {
            self.channels.push(Channel {
                from,
                to,
                ..Channel::default()
            });
            self.channels.len() - 1
        })
    }
}

impl Channel {
    fn check(&self, schedules: &[Schedule]) -> Result<(), String> {
        let (from, to) = (self.from, self.to);
        if from == to || from.max(to) >= schedules.len() {
            return Err(format!("rank {from} sends to rank {to} of {}", schedules.len()));
        }
        let (sends, recvs) = (&self.sends.steps, &self.recvs.steps);
        if sends.len() != recvs.len() {
            let (sent, received) = (sends.len(), recvs.len());
            return Err(format!(
                "rank {from} sends {sent} messages to rank {to}, which receives {received}"
            ));
        }
        for (i, (send, recv)) in sends.iter().zip(recvs).enumerate() {
            let (sent, received) = (
                message(&schedules[from], *send).1,
                message(&schedules[to], *recv).1,
            );
            if sent != received {
                return Err(format!(
                    "message {i} from rank {from} to rank {to}: step {send} sends {sent} bytes, step {recv} \
                     receives {received}"
                ));
            }
        }
        Ok(())
    }
}

/// The place and the size of a message.
pub(super) fn message(schedule: &Schedule, step: u32) -> (Loc, u64) {
    match schedule.actions[step as usize] {
        Action::Send { src, bytes, .. } => (src, bytes),
        Action::Recv { dst, bytes, .. } => (dst, bytes),
        _ => unreachable!("channels hold messages only"),
    }
}
