//! A member's links, timers and gate: what the service thread runs for each communicator.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use socket2::{SockRef, TcpKeepalive};

use super::gate::{Admitted, GATE_TOKENS, Gate};
use super::handshake::{Purpose, Verdict};
use super::link::{Fill, Link};
use super::member::{Action, Loss, Member, STALL};
use super::message::Message;
use super::plane_state::{Command, PlaneState};
use super::report::{Failure, StatusReport};
use super::service::{Interest, Registrar, Source};
use super::settings::Settings;
use super::tree::Tree;
use crate::ErrorKind;

/// How often an idle rank's status is looked at.
const IDLE: Duration = Duration::from_secs(1);
/// How long a member that is done tries to send its last words.
const LINGER: Duration = Duration::from_secs(1);

struct Peer {
    link: Link,
    interest: Interest,
}

/// The service thread's part of one communicator.
pub(crate) struct MemberIo {
    state: Arc<PlaneState>,
    member: Member,
    tree: Tree,
    rank: u32,
    size: u32,
    heartbeat: Duration,
    keepalive: Duration,
    gate: Option<Gate>,
    peers: BTreeMap<u32, Peer>,
    registrar: Option<Registrar>,
    status: StatusReport,
    look_at: Instant,
    expected: Option<Instant>,
    told: bool,
    leaving: bool,
    linger: Option<Instant>,
    done: bool,
}

impl MemberIo {
    /// A member with its link to the parent, if it has one, and the gate where its children arrive.
    pub(crate) fn new(
        state: Arc<PlaneState>,
        (rank, size): (u32, u32),
        settings: &Settings,
        parent: Option<Link>,
        gate: Option<Gate>,
    ) -> Self {
        let tree = Tree::new(size);
        let peers = tree.parent(rank).zip(parent);
        MemberIo {
            state,
            member: Member::new(tree, rank, size),
            tree,
            rank,
            size,
            heartbeat: settings.heartbeat,
            keepalive: settings.keepalive,
            gate,
            peers: peers
                .into_iter()
                .map(|(rank, link)| {
                    (
                        rank,
                        Peer {
                            link,
                            interest: Interest::Read,
                        },
                    )
                })
                .collect(),
            registrar: None,
            status: StatusReport::default(),
            look_at: Instant::now(),
            expected: None,
            told: false,
            leaving: false,
            linger: None,
            done: false,
        }
    }

    fn gate_ready(&mut self, token: u32, now: Instant) {
        let (Some(registrar), Some(gate)) = (self.registrar.clone(), &mut self.gate) else {
            return;
        };
        let (tree, rank, size, peers) = (self.tree, self.rank, self.size, &self.peers);
        let admitted = gate.ready(&registrar, token, now, &mut |purpose, claim, _| {
            if purpose != Purpose::Link || claim.target != rank || claim.size != size {
                Verdict::Refused(format!(
                    "this is rank {rank} of {size}, which waits for its children only"
                ))
            } else if !tree.children(rank).contains(&claim.rank) {
                Verdict::Refused(format!(
                    "rank {} is no child of rank {rank} in the control tree",
                    claim.rank
                ))
            } else if peers.contains_key(&claim.rank) {
                Verdict::Refused(format!("rank {} is linked already", claim.rank))
            } else {
                Verdict::Accepted
            }
        });
        if let Some(Admitted { claim, link, .. }) = admitted {
            let peer = Peer {
                link,
                interest: Interest::Read,
            };
            if let Err(e) = registrar.add(peer.link.fd(), claim.rank, Interest::Read) {
                return self
                    .member
                    .lost(claim.rank, Loss::Closed(e.to_string()), &StatusReport::default());
            }
            self.keep_alive(&peer.link);
            self.peers.insert(claim.rank, peer);
            if self
                .tree
                .children(self.rank)
                .all(|child| self.peers.contains_key(&child))
            {
                self.close_gate();
            }
        }
    }

    /// Keeps firewalls from forgetting the link, and has the kernel notice a dead host.
    fn keep_alive(&self, link: &Link) {
        if !self.keepalive.is_zero()
            && let Err(e) = SockRef::from(link.stream()).set_tcp_keepalive(
                &TcpKeepalive::new()
                    .with_time(self.keepalive)
                    .with_interval(self.keepalive),
            )
        {
            tracing::debug!("keepalive of a control connection: {e}");
        }
    }

