//! Whole trees of members in memory: messages travel in any order, ranks die and leave at any step.

use std::collections::{BTreeSet, VecDeque};

use super::*;
use crate::bootstrap::report::CallRecord;

/// A repeatable source of choices.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }
}

/// A world of members whose links are queues.
struct Forest {
    tree: Tree,
    members: Vec<Member>,
    /// Messages on their way from one rank to another; each link keeps its order.
    links: Vec<((u32, u32), VecDeque<Message>)>,
    dead: BTreeSet<u32>,
    statuses: Vec<StatusReport>,
    failures: Vec<Option<Failure>>,
    gathered: Vec<Option<Vec<Vec<u8>>>>,
    late: Vec<Option<LateReport>>,
    now: Instant,
    dice: Dice,
}

impl Forest {
    fn new(size: u32, arity: u32, seed: u64) -> Forest {
        let tree = Tree::with_arity(size, arity);
        let count = size as usize;
        let hosts: Vec<String> = (0..size).map(|rank| format!("h{rank}")).collect();
        let members = (0..size)
            .map(|rank| {
                let mut member = Member::new(tree, rank, size);
                member.set_hosts(hosts.clone());
                member
            })
            .collect();
        Forest {
            tree,
            members,
            links: Vec::new(),
            dead: BTreeSet::new(),
            statuses: vec![StatusReport::default(); count],
            failures: vec![None; count],
            gathered: vec![None; count],
            late: vec![None; count],
            now: Instant::now(),
            dice: Dice(seed | 1),
        }
    }

    fn collect(&mut self, rank: u32) {
        let at = rank as usize;
        for action in std::mem::take(&mut self.members[at].actions) {
            match action {
                Action::Send(to, _) if self.dead.contains(&to) => {}
                Action::Send(to, message) => {
                    match self.links.iter_mut().find(|(ends, _)| *ends == (rank, to)) {
                        Some((_, queue)) => queue.push_back(message),
                        None => self.links.push(((rank, to), VecDeque::from([message]))),
                    }
                }
                Action::Failed(failure) => {
                    assert!(self.failures[at].replace(failure).is_none(), "failed twice")
                }
                Action::Gathered(_, records) => self.gathered[at] = Some(records),
                Action::Late(report) => self.late[at] = Some(report),
                Action::Waiting(..) => {}
            }
        }
    }

    /// Delivers messages in a random order of links until none is left.
    fn settle(&mut self) {
        loop {
            self.links
                .retain(|((_, to), queue)| !queue.is_empty() && !self.dead.contains(to));
            if self.links.is_empty() {
                return;
            }
            let chosen = self.dice.below(self.links.len());
            let ((from, to), message) = {
                let (ends, queue) = &mut self.links[chosen];
                (*ends, queue.pop_front().unwrap())
            };
            let status = self.statuses[to as usize].clone();
            self.members[to as usize].message(from, message, &|| status.clone(), self.now);
            self.collect(to);
        }
    }

    fn neighbours(&self, rank: u32) -> Vec<u32> {
        self.tree
            .parent(rank)
            .into_iter()
            .chain(self.tree.children(rank))
            .filter(|r| !self.dead.contains(r))
            .collect()
    }

    /// A rank dies: what it sent before arrives, then its neighbours see the ends of their links.
    fn kill(&mut self, rank: u32) {
        self.dead.insert(rank);
        self.settle();
        for neighbour in self.neighbours(rank) {
            let status = self.statuses[neighbour as usize].clone();
            self.members[neighbour as usize].lost(rank, Loss::Closed("reset".into()), &status);
            self.collect(neighbour);
        }
        self.settle();
    }

    fn tick(&mut self, after: Duration) {
        self.now += after;
        for rank in 0..self.members.len() as u32 {
            if !self.dead.contains(&rank) {
                let status = self.statuses[rank as usize].clone();
                self.members[rank as usize].tick(&status, self.now);
                self.collect(rank);
            }
        }
        self.settle();
    }

    fn living(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.members.len()).filter(|rank| !self.dead.contains(&(*rank as u32)))
    }
}

#[test]
fn whoever_dies_is_named_on_every_living_rank() {
    for (size, arity) in [(2, 16), (7, 2), (40, 3), (300, 16)] {
        for victim in (0..size).step_by(if size > 50 { 23 } else { 1 }) {
            let mut forest = Forest::new(size, arity, u64::from(size * 1000 + victim));
            forest.kill(victim);
            for rank in forest.living() {
                let failure = forest.failures[rank]
                    .as_ref()
                    .unwrap_or_else(|| panic!("rank {rank} of {size}"));
                assert_eq!(
                    (failure.rank, failure.host.as_str()),
                    (Some(victim), format!("h{victim}").as_str())
                );
            }
        }
    }
}

#[test]
fn two_deaths_leave_nobody_without_an_error() {
    for seed in 1..60 {
        let mut forest = Forest::new(60, 3, seed * 7919);
        let (a, b) = (forest.dice.below(60) as u32, forest.dice.below(60) as u32);
        forest.dead.insert(a);
        for neighbour in forest.neighbours(a) {
            forest.members[neighbour as usize].lost(a, Loss::Closed("x".into()), &StatusReport::default());
            forest.collect(neighbour);
        }
        // The second one dies while the news of the first are on their way.
        forest.kill(b);
        for rank in forest.living() {
            let failure = forest.failures[rank]
                .as_ref()
                .unwrap_or_else(|| panic!("rank {rank}, {a} and {b} died"));
            assert!(failure.rank == Some(a) || failure.rank == Some(b));
        }
    }
}

