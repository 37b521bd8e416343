//! What one rank does in the control tree: exchanges, failure flood, arbitration, leaving. Pure state, no sockets.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::inquiry::{Inquiries, Outcome};
use super::message::{Answer, Entry, Message};
use super::report::{Failure, LateReport, StatusReport};
use super::rounds::{Rounds, Step};
use super::tree::Tree;
use crate::ErrorKind;

/// A call that makes no progress for so long is reported to the root.
pub(crate) const STALL: Duration = Duration::from_millis(250);
/// A stall that lasts is reported again after this.
const STALL_AGAIN: Duration = Duration::from_secs(1);

/// What the surroundings of a member are to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// Send to a neighbour.
    Send(u32, Message),
    /// The communicator failed; the messages that say so were queued before this.
    Failed(Failure),
    /// An exchange ended with these records.
    Gathered(u64, Vec<Vec<u8>>),
    /// An exchange waits for these ranks: the number of them, and the first ones.
    Waiting(u64, u32, Vec<u32>),
    /// The root's latest word on who is late.
    Late(LateReport),
}

/// How a connection ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The peer's side was closed or reset.
    Closed(String),
    /// Nothing came for this long.
    Silent(Duration),
    /// The peer sent what no peer may send.
    Violation(String),
}

/// The state of one rank in one communicator.
pub(crate) struct Member {
    rank: u32,
    size: u32,
    tree: Tree,
    hosts: Vec<String>,
    rounds: Rounds,
    inquiries: Inquiries,
    failure: Option<Failure>,
    /// Neighbours whose connection has ended, or is about to.
    gone: BTreeSet<u32>,
    /// Ranks known to be done with the communicator, and after how many calls; how many of them are this one or below
    /// it, and of how many.
    left: BTreeMap<u32, u64>,
    left_below: u32,
    below: u32,
    all_left: bool,
    stalled: Option<(u64, Instant)>,
    /// What to do next, in order.
    pub(crate) actions: Vec<Action>,
}

impl Member {
    /// A member of a communicator of `size` ranks.
    pub(crate) fn new(tree: Tree, rank: u32, size: u32) -> Self {
        Member {
            rank,
            size,
            tree,
            hosts: Vec::new(),
            rounds: Rounds::new(tree, rank, size),
            inquiries: Inquiries::new(size),
            failure: None,
            gone: BTreeSet::new(),
            left: BTreeMap::new(),
            left_below: 0,
            below: tree.subtree_size(rank),
            all_left: false,
            stalled: None,
            actions: Vec::new(),
        }
    }

    /// Tells the names of the hosts of all ranks, for messages.
    pub(crate) fn set_hosts(&mut self, hosts: Vec<String>) {
        self.hosts = hosts;
    }

    /// Gives this rank's record to exchange `round`.
    pub(crate) fn gather(&mut self, round: u64, what: String, blob: Vec<u8>, now: Instant) {
        let entry = Entry {
            rank: self.rank,
            what,
            blob,
        };
        let step = self.rounds.gather(round, vec![entry], now);
        self.step(self.rank, step);
    }

    /// This rank declares the communicator failed.
    pub(crate) fn fail(&mut self, failure: Failure) {
        self.flood(failure, None);
    }

    /// This rank saw data of call `seq` from `peer` that belongs to another call.
    pub(crate) fn disagree(&mut self, seq: u64, peer: u32, status: &dyn Fn() -> StatusReport, now: Instant) {
        self.stalled_at(self.rank, seq, Some(peer), status, now);
    }

    /// This rank is done with the communicator, after `calls` calls.
    pub(crate) fn leave(&mut self, calls: u64) {
        let rank = self.rank;
        if !self.left.contains_key(&rank) {
            self.down(&Message::Left { rank, calls });
            self.note_left(rank, calls);
        }
    }

    /// Whether all ranks are done, as far as this one can know.
    pub(crate) fn all_left(&self) -> bool {
        self.all_left
    }

