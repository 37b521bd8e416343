//! Exchanges on the control tree: every rank gives a record, every rank gets all of them. Pure state, no sockets.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::message::{BATCH, Entry, Message};
use super::tree::{Tree, describe_ranks};

/// How long an exchange may be open before the root says who is missing, and how often it repeats that.
const WAITING: Duration = Duration::from_millis(500);
/// How long a rank keeps records back to send them up together with those of the ranks below it.
const HELD: Duration = Duration::from_millis(100);

/// What an exchange did in one step.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Step {
    /// To the parent.
    pub(crate) up: Vec<Message>,
    /// To every child.
    pub(crate) down: Vec<Message>,
    /// An exchange that ended here, with the records by rank.
    pub(crate) done: Option<(u64, Vec<Vec<u8>>)>,
    /// News for everybody: who is missing.
    pub(crate) waiting: Option<Message>,
    /// Ranks took part in different exchanges: the rank that differs, and the sentence that says so.
    pub(crate) disagreement: Option<(u32, String)>,
}

struct Round {
    /// Records that wait to be sent up; at the root they wait for all others.
    pending: Vec<Entry>,
    pending_bytes: usize,
    /// Which ranks of this subtree were heard.
    heard: BTreeSet<u32>,
    results: Vec<Option<Vec<u8>>>,
    have: usize,
    since: Instant,
    announced: Instant,
}

/// The exchanges of one rank.
pub(crate) struct Rounds {
    tree: Tree,
    rank: u32,
    size: usize,
    below: usize,
    open: BTreeMap<u64, Round>,
    finished: u64,
}

impl Rounds {
    /// No exchange yet. Rounds are numbered from 0.
    pub(crate) fn new(tree: Tree, rank: u32, size: u32) -> Self {
        let count = |n: u32| usize::try_from(n).expect("a rank count fits");
        Rounds {
            tree,
            rank,
            size: count(size),
            below: count(tree.subtree_size(rank)),
            open: BTreeMap::new(),
            finished: 0,
        }
    }

    /// Takes entries of this rank or from a child. `Err` says what is wrong with them.
    pub(crate) fn gather(
        &mut self,
        round: u64,
        entries: Vec<Entry>,
        now: Instant,
    ) -> Result<Step, &'static str> {
        // A rank gives its next record only after it has seen the end of the round before.
        if round < self.finished || round > self.finished + 1 {
            return Err("an exchange that is not open");
        }
        let state = self.open.entry(round).or_insert_with(|| Round::new(now));
        for entry in entries {
            if !state.heard.insert(entry.rank) {
                return Err("two records of one rank");
            }
            state.pending_bytes += entry.blob.len();
            state.pending.push(entry);
        }
        let mut step = Step::default();
        if self.rank != 0 {
            if state.heard.len() == self.below || state.pending_bytes >= BATCH {
                state.pending_bytes = 0;
                let entries = std::mem::take(&mut state.pending);
                step.up.push(Message::Gather { round, entries });
            }
            return Ok(step);
        }
        if state.heard.len() == self.size {
            step.disagreement = disagreement(&state.pending);
            if step.disagreement.is_some() {
                return Ok(step);
            }
            let entries = std::mem::take(&mut state.pending);
            let results = entries.iter().map(|e| (e.rank, e.blob.clone())).collect();
            step.down = batches(round, entries);
            self.accept(round, results, &mut step)?;
        }
        Ok(step)
    }

    /// Takes results from the parent, which also go to the children.
    pub(crate) fn spread(&mut self, round: u64, entries: Vec<(u32, Vec<u8>)>) -> Result<Step, &'static str> {
        let mut step = Step::default();
        step.down.push(Message::Spread {
            round,
            entries: entries.clone(),
        });
        self.accept(round, entries, &mut step)?;
        Ok(step)
    }

    fn accept(
        &mut self,
        round: u64,
        entries: Vec<(u32, Vec<u8>)>,
        step: &mut Step,
    ) -> Result<(), &'static str> {
        if round != self.finished {
            return Err("results of an exchange that is not open");
        }
        let state = self
            .open
            .get_mut(&round)
            .ok_or("results of an exchange without this rank")?;
        state.results.resize(self.size, None);
        for (rank, blob) in entries {
            let slot = usize::try_from(rank)
                .ok()
                .and_then(|r| state.results.get_mut(r))
                .ok_or("a rank out of range")?;
            if slot.replace(blob).is_some() {
                return Err("two results of one rank");
            }
            state.have += 1;
        }
        if state.have == self.size {
            let results = std::mem::take(&mut state.results).into_iter().flatten().collect();
            self.open.remove(&round);
            self.finished += 1;
            step.done = Some((round, results));
        }
        Ok(())
    }

    /// Does what is due in an exchange that waits, and says when to look again: records do not wait for ever for those
    /// beside them, and the root says who is missing, or who means another exchange.
    pub(crate) fn tick(&mut self, now: Instant) -> (Step, Option<Instant>) {
        let mut step = Step::default();
        let Some((round, state)) = self.open.iter_mut().next().map(|(round, state)| (*round, state)) else {
            return (step, None);
        };
        if self.rank != 0 {
            if state.pending.is_empty() {
                return (step, None);
            }
            let due = state.since + HELD;
            if now < due {
                return (step, Some(due));
            }
            state.pending_bytes = 0;
            let entries = std::mem::take(&mut state.pending);
            step.up.push(Message::Gather { round, entries });
            return (step, None);
        }
        let due = state.since.max(state.announced) + WAITING;
        if now < due {
            return (step, Some(due));
        }
        state.announced = now;
        step.disagreement = disagreement(&state.pending);
        let all = 0..u32::try_from(self.size).unwrap_or(u32::MAX);
        let missing: Vec<u32> = all.filter(|rank| !state.heard.contains(rank)).collect();
        let count = u32::try_from(missing.len()).unwrap_or(u32::MAX);
        let missing = missing.into_iter().take(32).collect();
        step.waiting = Some(Message::Waiting {
            round,
            count,
            missing,
        });
        (step, Some(now + WAITING))
    }

    /// Whether entries of `rank` may come from the child `child`.
    pub(crate) fn is_below(&self, rank: u32, child: u32) -> bool {
        usize::try_from(rank).is_ok_and(|r| r < self.size) && self.tree.is_below(rank, child)
    }
}

