//! Ranks as threads on loopback, with puppets that misbehave: what every test here shares.

mod death;
mod disagreement;
mod forming;
mod processes;
mod strangers;
mod worlds;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::control::ControlPlane;
use super::dial::Dial;
use super::handshake::{Claim, Purpose};
use super::host_identity::HostIdentity;
use super::join::{JoinParams, link_key};
use super::keys::Key;
use super::link::{Fill, Link};
use super::listen::{bound_addresses, listen};
use super::message::{Entry, Message};
use super::record::{ArrivalMessage, MemberRecord};
use super::rendezvous::{Reach, create_unique_id};
use super::report::{CallRecord, StatusReport};
use super::settings::Settings;
use super::tree::Tree;
use super::unique_id::UniqueId;
use crate::Result;
use crate::config::Config;

/// No test waits longer than this for anything.
const LIMIT: Duration = Duration::from_secs(30);

fn settings() -> Settings {
    Settings {
        connect: Duration::from_secs(20),
        ..Settings::from_config(&Config::built_in())
    }
}

fn impatient(connect: Duration) -> Settings {
    Settings {
        connect,
        ..settings()
    }
}

fn new_id() -> UniqueId {
    create_unique_id(&settings(), Reach::ThisHost).unwrap()
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

/// A loopback address that was free a moment ago.
fn free_address() -> SocketAddr {
    bound_addresses(&listen(&["127.0.0.1:0".parse().unwrap()], None).unwrap())[0]
}

/// Runs `body` on a thread for each rank; results come with their rank as they end.
fn each_rank<T: Send + 'static>(
    ranks: impl IntoIterator<Item = u32>,
    body: impl Fn(u32) -> T + Send + Clone + 'static,
) -> Receiver<(u32, T)> {
    let (done, results) = channel();
    for rank in ranks {
        let (body, done) = (body.clone(), done.clone());
        thread::spawn(move || {
            let result = body(rank);
            let _ = done.send((rank, result));
        });
    }
    results
}

/// The results of `count` ranks, by rank; a rank that does not end fails the test.
fn collect<T>(results: &Receiver<(u32, T)>, count: usize) -> Vec<(u32, T)> {
    let next = |n| {
        results
            .recv_timeout(LIMIT)
            .unwrap_or_else(|_| panic!("only {n} of {count} ranks ended"))
    };
    let mut all: Vec<_> = (0..count).map(next).collect();
    all.sort_by_key(|(rank, _)| *rank);
    all
}

fn join(id: UniqueId, rank: u32, size: u32, settings: &Settings) -> Result<ControlPlane> {
    ControlPlane::join(&JoinParams {
        id: &id,
        rank,
        size,
        settings,
    })
}

/// A record that differs by rank, position and `salt`.
fn blob(rank: u32, salt: u32) -> Vec<u8> {
    (0..rank % 37 + 1)
        .map(|i| u8::try_from((rank * 31 + i * 7 + salt) % 251).unwrap())
        .collect()
}

/// Asks `look` until it finds something; fails the test after [`LIMIT`].
fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < LIMIT, "{what} did not happen");
        thread::sleep(Duration::from_millis(2));
    }
}

/// A rank whose every step the test decides. It must be a leaf of the control tree.
struct Puppet {
    rank: u32,
    size: u32,
    id: UniqueId,
    star: Link,
}

impl Puppet {
    /// Arrives at the root, and does nothing more.
    fn arrive(id: UniqueId, rank: u32, size: u32) -> Puppet {
        assert!(Tree::new(size).children(rank).is_empty());
        let dial = Dial {
            candidates: &id.addresses(),
            key: &id.handshake_key(),
            purpose: Purpose::Arrive,
            claim: Claim {
                rank,
                size,
                target: 0,
            },
            deadline: soon(),
        };
        let star = dial.connect(&mut || Ok(())).unwrap();
        Puppet { rank, size, id, star }
    }

    fn tell_root(&mut self, message: &ArrivalMessage) {
        self.star.queue(&message.encode(), Instant::now());
        self.star.flush().unwrap();
    }

    fn record(&self) -> MemberRecord {
        MemberRecord {
            host: HostIdentity {
                id: 1,
                hostname: "puppet".into(),
            },
            pid: 1,
            addresses: Vec::new(),
        }
    }

    /// Waits for the world, links to the parent and takes part in the first exchange; returns the link.
    fn settle(mut self) -> Link {
        self.tell_root(&ArrivalMessage::Record(self.record()));
        let (seed, parent) = eventually("the world", || {
            self.star.fill(Instant::now()).unwrap();
            let frame = self.star.next().unwrap()?;
            match ArrivalMessage::decode(&frame).unwrap() {
                ArrivalMessage::World { seed, parent } => Some((seed, parent)),
                _ => None,
            }
        });
        let key: Key = self
            .id
            .key()
            .derive("infiniccl communicator", &[&seed, &self.size.to_le_bytes()]);
        let dial = Dial {
            candidates: &parent.unwrap().addresses,
            key: &link_key(&key),
            purpose: Purpose::Link,
            claim: Claim {
                rank: self.rank,
                size: self.size,
                target: Tree::new(self.size).parent(self.rank).unwrap(),
            },
            deadline: soon(),
        };
        let mut link = dial.connect(&mut || Ok(())).unwrap();
        let entry = Entry {
            rank: self.rank,
            what: "joining".into(),
            blob: self.record().to_bytes(),
        };
        say(
            &mut link,
            &Message::Gather {
                round: 0,
                entries: vec![entry],
            },
        );
        let mut have = 0;
        while have < self.size {
            if let Message::Spread { entries, .. } = hear(&mut link) {
                have += u32::try_from(entries.len()).unwrap();
            }
        }
        self.tell_root(&ArrivalMessage::Linked);
        link
    }
}

/// Sends one message.
fn say(link: &mut Link, message: &Message) {
    link.queue(&message.encode(), Instant::now());
    link.flush().unwrap();
}

/// Waits for one message.
fn hear(link: &mut Link) -> Message {
    eventually("a message", || {
        if let Some(frame) = link.next().unwrap() {
            return Some(Message::decode(&frame).unwrap());
        }
        assert_eq!(link.fill(Instant::now()).unwrap(), Fill::Open, "the link ended");
        None
    })
}

/// A call in progress that has waited for `waiting_ms`.
fn in_call(seq: u64, count: u32, waiting_ms: u64) -> StatusReport {
    let call = CallRecord {
        seq,
        digest: count,
        text: format!("AllReduce count={count} float32 sum"),
        refused: None,
        phase: "reduce".into(),
    };
    StatusReport {
        current: Some(call),
        waiting_ms,
        recent: Vec::new(),
        completed: seq,
    }
}

fn with_status(plane: &ControlPlane, status: StatusReport) {
    plane.set_status_source(Arc::new(move || status.clone()));
}