#[test]
fn everybody_ends_once_all_have_left_in_any_order() {
    for (size, arity) in [(1, 16), (2, 2), (30, 2), (200, 16)] {
        let mut forest = Forest::new(size, arity, u64::from(size) + 77);
        let mut order: Vec<u32> = (0..size).collect();
        while let Some(last) = order.len().checked_sub(1) {
            assert!(
                forest.members.iter().all(|member| !member.all_left()),
                "too early"
            );
            let rank = order.swap_remove(forest.dice.below(last + 1));
            forest.members[rank as usize].leave(0);
            forest.collect(rank);
            if last > 0 {
                forest.settle();
            }
        }
        forest.settle();
        assert!(forest.members.iter().all(Member::all_left), "{size} ranks");
        assert!(forest.failures.iter().all(Option::is_none));
    }
}

#[test]
fn ranks_that_left_may_go_and_the_rest_ends_too() {
    for seed in 1..30 {
        let mut forest = Forest::new(40, 3, seed * 104_729);
        let mut order: Vec<u32> = (0..40).collect();
        while !order.is_empty() {
            let pick = forest.dice.below(order.len());
            let rank = order.swap_remove(pick);
            forest.members[rank as usize].leave(0);
            forest.collect(rank);
            forest.settle();
            if forest.dice.below(2) == 0 {
                forest.kill(rank);
            }
        }
        assert!(forest.failures.iter().all(Option::is_none), "seed {seed}");
        let waiting: Vec<usize> = forest
            .living()
            .filter(|rank| !forest.members[*rank].all_left())
            .collect();
        assert!(waiting.is_empty(), "seed {seed}: {waiting:?} wait for ever");
    }
}

#[test]
fn exchanges_work_over_members_and_end_in_an_error_when_one_dies() {
    let mut forest = Forest::new(50, 4, 5);
    for rank in 0..50 {
        forest.members[rank as usize].gather(
            0,
            "x".into(),
            [rank; 3].iter().map(|r| *r as u8).collect(),
            forest.now,
        );
        forest.collect(rank);
    }
    forest.settle();
    for records in &forest.gathered {
        let records = records.as_ref().unwrap();
        assert!(
            records
                .iter()
                .zip(0u8..)
                .all(|(record, rank)| record == &[rank; 3])
        );
    }
    for rank in 0..49 {
        forest.members[rank as usize].gather(1, "y".into(), vec![], forest.now);
        forest.collect(rank);
    }
    forest.settle();
    forest.kill(49);
    assert!(
        forest
            .living()
            .all(|rank| forest.failures[rank].as_ref().is_some_and(|f| f.rank == Some(49)))
    );
}

fn waiting_in(seq: u64, digest: u32) -> StatusReport {
    let call = CallRecord {
        seq,
        digest,
        text: format!("AllReduce count={digest}"),
        ..CallRecord::default()
    };
    StatusReport {
        current: Some(call),
        waiting_ms: 500,
        completed: seq,
        ..StatusReport::default()
    }
}

#[test]
fn a_stall_finds_the_rank_that_differs_or_is_late() {
    let mut forest = Forest::new(70, 4, 9);
    forest
        .statuses
        .iter_mut()
        .for_each(|status| *status = waiting_in(3, 8));
    forest.statuses[66] = StatusReport {
        completed: 3,
        ..StatusReport::default()
    };
    forest.tick(Duration::from_millis(300));
    for report in &forest.late {
        let report = report.as_ref().unwrap();
        assert_eq!((report.count, report.ranks[0].rank), (1, 66));
    }
    assert!(forest.failures.iter().all(Option::is_none), "late is not dead");
    forest.statuses[66] = waiting_in(3, 9);
    forest.tick(Duration::from_millis(1100));
    assert!(
        forest
            .failures
            .iter()
            .all(|f| f.as_ref().is_some_and(|f| f.rank == Some(66) && f.seq == Some(3)))
    );
}

#[test]
fn a_rank_that_left_before_a_call_is_named_by_those_who_wait_in_it() {
    for gone in [0, 1, 39] {
        let wait_for_one_that_left_after = |calls: u64| {
            let mut forest = Forest::new(40, 3, 7);
            forest.members[gone as usize].leave(calls);
            forest.collect(gone);
            forest.kill(gone);
            let waits = |status: &mut StatusReport| *status = waiting_in(3, 8);
            forest.statuses.iter_mut().for_each(waits);
            forest.tick(Duration::from_millis(300));
            forest.tick(Duration::from_millis(1100));
            forest
        };
        let forest = wait_for_one_that_left_after(3);
        for rank in forest.living() {
            let failure = forest.failures[rank]
                .as_ref()
                .unwrap_or_else(|| panic!("rank {rank}"));
            assert_eq!((failure.rank, failure.seq), (Some(gone), Some(3)));
            assert!(failure.message.contains("after 3 calls"), "{}", failure.message);
        }
        // Its own part of the call was done: the others may still end well.
        let forest = wait_for_one_that_left_after(4);
        assert!(forest.failures.iter().all(Option::is_none));
    }
}

#[test]
fn one_suspicion_is_enough_to_ask_everybody() {
    let mut forest = Forest::new(20, 4, 9);
    forest.statuses.iter_mut().for_each(|status| {
        *status = StatusReport {
            waiting_ms: 0,
            ..waiting_in(3, 8)
        }
    });
    forest.statuses[2] = StatusReport {
        waiting_ms: 0,
        ..waiting_in(3, 7)
    };
    let (now, status) = (forest.now, forest.statuses[19].clone());
    forest.members[19].disagree(3, 2, &|| status.clone(), now);
    forest.collect(19);
    forest.settle();
    assert!(
        forest
            .failures
            .iter()
            .all(|f| f.as_ref().is_some_and(|f| f.rank == Some(2)))
    );
}
