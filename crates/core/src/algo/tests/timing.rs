//! How long schedules take on modelled links, against what the cost model says of them.
//!
//! A schedule that serialises by accident (a slot too few, a message queued behind one that comes late) is right in
//! every order, but slow. Here time shows it.

use super::catalog::{ALGORITHMS, build};
use crate::algo::cost::LinkCost;
use crate::algo::{Group, Tuning};
use crate::schedule::{Action, Schedule};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// Full-duplex ranks: each sends one message at a time and receives one, and has one processor for local steps.
struct Clock<'a> {
    schedules: &'a [Schedule],
    link: LinkCost,
    waits: Vec<Vec<u32>>,
    /// When the last of the steps that a step waits for was done.
    ready: Vec<Vec<u64>>,
    sender_free: Vec<u64>,
    receiver_free: Vec<u64>,
    processor_free: Vec<u64>,
    channels: HashMap<(usize, usize), Channel>,
    queue: BinaryHeap<Reverse<(u64, Event)>>,
    end: u64,
}

#[derive(Default)]
struct Channel {
    sends: Vec<usize>,
    recvs: Vec<usize>,
    /// When each message was posted at both ends; messages are posted in order.
    posted: [Vec<Option<u64>>; 2],
    moved: usize,
    /// Whether the next message is queued.
    queued: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Local {
        rank: usize,
        step: usize,
    },
    /// Of those that are ready at the same time, the one that comes first in the sender's program.
    Message {
        send: usize,
        from: usize,
        to: usize,
    },
    Done {
        rank: usize,
        step: usize,
    },
}

/// The time in ps until all ranks are done.
fn makespan(schedules: &[Schedule], link: LinkCost) -> u64 {
    let p = schedules.len();
    let mut clock = Clock {
        schedules,
        link,
        waits: schedules.iter().map(|s| s.wait_counts.clone()).collect(),
        ready: schedules.iter().map(|s| vec![0; s.actions.len()]).collect(),
        sender_free: vec![0; p],
        receiver_free: vec![0; p],
        processor_free: vec![0; p],
        channels: HashMap::new(),
        queue: BinaryHeap::new(),
        end: 0,
    };
    for (rank, schedule) in schedules.iter().enumerate() {
        for (step, action) in schedule.actions.iter().enumerate() {
            if let Some((ends, side)) = ends(rank, action) {
                let channel = clock.channels.entry(ends).or_default();
                if side == 0 {
                    channel.sends.push(step)
                } else {
                    channel.recvs.push(step)
                }
                channel.posted[side].push(None);
            }
        }
    }
    for (rank, schedule) in schedules.iter().enumerate() {
        for step in (0..schedule.actions.len()).filter(|s| schedule.wait_counts[*s] == 0) {
            clock.start(rank, step, 0);
        }
    }
    while let Some(Reverse((time, event))) = clock.queue.pop() {
        clock.handle(time, event);
    }
    assert!(clock.waits.iter().flatten().all(|w| *w == 0), "a step never ran");
    clock.end
}

fn ends(rank: usize, action: &Action) -> Option<((usize, usize), usize)> {
    match action {
        Action::Send { peer, .. } => Some(((rank, *peer as usize), 0)),
        Action::Recv { peer, .. } => Some(((*peer as usize, rank), 1)),
        _ => None,
    }
}

