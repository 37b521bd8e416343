//! Runs the schedules of all ranks on real bytes, in one thread and in any order that their dependencies allow.
//!
//! It is stricter than networks are: a message moves only when both ends have posted it, a receive's target holds
//! garbage from the moment it is posted, steps start in random order, and every access is checked against the
//! bounds of its buffer. What no order can finish is a deadlock, and the error says who waits for whom.

mod local;
mod meetings;
mod memory;
mod reference;
#[cfg(test)]
mod tests;
mod vectors;
mod vendor;

pub(crate) use memory::Memory;
pub(crate) use reference::{Value, combine, decode, encode};

use crate::schedule::{Action, Schedule};
use meetings::{Channel, Meetings, message};
use std::fmt::Write;

/// In which order steps run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Each rank runs its steps one after the other as they were added, without a look at dependencies; a message is
    /// on its way as soon as it is sent. Shows an algorithm that is wrong by itself.
    Program,
    /// Any order that dependencies allow, chosen by the seed; a send ends when the peer has received.
    Rendezvous(u64),
    /// As [`Order::Rendezvous`], but a send ends at once.
    Buffered(u64),
}

/// Runs the schedule of each rank in its memory. `islands` are the ranks of each vendor library, in its order.
///
/// # Errors
/// A text that names the ranks and steps: messages that do not match, an access out of bounds, a deadlock.
pub(crate) fn simulate(
    schedules: &[Schedule],
    memories: &mut [Memory],
    islands: &[Vec<u32>],
    order: Order,
) -> Result<(), String> {
    assert_eq!(schedules.len(), memories.len());
    for (schedule, memory) in schedules.iter().zip(memories.iter_mut()) {
        memory.reserve_scratch(schedule.scratch_bytes);
    }
    let mut run = Run {
        schedules,
        memories,
        islands,
        order,
        meet: Meetings::find(schedules, islands)?,
        waits: schedules.iter().map(|s| s.wait_counts.clone()).collect(),
        left: schedules.iter().map(|s| s.actions.len()).sum(),
        events: Vec::new(),
        random: match order {
            Order::Program => 0,
            Order::Rendezvous(seed) | Order::Buffered(seed) => seed,
        },
    };
    match order {
        Order::Program => run.in_program_order(),
        Order::Rendezvous(_) | Order::Buffered(_) => run.in_any_order(),
    }
}

#[derive(Clone, Copy)]
enum Event {
    /// The step's dependencies are met.
    Start { rank: usize, step: u32 },
    /// Both ends of a channel have posted its next message.
    Move { channel: usize },
    /// All members of an island have reached its next vendor step.
    Vendor { island: usize },
}

struct Run<'a> {
    schedules: &'a [Schedule],
    memories: &'a mut [Memory],
    islands: &'a [Vec<u32>],
    order: Order,
    meet: Meetings,
    waits: Vec<Vec<u32>>,
    /// Steps not done yet.
    left: usize,
    events: Vec<Event>,
    random: u64,
}