    /// Whether the communicator failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// A message from the neighbour `from`. `status` says what this rank is doing.
    pub(crate) fn message(
        &mut self,
        from: u32,
        message: Message,
        status: &dyn Fn() -> StatusReport,
        now: Instant,
    ) {
        if self.has_failed() {
            return;
        }
        let from_above = self.tree.parent(self.rank) == Some(from);
        if !self.may_send(from, from_above, &message) {
            let loss = Loss::Violation("it sent a message that is not its to send".into());
            return self.lost(from, loss, &StatusReport::default());
        }
        match message {
            Message::Beat => {}
            Message::Goodbye => {
                self.gone.insert(from);
            }
            Message::Gather { round, entries } => {
                let step = self.rounds.gather(round, entries, now);
                self.step(from, step);
            }
            Message::Spread { round, entries } => {
                let step = self.rounds.spread(round, entries);
                self.step(from, step);
            }
            Message::Waiting { .. } | Message::Late(_) => self.tell(message),
            Message::Fail(failure) => self.flood(failure, Some(from)),
            Message::Stalled { rank, seq, peer } => self.stalled_at(rank, seq, peer, status, now),
            Message::Ask { inquiry, seq } => {
                self.down(&Message::Ask { inquiry, seq });
                self.up(Message::Answer {
                    inquiry,
                    rank: self.rank,
                    answer: answer(seq, &status()),
                });
            }
            Message::Answer {
                inquiry,
                rank,
                answer,
            } if self.rank == 0 => {
                let outcome = self
                    .inquiries
                    .answered(inquiry, rank, answer, &host_of(&self.hosts), now);
                self.outcome(outcome, status, now);
            }
            answer @ Message::Answer { .. } => self.up(answer),
            Message::Left { rank, calls } if from_above => {
                self.left.insert(rank, calls);
            }
            Message::Left { rank, calls } => self.note_left(rank, calls),
            Message::AllLeft => self.everybody_left(),
        }
    }

    /// Whether a message may come from this neighbour at all.
    fn may_send(&self, from: u32, from_above: bool, message: &Message) -> bool {
        let below = |rank: &u32| !from_above && self.rounds.is_below(*rank, from);
        match message {
            Message::Beat | Message::Goodbye | Message::Fail(_) => true,
            Message::Left { rank, .. } => below(rank) || (from_above && *rank == from),
            Message::Gather { entries, .. } => entries.iter().all(|e| below(&e.rank)),
            Message::Stalled { rank, .. } | Message::Answer { rank, .. } => below(rank),
            Message::Spread { .. }
            | Message::Waiting { .. }
            | Message::Ask { .. }
            | Message::Late(_)
            | Message::AllLeft => from_above,
        }
    }

    /// The connection to `peer` ended.
    pub(crate) fn lost(&mut self, peer: u32, loss: Loss, status: &StatusReport) {
        let expected = self.all_left || self.left.contains_key(&peer) || self.gone.contains(&peer);
        self.gone.insert(peer);
        if self.has_failed() {
            return;
        }
        if expected && !matches!(loss, Loss::Violation(_)) {
            if self.tree.parent(self.rank) == Some(peer) {
                return self.see_who_left();
            }
            // What hung below it cannot report through it any more.
            let orphans: Vec<u32> = (peer..self.size)
                .filter(|r| self.tree.is_below(*r, peer))
                .collect();
            // Whether they still call, nobody here can tell any more.
            return orphans
                .into_iter()
                .for_each(|rank| self.note_left(rank, u64::MAX));
        }
        let host = self.host(peer);
        let message = match loss {
            Loss::Closed(cause) => format!(
                "rank {peer} on {host} closed its control connection without a goodbye ({cause}): its process has ended"
            ),
            Loss::Silent(limit) => format!(
                "rank {peer} on {host} has been silent for {:.1} s (timeouts.heartbeat): it is stopped, cut off from the \
                 network, or its machine is down",
                limit.as_secs_f64()
            ),
            Loss::Violation(what) => format!("rank {peer} on {host} broke the control protocol: {what}"),
        };
        let failure = Failure::new(ErrorKind::Remote, self.rank, message).by(peer, host);
        self.flood(failure.during(status.current.as_ref()), None);
    }