impl Round {
    fn new(now: Instant) -> Self {
        Round {
            pending: Vec::new(),
            pending_bytes: 0,
            heard: BTreeSet::new(),
            results: Vec::new(),
            have: 0,
            since: now,
            announced: now,
        }
    }
}

/// The records in batches for the way down.
fn batches(round: u64, entries: Vec<Entry>) -> Vec<Message> {
    let mut messages = Vec::new();
    let mut batch = Vec::new();
    let mut bytes = 0;
    for entry in entries {
        bytes += entry.blob.len();
        batch.push((entry.rank, entry.blob));
        if bytes >= BATCH {
            messages.push(Message::Spread {
                round,
                entries: std::mem::take(&mut batch),
            });
            bytes = 0;
        }
    }
    if !batch.is_empty() {
        messages.push(Message::Spread {
            round,
            entries: batch,
        });
    }
    messages
}

/// Looks whether all ranks mean the same exchange; the majority counts as right, the lowest rank breaks ties.
fn disagreement(entries: &[Entry]) -> Option<(u32, String)> {
    let first = entries.first()?;
    if entries.iter().all(|e| e.what == first.what) {
        return None;
    }
    let mut groups: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    entries
        .iter()
        .for_each(|e| groups.entry(&e.what).or_default().push(e.rank));
    groups.values_mut().for_each(|ranks| ranks.sort_unstable());
    let key = |ranks: &[u32]| (ranks.len(), std::cmp::Reverse(ranks[0]));
    let (expected, majority) = groups.iter().max_by_key(|(_, ranks)| key(ranks))?;
    let (other, minority) = groups
        .iter()
        .filter(|(what, _)| what != &expected)
        .min_by_key(|(_, ranks)| ranks[0])?;
    let rank = minority[0];
    Some((
        rank,
        format!(
            "rank {rank} is in `{other}` while rank {} is in `{expected}` ({}): all ranks must make the same calls in the \
             same order",
            majority[0],
            describe_ranks(majority, majority.len()),
        ),
    ))
}

#[cfg(test)]
#[path = "rounds_tests.rs"]
mod tests;