impl Run<'_> {
    fn in_any_order(&mut self) -> Result<(), String> {
        for rank in 0..self.schedules.len() {
            for step in 0..self.waits[rank].len() {
                if self.waits[rank][step] == 0 {
                    self.events.push(Event::Start {
                        rank,
                        step: step as u32,
                    });
                }
            }
        }
        while !self.events.is_empty() {
            let pick = self.next_random() as usize % self.events.len();
            match self.events.swap_remove(pick) {
                Event::Start { rank, step } => self.start(rank, step)?,
                Event::Move { channel } => self.transfer(channel)?,
                Event::Vendor { island } => self.vendor(island)?,
            }
        }
        if self.left > 0 {
            Err(self.deadlock())
        } else {
            Ok(())
        }
    }

    fn in_program_order(&mut self) -> Result<(), String> {
        let mut next = vec![0usize; self.schedules.len()];
        let mut moved = true;
        while moved {
            moved = false;
            for (rank, next) in next.iter_mut().enumerate() {
                while *next < self.schedules[rank].actions.len() && self.run_in_order(rank, *next)? {
                    *next += 1;
                    moved = true;
                }
            }
        }
        let stuck = next
            .iter()
            .zip(self.schedules)
            .position(|(n, s)| *n < s.actions.len());
        match stuck {
            None => Ok(()),
            Some(rank) => Err(format!(
                "in program order rank {rank} waits for ever in step {}: {:?}",
                next[rank], self.schedules[rank].actions[next[rank]]
            )),
        }
    }

    /// Runs one step if it need not wait for another rank.
    fn run_in_order(&mut self, rank: usize, step: usize) -> Result<bool, String> {
        let (place, index) = self.meet.places[rank][step];
        match self.schedules[rank].actions[step] {
            Action::Send { src, bytes, .. } => {
                let content = self.memories[rank]
                    .read(src, bytes)
                    .map_err(at(rank, step))?
                    .to_vec();
                self.meet.channels[place].under_way.push_back(content);
            }
            Action::Recv { dst, bytes, .. } => {
                let Some(content) = self.meet.channels[place].under_way.pop_front() else {
                    return Ok(false);
                };
                self.memories[rank]
                    .write(dst, bytes)
                    .map_err(at(rank, step))?
                    .copy_from_slice(&content);
            }
            Action::Vendor { .. } => {
                // The rank that comes last runs the step for all; the others find it done.
                let vendor = &mut self.meet.vendor[rank];
                if vendor.done > index {
                    return Ok(true);
                }
                vendor.ready[index] = true;
                if !self.island_is_ready(place, index) {
                    return Ok(false);
                }
                self.run_vendor(place, index)?;
                for member in &self.islands[place] {
                    self.meet.vendor[*member as usize].done += 1;
                }
            }
            ref action => {
                local::run(action, &self.schedules[rank], &mut self.memories[rank])
                    .map_err(at(rank, step))?;
            }
        }
        Ok(true)
    }

    fn start(&mut self, rank: usize, step: u32) -> Result<(), String> {
        let (place, index) = self.meet.places[rank][step as usize];
        match &self.schedules[rank].actions[step as usize] {
            Action::Send { .. } => {
                for i in self.meet.channels[place].sends.may_post(index) {
                    let posted = self.meet.channels[place].sends.steps[i];
                    if matches!(self.order, Order::Buffered(_)) {
                        let (src, bytes) = message(&self.schedules[rank], posted);
                        let content = self.memories[rank]
                            .read(src, bytes)
                            .map_err(at(rank, posted as usize))?;
                        self.meet.channels[place].under_way.push_back(content.to_vec());
                        self.complete(rank, posted);
                    }
                    if i < self.meet.channels[place].recvs.posted {
                        self.events.push(Event::Move { channel: place });
                    }
                }
            }
            Action::Recv { .. } => {
                for i in self.meet.channels[place].recvs.may_post(index) {
                    let posted = self.meet.channels[place].recvs.steps[i];
                    let (dst, bytes) = message(&self.schedules[rank], posted);
                    self.memories[rank]
                        .write(dst, bytes)
                        .map_err(at(rank, posted as usize))?
                        .fill(0xEE);
                    if i < self.meet.channels[place].sends.posted {
                        self.events.push(Event::Move { channel: place });
                    }
                }
            }
            Action::Vendor { .. } => {
                self.meet.vendor[rank].ready[index] = true;
                let next = self.meet.vendor[rank].done;
                if index == next && self.island_is_ready(place, next) {
                    self.events.push(Event::Vendor { island: place });
                }
            }
            action => {
                local::run(action, &self.schedules[rank], &mut self.memories[rank])
                    .map_err(at(rank, step as usize))?;
                self.complete(rank, step);
            }
        }
        Ok(())
    }

    fn transfer(&mut self, channel: usize) -> Result<(), String> {
        let Channel {
            from,
            to,
            sends,
            recvs,
            under_way,
            moved,
        } = &mut self.meet.channels[channel];
        let (from, to) = (*from, *to);
        let (send, recv) = (sends.steps[*moved], recvs.steps[*moved]);
        *moved += 1;
        let buffered = under_way.pop_front();
        let sent = buffered.is_none();
        let content = match buffered {
            Some(content) => content,
            None => {
                let (src, bytes) = message(&self.schedules[from], send);
                self.memories[from]
                    .read(src, bytes)
                    .map_err(at(from, send as usize))?
                    .to_vec()
            }
        };
        let (dst, bytes) = message(&self.schedules[to], recv);
        self.memories[to]
            .write(dst, bytes)
            .map_err(at(to, recv as usize))?
            .copy_from_slice(&content);
        if sent {
            self.complete(from, send);
        }
        self.complete(to, recv);
        Ok(())
    }

    fn vendor(&mut self, island: usize) -> Result<(), String> {
        let members = &self.islands[island];
        let index = self.meet.vendor[members[0] as usize].done;
        self.run_vendor(island, index)?;
        for member in members {
            self.meet.vendor[*member as usize].done += 1;
        }
        for member in members {
            let rank = *member as usize;
            self.complete(rank, self.meet.vendor[rank].steps[index]);
        }
        // The next step may have been reached while this one was running.
        if self.island_is_ready(island, index + 1) {
            self.events.push(Event::Vendor { island });
        }
        Ok(())
    }

    fn island_is_ready(&self, island: usize, index: usize) -> bool {
        self.islands[island]
            .iter()
            .all(|r| self.meet.vendor[*r as usize].ready.get(index) == Some(&true))
    }

    fn run_vendor(&mut self, island: usize, index: usize) -> Result<(), String> {
        let members = &self.islands[island];
        let groups = members.iter().map(|rank| {
            let schedule = &self.schedules[*rank as usize];
            let step = self.meet.vendor[*rank as usize].steps[index];
            match schedule.actions[step as usize] {
                Action::Vendor { first, len } => (schedule.calls_of(first, len), schedule),
                _ => unreachable!("a list of vendor steps"),
            }
        });
        let groups: Vec<_> = groups.collect();
        vendor::run(members, &groups, self.memories)
            .map_err(|e| format!("vendor step {index} of island {island}: {e}"))
    }

    fn complete(&mut self, rank: usize, step: u32) {
        self.left -= 1;
        let schedules = self.schedules;
        for next in schedules[rank].dependents_of(step as usize) {
            let waits = &mut self.waits[rank][*next as usize];
            *waits -= 1;
            if *waits == 0 {
                self.events.push(Event::Start { rank, step: *next });
            }
        }
        // Never zero again: the step is done.
        self.waits[rank][step as usize] = u32::MAX;
    }

    /// Says for each rank what it waits for.
    fn deadlock(&self) -> String {
        let mut text = format!("deadlock with {} steps left", self.left);
        for (rank, waits) in self.waits.iter().enumerate() {
            let stuck = waits.iter().enumerate().filter(|(_, w)| **w == 0);
            for (step, _) in stuck.take(3) {
                let action = &self.schedules[rank].actions[step];
                let _ = write!(
                    text,
                    "\n  rank {rank} step {step} waits for the other end: {action:?}"
                );
            }
        }
        text
    }

    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

fn at(rank: usize, step: usize) -> impl Fn(String) -> String {
    move |error| format!("rank {rank} step {step}: {error}")
}