    /// Does what is due; returns when to be called again. `status` says what this rank is doing.
    pub(crate) fn tick(&mut self, status: &StatusReport, now: Instant) -> Option<Instant> {
        if self.has_failed() {
            return None;
        }
        let waits = status
            .current
            .as_ref()
            .filter(|_| u128::from(status.waiting_ms) >= STALL.as_millis());
        let seq = waits.map(|call| call.seq);
        let again = |(told, at): (u64, Instant)| Some(told) != seq || at + STALL_AGAIN <= now;
        match seq {
            Some(seq) if self.stalled.is_none_or(again) => {
                self.stalled = Some((seq, now));
                self.stalled_at(self.rank, seq, None, &|| status.clone(), now);
            }
            Some(_) => {}
            None => self.stalled = None,
        }
        let (step, round_due) = self.rounds.tick(now);
        self.step(self.rank, Ok(step));
        let (outcome, inquiry_due) = self.inquiries.tick(&host_of(&self.hosts), now);
        self.outcome(outcome, &|| status.clone(), now);
        [round_due, inquiry_due].into_iter().flatten().min()
    }

    /// Handles the report that `rank` stalls in `seq`: the root asks everybody, the others pass it up.
    fn stalled_at(
        &mut self,
        rank: u32,
        seq: u64,
        peer: Option<u32>,
        status: &dyn Fn() -> StatusReport,
        now: Instant,
    ) {
        match self.tree.parent(self.rank) {
            None => {
                let outcome = self.inquiries.stalled(rank, seq, peer, now);
                self.outcome(outcome, status, now);
            }
            // Nobody above can be asked any more; but a parent that is done may be what is waited for.
            Some(parent) if self.gone.contains(&parent) => {
                if let Some(failure) = self.will_not_come([parent], seq) {
                    self.flood(failure.during(status().current.as_ref()), None);
                }
            }
            Some(_) => self.up(Message::Stalled { rank, seq, peer }),
        }
    }

    /// The failure of call `seq`, if one of `ranks` was done before it.
    fn will_not_come(&self, ranks: impl IntoIterator<Item = u32>, seq: u64) -> Option<Failure> {
        let done = |rank: u32| Some((rank, *self.left.get(&rank)?)).filter(|(_, calls)| *calls <= seq);
        let (rank, calls) = ranks.into_iter().find_map(done)?;
        let host = self.host(rank);
        let message = format!(
            "rank {rank} on {host} ended its communicator after {calls} calls, so that it will not come to call {seq}, \
             where others wait"
        );
        Some(Failure::new(ErrorKind::Remote, self.rank, message).by(rank, host))
    }

    fn outcome(&mut self, outcome: Option<Outcome>, status: &dyn Fn() -> StatusReport, now: Instant) {
        match outcome {
            None => {}
            Some(Outcome::Ask { inquiry, seq }) => {
                self.down(&Message::Ask { inquiry, seq });
                let outcome = self.answer_for_all_here(inquiry, seq, &status(), now);
                self.outcome(outcome, status, now);
            }
            Some(Outcome::Failed(failure)) => self.flood(failure, None),
            Some(Outcome::Late(report)) => {
                let late = report.ranks.iter().map(|late| late.rank);
                match self.will_not_come(late, report.seq) {
                    Some(failure) => self.flood(failure.during(status().current.as_ref()), None),
                    None => self.tell(Message::Late(report)),
                }
            }
        }
    }

    /// The root's own answer, and those of ranks that were done before: once their process has ended they cannot answer
    /// for themselves.
    fn answer_for_all_here(
        &mut self,
        inquiry: u64,
        seq: u64,
        status: &StatusReport,
        now: Instant,
    ) -> Option<Outcome> {
        let host = host_of(&self.hosts);
        let own = answer(seq, status);
        let mut outcome = self.inquiries.answered(inquiry, self.rank, own, &host, now);
        for (rank, completed) in self.left.iter().filter(|(_, calls)| **calls <= seq) {
            let answer = Answer::NotYet {
                completed: *completed,
                current: None,
            };
            outcome = outcome.or(self.inquiries.answered(inquiry, *rank, answer, &host, now));
        }
        outcome
    }