    fn close_gate(&mut self) {
        if let (Some(registrar), Some(mut gate)) = (&self.registrar, self.gate.take()) {
            gate.close(registrar);
        }
    }

    fn peer_ready(&mut self, rank: u32, now: Instant) {
        let Some(peer) = self.peers.get_mut(&rank) else {
            return;
        };
        let filled = peer.link.fill(now);
        let state = Arc::clone(&self.state);
        loop {
            let Some(peer) = self.peers.get_mut(&rank) else {
                return;
            };
            match peer.link.next() {
                Ok(None) => break,
                Ok(Some(frame)) => match Message::decode(&frame) {
                    Ok(message) => self.member.message(rank, message, &|| state.status(), now),
                    Err(e) => return self.drop_peer(rank, Loss::Violation(e.to_string())),
                },
                Err(e) => return self.drop_peer(rank, Loss::Violation(e.to_string())),
            }
        }
        match filled {
            Ok(Fill::Open) => {}
            Ok(Fill::Closed) => self.drop_peer(rank, Loss::Closed("end of stream".into())),
            Err(e) => self.drop_peer(rank, Loss::Closed(e.to_string())),
        }
    }

    fn drop_peer(&mut self, rank: u32, loss: Loss) {
        if let (Some(registrar), Some(peer)) = (&self.registrar, self.peers.remove(&rank)) {
            registrar.remove(peer.link.fd());
        }
        let status = self.state.status();
        self.member.lost(rank, loss, &status);
    }

    fn commands(&mut self, now: Instant) {
        for command in self.state.take_commands() {
            match command {
                Command::Gather { round, what, blob } => self.member.gather(round, what, blob, now),
                Command::Fail(failure) => self.member.fail(failure),
                Command::Disagree { seq, peer } => {
                    let state = Arc::clone(&self.state);
                    self.member.disagree(seq, peer, &|| state.status(), now);
                }
                Command::Hosts(hosts) => self.member.set_hosts(hosts),
                Command::Nudge => self.look_at = self.look_at.min(now + STALL),
                Command::Leave => {
                    self.leaving = true;
                    self.member.leave(self.state.status().completed);
                }
            }
        }
    }

    /// Signs of life in both directions; returns when the next one is due.
    fn heartbeats(&mut self, now: Instant) -> Option<Instant> {
        // A process that was itself stopped must not blame those who could not be heard meanwhile.
        if self.expected.is_some_and(|due| now > due + self.heartbeat / 2) {
            self.peers.values_mut().for_each(|peer| peer.link.heard = now);
        }
        if self.member.has_failed() {
            return None;
        }
        let interval = self.heartbeat / 4;
        let mut due = None;
        let mut silent = Vec::new();
        for (rank, peer) in &mut self.peers {
            if peer.link.heard + self.heartbeat <= now {
                silent.push(*rank);
                continue;
            }
            if peer.link.spoke + interval <= now {
                peer.link.queue(&Message::Beat.encode(), now);
            }
            let next = (peer.link.spoke + interval).min(peer.link.heard + self.heartbeat);
            due = Some(due.map_or(next, |d: Instant| d.min(next)));
        }
        for rank in silent {
            // The link stays: a rank that was stopped finds the failure there when it goes on.
            self.member
                .lost(rank, Loss::Silent(self.heartbeat), &self.state.status());
        }
        due
    }

    /// Does what the member asked for. Messages reach the kernel before anybody here hears of a failure, so that a
    /// process which ends at once has told its neighbours why.
    fn apply(&mut self, now: Instant) {
        let mut failure = None;
        for action in std::mem::take(&mut self.member.actions) {
            match action {
                Action::Send(to, message) => {
                    if let Some(peer) = self.peers.get_mut(&to) {
                        peer.link.queue(&message.encode(), now);
                    }
                }
                Action::Failed(found) => failure = Some(found),
                Action::Gathered(round, records) => {
                    self.state.post(|board| board.gathered = Some((round, records)));
                }
                Action::Waiting(round, count, missing) => {
                    self.state
                        .post(|board| board.waiting = Some((round, count, missing)));
                }
                Action::Late(report) => self.state.post(|board| board.late = Some(report)),
            }
        }
        self.flush();
        if let Some(failure) = failure {
            self.state.set_failure(failure);
            self.state.call_hooks();
        }
    }