impl Clock<'_> {
    fn start(&mut self, rank: usize, step: usize, time: u64) {
        let Some((key, side)) = ends(rank, &self.schedules[rank].actions[step]) else {
            self.queue.push(Reverse((time, Event::Local { rank, step })));
            return;
        };
        let channel = self.channels.get_mut(&key).unwrap();
        let steps = if side == 0 { &channel.sends } else { &channel.recvs };
        let index = steps.binary_search(&step).unwrap();
        channel.posted[side][index] = Some(time);
        self.offer(key, time);
    }

    /// Queues the next message of a channel, if it is posted at both ends.
    fn offer(&mut self, (from, to): (usize, usize), time: u64) {
        let channel = self.channels.get_mut(&(from, to)).unwrap();
        let posted = |side: usize| channel.posted[side].get(channel.moved).copied().flatten();
        if let (false, Some(a), Some(b)) = (channel.queued, posted(0), posted(1)) {
            channel.queued = true;
            let send = channel.sends[channel.moved];
            self.queue
                .push(Reverse((a.max(b).max(time), Event::Message { send, from, to })));
        }
    }

    fn handle(&mut self, time: u64, event: Event) {
        match event {
            Event::Done { rank, step } => {
                self.end = self.end.max(time);
                let schedules = self.schedules;
                for next in schedules[rank].dependents_of(step) {
                    let next = *next as usize;
                    self.waits[rank][next] -= 1;
                    self.ready[rank][next] = self.ready[rank][next].max(time);
                    if self.waits[rank][next] == 0 {
                        self.start(rank, next, self.ready[rank][next]);
                    }
                }
            }
            Event::Local { rank, step } => {
                if self.processor_free[rank] > time {
                    self.queue.push(Reverse((self.processor_free[rank], event)));
                    return;
                }
                let bytes = match self.schedules[rank].actions[step] {
                    Action::Reduce {
                        dtype, count, len, ..
                    } => count * dtype.size() as u64 * u64::from(len - 1),
                    Action::Copy { bytes, .. } => bytes,
                    _ => 0,
                };
                let done = time + bytes * self.link.gamma_ps;
                self.processor_free[rank] = done;
                self.queue.push(Reverse((done, Event::Done { rank, step })));
            }
            Event::Message { send, from, to } => {
                let free = self.sender_free[from].max(self.receiver_free[to]);
                if free > time {
                    self.queue.push(Reverse((free, event)));
                    return;
                }
                let channel = self.channels.get_mut(&(from, to)).unwrap();
                let recv = channel.recvs[channel.moved];
                channel.moved += 1;
                channel.queued = false;
                let Action::Send { bytes, .. } = self.schedules[from].actions[send] else {
                    unreachable!()
                };
                let sent = time + bytes * self.link.beta_ps;
                let arrived = sent + self.link.alpha_ns * 1000;
                self.sender_free[from] = sent;
                self.receiver_free[to] = sent;
                self.queue.push(Reverse((
                    sent,
                    Event::Done {
                        rank: from,
                        step: send,
                    },
                )));
                self.queue
                    .push(Reverse((arrived, Event::Done { rank: to, step: recv })));
                self.offer((from, to), time);
            }
        }
    }
}

#[test]
fn schedules_take_as_long_as_the_model_says() {
    let link = LinkCost {
        alpha_ns: 10_000,
        beta_ps: 300,
        gamma_ps: 50,
        overhead_ns: 0,
    };
    let (long, short) = (3 << 20, 1 << 10);
    for p in [2u64, 7, 8] {
        let ranks: Vec<u32> = (0..p as u32).collect();
        for n in [long, short] {
            let n = n / (4 * p) * 4 * p;
            let tuning = Tuning {
                chunk: 64 << 10,
                slots: 4,
            };
            for algorithm in ALGORITHMS {
                let schedules: Vec<Schedule> = (0..p as usize)
                    .map(|me| build(algorithm, Group { ranks: &ranks, me }, tuning, n))
                    .collect();
                let took = makespan(&schedules, link) / 1000;
                let says = (algorithm.cost)(p, n, tuning.chunk_for(n), &link);
                // Short messages that are packed as a whole are not made for long ones.
                let packed = ["bruck", "halving", "gather binomial", "scatter binomial"];
                let packed = n > 1 << 20 && packed.iter().any(|name| algorithm.name.ends_with(name));
                let most = if packed { 1.5 } else { 1.25 };
                let ratio = took as f64 / says as f64;
                assert!(
                    (0.45..most).contains(&ratio),
                    "{} on {p} ranks with {n} bytes takes {took} ns, the model says {says}",
                    algorithm.name
                );
            }
        }
    }
}