    /// Passes news of the root on to everybody below, and to this rank.
    fn tell(&mut self, message: Message) {
        self.down(&message);
        match message {
            Message::Waiting {
                round,
                count,
                missing,
            } => self.actions.push(Action::Waiting(round, count, missing)),
            Message::Late(report) => self.actions.push(Action::Late(report)),
            _ => {}
        }
    }

    /// Takes the first failure and passes it to every neighbour but the one it came from.
    fn flood(&mut self, failure: Failure, from: Option<u32>) {
        if self.has_failed() {
            return;
        }
        self.failure = Some(failure.clone());
        let neighbours = self
            .tree
            .parent(self.rank)
            .into_iter()
            .chain(self.tree.children(self.rank));
        for peer in neighbours.filter(|peer| Some(*peer) != from) {
            self.actions
                .push(Action::Send(peer, Message::Fail(failure.clone())));
        }
        self.actions.push(Action::Failed(failure));
    }

    fn step(&mut self, from: u32, step: Result<Step, &'static str>) {
        let step = match step {
            Ok(step) => step,
            Err(what) => return self.lost(from, Loss::Violation(what.into()), &StatusReport::default()),
        };
        step.up.into_iter().for_each(|message| self.up(message));
        step.down.iter().for_each(|message| self.down(message));
        if let Some((round, records)) = step.done {
            self.actions.push(Action::Gathered(round, records));
        }
        if let Some(message) = step.waiting {
            self.tell(message);
        }
        if let Some((rank, text)) = step.disagreement {
            let failure = Failure::new(ErrorKind::Remote, self.rank, text).by(rank, self.host(rank));
            self.flood(failure, None);
        }
    }

    fn up(&mut self, message: Message) {
        if let Some(parent) = self.tree.parent(self.rank) {
            self.actions.push(Action::Send(parent, message));
        }
    }

    fn down(&mut self, message: &Message) {
        let children = self
            .tree
            .children(self.rank)
            .filter(|child| !self.gone.contains(child));
        self.actions
            .extend(children.map(|child| Action::Send(child, message.clone())));
    }

    /// A rank of this subtree, or this rank, is done.
    fn note_left(&mut self, rank: u32, calls: u64) {
        if self.left.contains_key(&rank) {
            return;
        }
        self.left.insert(rank, calls);
        self.left_below += 1;
        self.up(Message::Left { rank, calls });
        self.see_who_left();
    }

    /// The root, and a rank whose parent has gone, sees for itself when everybody below it is done.
    fn see_who_left(&mut self) {
        let topmost = self
            .tree
            .parent(self.rank)
            .is_none_or(|parent| self.gone.contains(&parent));
        if topmost && self.left_below == self.below {
            self.everybody_left();
        }
    }

    fn everybody_left(&mut self) {
        self.all_left = true;
        self.down(&Message::AllLeft);
    }

    fn host(&self, rank: u32) -> String {
        host_of(&self.hosts)(rank)
    }
}

fn host_of(hosts: &[String]) -> impl Fn(u32) -> String + '_ {
    |rank| {
        let host = usize::try_from(rank).ok().and_then(|rank| hosts.get(rank));
        host.cloned().unwrap_or_else(|| "its host".into())
    }
}

/// What this rank says about call `seq`.
fn answer(seq: u64, status: &StatusReport) -> Answer {
    let known = || status.current.iter().chain(&status.recent);
    match known().find(|call| call.seq == seq) {
        Some(call) => Answer::Called(call.clone()),
        None if known().any(|call| call.seq > seq) => Answer::Forgotten,
        None => Answer::NotYet {
            completed: status.completed,
            current: status.current.clone(),
        },
    }
}

#[cfg(test)]
#[path = "member_tests.rs"]
mod tests;