    fn flush(&mut self) {
        let Some(registrar) = &self.registrar else { return };
        for (rank, peer) in &mut self.peers {
            // An error shows again when reading, after what the peer said last has been read.
            let _ = peer.link.flush();
            let wanted = if peer.link.pending() {
                Interest::ReadWrite
            } else {
                Interest::Read
            };
            if wanted != peer.interest && registrar.modify(peer.link.fd(), *rank, wanted).is_ok() {
                peer.interest = wanted;
            }
        }
    }

    /// Ends the member once this rank is done and nobody needs it: all are done, or the communicator failed.
    fn finish(&mut self, now: Instant) -> Option<Instant> {
        if !self.leaving {
            return None;
        }
        if !self.told && self.peers.values().all(|peer| !peer.link.pending()) {
            self.told = true;
            self.state.post(|board| board.said = true);
        }
        if !(self.member.all_left() || self.member.has_failed() || self.peers.is_empty()) {
            return None;
        }
        let until = match self.linger {
            Some(until) => until,
            None => {
                for peer in self.peers.values_mut() {
                    peer.link.queue(&Message::Goodbye.encode(), now);
                }
                self.flush();
                *self.linger.insert(now + LINGER)
            }
        };
        if until <= now || self.peers.values().all(|peer| !peer.link.pending()) {
            self.end();
            return None;
        }
        Some(until)
    }

    fn end(&mut self) {
        self.close_gate();
        if let Some(registrar) = &self.registrar {
            self.peers
                .values()
                .for_each(|peer| registrar.remove(peer.link.fd()));
        }
        self.peers.clear();
        self.state.set_status_source(None);
        self.done = true;
        self.state.post(|board| {
            board.said = true;
            board.ended = true;
        });
    }
}

impl Source for MemberIo {
    fn start(&mut self, registrar: Registrar, now: Instant) {
        let mut failed = None;
        for (rank, peer) in &self.peers {
            self.keep_alive(&peer.link);
            if let Err(e) = registrar.add(peer.link.fd(), *rank, Interest::Read) {
                failed = Some(e);
            }
        }
        if let Some(Err(e)) = self.gate.as_mut().map(|gate| gate.open(&registrar)) {
            failed = Some(e);
        }
        self.registrar = Some(registrar);
        if let Some(e) = failed {
            let message = format!("the control service cannot watch its connections: {e}");
            self.member
                .fail(Failure::new(ErrorKind::System, self.rank, message));
        }
        // Frames may have come together with the end of the handshake.
        let ranks: Vec<u32> = self.peers.keys().copied().collect();
        ranks.into_iter().for_each(|rank| self.peer_ready(rank, now));
        self.apply(now);
    }

    fn ready(&mut self, token: u32, now: Instant) {
        if token >= GATE_TOKENS {
            self.gate_ready(token, now);
        } else {
            self.peer_ready(token, now);
        }
        self.apply(now);
    }

    fn tick(&mut self, now: Instant) -> Option<Instant> {
        self.commands(now);
        let beat = self.heartbeats(now);
        if self.look_at <= now {
            let before = std::mem::replace(&mut self.status, self.state.status());
            let idle = self.status.current.is_none() && before.completed == self.status.completed;
            self.look_at = now + if idle { IDLE } else { STALL };
        }
        let work = self.member.tick(&self.status, now);
        self.apply(now);
        let gate = match (&mut self.gate, &self.registrar) {
            (Some(gate), Some(registrar)) => gate.tick(registrar, now),
            _ => None,
        };
        let finish = self.finish(now);
        self.expected = [beat, work, gate, finish, Some(self.look_at)]
            .into_iter()
            .flatten()
            .min();
        self.expected
    }

    fn finished(&self) -> bool {
        self.done
    }

    fn panicked(&mut self) {
        let failure = Failure::new(
            ErrorKind::Internal,
            self.rank,
            "the control service of this rank panicked",
        );
        self.state.set_failure(failure);
        self.state.post(|board| board.ended = true);
    }
}
