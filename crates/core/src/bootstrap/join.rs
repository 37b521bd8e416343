//! A rank's way into a communicator: to the root, then to its parent in the control tree, until all are there.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use super::arrival::MAX_RANKS;
use super::control::ControlPlane;
use super::dial::{Dial, remaining, wait};
use super::environment;
use super::gate::Gate;
use super::handshake::{Claim, Purpose};
use super::host_identity::HostIdentity;
use super::interfaces::seen_from_here;
use super::keys::Key;
use super::link::{Fill, Link};
use super::listen::{bound_addresses, listen};
use super::member_io::MemberIo;
use super::plane_state::PlaneState;
use super::record::{ArrivalMessage, MemberRecord, Progress};
use super::rendezvous::{Reach, own_addresses};
use super::report::Failure;
use super::service;
use super::settings::Settings;
use super::tree::Tree;
use super::unique_id::UniqueId;
use crate::{Error, ErrorKind, Result};

/// The root tells its progress every second; one that is silent for longer than this, and than the heartbeat, is lost.
const ROOT_SILENCE: Duration = Duration::from_secs(10);
/// How long a rank whose links fail while the job forms waits for the root to name the cause.
const VERDICT: Duration = Duration::from_millis(500);
/// How long a rank that is linked waits for the root to take note of it.
const LAST_WORD: Duration = Duration::from_secs(1);

/// What a rank needs to join.
pub(crate) struct JoinParams<'a> {
    /// The job.
    pub(crate) id: &'a UniqueId,
    /// This rank.
    pub(crate) rank: u32,
    /// The number of ranks.
    pub(crate) size: u32,
    /// The operator's settings.
    pub(crate) settings: &'a Settings,
}

impl ControlPlane {
    /// Joins the communicator of job `id`; blocks until all ranks have joined.
    ///
    /// # Errors
    /// `InvalidArgument` for an impossible rank or size; `Timeout` after `settings.connect`, naming the missing ranks;
    /// `Remote` when another rank ends meanwhile, or the root refuses this one.
    pub(crate) fn join(params: &JoinParams<'_>) -> Result<ControlPlane> {
        let JoinParams {
            id,
            rank,
            size,
            settings,
        } = *params;
        if size == 0 || size > MAX_RANKS || rank >= size {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!("rank {rank} of {size} is not possible: ranks go from 0 to the number of ranks - 1"),
            ));
        }
        // The file by which others find the root goes when all have joined; the rest stays until the end.
        let first = environment::adopt(id);
        let state = Arc::new(PlaneState::new());
        let me = HostIdentity::of_this_process(settings.node_label.as_deref());
        let mut record = MemberRecord {
            host: me,
            pid: std::process::id(),
            addresses: Vec::new(),
        };
        if size == 1 {
            let key = id.key().derive("infiniccl communicator of one", &[]);
            let mut plane = ControlPlane::assemble((rank, size), key, settings.clone(), state, None);
            plane.set_members(vec![record]);
            return Ok(plane);
        }
        let deadline = Instant::now() + settings.connect;
        let mut star = Star::dial(params, deadline)?;
        let tree = Tree::new(size);
        let listeners = if tree.children(rank).is_empty() {
            Vec::new()
        } else {
            let addresses = own_addresses(settings, Reach::AnyHost, star.local_ip())?;
            star.or_give_up(listen(&addresses, settings.port_range.as_ref()))?
        };
        record.addresses = bound_addresses(&listeners);
        star.send(&ArrivalMessage::Record(record.clone()))?;
        let (seed, parent) = star.world(deadline)?;
        let key = id
            .key()
            .derive("infiniccl communicator", &[&seed, &size.to_le_bytes()]);
        let links = Tree::new(size).parent(rank).zip(parent.as_ref());
        let dialled = links
            .map(|(parent, at)| dial_parent(parent, at, params, &key, deadline, &mut star))
            .transpose();
        let parent = star.or_give_up(dialled)?;
        let plane = start(params, key, state, parent, listeners)?;
        let gathered =
            plane.allgather_watching("joining", &record.to_bytes(), deadline, &mut || star.check());
        let records = match gathered {
            Ok(records) => records,
            Err(error) => {
                // A link that broke may be the consequence of what the root knows the cause of.
                let by_link = error.kind() == ErrorKind::Remote && plane.failure().is_some();
                let error = by_link.then(|| star.verdict()).flatten().unwrap_or(error);
                // The tree may not reach everybody yet; the root does.
                plane.fail(failure_of(rank, &error));
                return star.or_give_up(Err(error));
            }
        };
        let members: std::result::Result<Vec<_>, _> =
            records.iter().map(|r| MemberRecord::from_bytes(r)).collect();
        let members = members.map_err(|e| {
            Error::new(
                ErrorKind::Internal,
                "a rank's record does not decode, though all speak one version",
            )
            .with_source(e)
        });
        let members = star.or_give_up(members)?;
        let mut plane = plane;
        plane.set_local_ip(star.local_ip());
        star.linked();
        plane.set_members(members);
        first
            .and_then(|first| first.hold)
            .into_iter()
            .for_each(|hold| plane.keep(hold));
        Ok(plane)
    }
}

/// Starts the member of this rank on the service thread.
pub(super) fn start(
    params: &JoinParams<'_>,
    key: Key,
    state: Arc<PlaneState>,
    parent: Option<Link>,
    listeners: Vec<std::net::TcpListener>,
) -> Result<ControlPlane> {
    let JoinParams {
        rank, size, settings, ..
    } = *params;
    let gate = (!listeners.is_empty()).then(|| Gate::new(listeners, link_key(&key)));
    let member = MemberIo::new(Arc::clone(&state), (rank, size), settings, parent, gate);
    let waker = service::add(Box::new(member))?;
    Ok(ControlPlane::assemble(
        (rank, size),
        key,
        settings.clone(),
        state,
        Some(waker),
    ))
}

/// The key of the tree's links.
pub(super) fn link_key(key: &Key) -> Key {
    key.derive("infiniccl control tree links", &[])
}

fn dial_parent(
    parent: u32,
    at: &MemberRecord,
    params: &JoinParams<'_>,
    key: &Key,
    deadline: Instant,
    star: &mut Star,
) -> Result<Link> {
    let dial = Dial {
        candidates: &seen_from_here(&at.addresses),
        key: &link_key(key),
        purpose: Purpose::Link,
        claim: Claim {
            rank: params.rank,
            size: params.size,
            target: parent,
        },
        deadline,
    };
    dial.connect(&mut || star.check())
}

fn failure_of(rank: u32, error: &Error) -> Failure {
    let mut failure = Failure::new(error.kind(), rank, error.message());
    failure.rank = error.get("rank").and_then(|rank| rank.parse().ok());
    failure.host = error.get("host").unwrap_or_default().to_owned();
    failure.phase = error.get("phase").unwrap_or("joining").to_owned();
    failure
}

/// The connection to the root while the job forms.
struct Star {
    rank: u32,
    link: Link,
    heartbeat: Duration,
    progress: Option<Progress>,
}

impl Star {
    fn dial(params: &JoinParams<'_>, deadline: Instant) -> Result<Self> {
        let JoinParams {
            id,
            rank,
            size,
            settings,
        } = *params;
        let dial = Dial {
            candidates: &seen_from_here(&id.addresses()),
            key: &id.handshake_key(),
            purpose: Purpose::Arrive,
            claim: Claim {
                rank,
                size,
                target: 0,
            },
            deadline,
        };
        let link = dial.connect(&mut || Ok(()))?;
        Ok(Star {
            rank,
            link,
            heartbeat: settings.heartbeat,
            progress: None,
        })
    }

    fn local_ip(&self) -> Option<std::net::IpAddr> {
        self.link.stream().local_addr().ok().map(|address| address.ip())
    }

    fn send(&mut self, message: &ArrivalMessage) -> Result<()> {
        self.link.queue(&message.encode(), Instant::now());
        if let Err(e) = self.link.flush() {
            // What the root said before it closed the connection tells more.
            self.receive()?;
            return Err(self.lost(&e.to_string()));
        }
        Ok(())
    }

    /// Waits until everybody is here.
    fn world(&mut self, deadline: Instant) -> Result<([u8; 32], Option<MemberRecord>)> {
        let begun = Instant::now();
        loop {
            if let Some(world) = self.receive()? {
                return Ok(world);
            }
            let Some(left) = remaining(deadline) else {
                let progress = self.progress.as_ref().map_or_else(
                    || "the root has not said who is missing".to_owned(),
                    Progress::describe,
                );
                let message = format!(
                    "rank {} waited {:.1} s for the job to form: {progress} (timeouts.connect)",
                    self.rank,
                    begun.elapsed().as_secs_f64()
                );
                let mut error = Error::new(ErrorKind::Timeout, message);
                if let Some([missing]) = self.progress.as_ref().map(|progress| progress.missing.as_slice()) {
                    error = error.with("rank", missing);
                }
                return self.or_give_up(Err(error));
            };
            if self.link.heard.elapsed() > self.heartbeat.max(ROOT_SILENCE) {
                return Err(self.lost("it has been silent; its host may be down or cut off"));
            }
            let mut flags = PollFlags::IN;
            flags.set(PollFlags::OUT, self.link.pending());
            let ready = wait(
                &[(self.link.stream().as_fd(), flags)],
                left.min(Duration::from_millis(500)),
            );
            ready.map_err(|e| Error::new(ErrorKind::System, "poll").with_source(e))?;
            self.link.flush().map_err(|e| self.lost(&e.to_string()))?;
        }
    }

    /// The root's bad news, if they come soon.
    fn verdict(&mut self) -> Option<Error> {
        let until = Instant::now() + VERDICT;
        while let Some(left) = remaining(until) {
            match self.receive() {
                Ok(_) => drop(wait(&[(self.link.stream().as_fd(), PollFlags::IN)], left)),
                Err(error) => return Some(error),
            }
        }
        None
    }

    /// Looks, without waiting, whether the root has bad news.
    fn check(&mut self) -> Result<()> {
        self.receive().map(|_| ())
    }

    fn receive(&mut self) -> Result<Option<([u8; 32], Option<MemberRecord>)>> {
        let filled = self.link.fill(Instant::now());
        while let Some(frame) = self.link.next().map_err(|e| self.lost(&e.to_string()))? {
            match ArrivalMessage::decode(&frame).map_err(|e| self.lost(&e.to_string()))? {
                ArrivalMessage::Progress(progress) => self.progress = Some(progress),
                ArrivalMessage::World { seed, parent } => return Ok(Some((seed, parent))),
                ArrivalMessage::Failed(failure) => return Err(failure.to_error()),
                ArrivalMessage::Record(_) | ArrivalMessage::Linked | ArrivalMessage::GiveUp(_) => {
                    return Err(self.lost("it sent a message that is not its to send"));
                }
            }
        }
        match filled {
            Ok(Fill::Open) => Ok(None),
            Ok(Fill::Closed) => Err(self.lost("the connection was closed: its process has ended")),
            Err(e) => Err(self.lost(&e.to_string())),
        }
    }

    /// The tree works for this rank: it needs the root's help no more. The root closes the connection, so that the port
    /// of this end is free again at once; ended connections keep the port of the end that closed first.
    fn linked(mut self) {
        let until = Instant::now() + LAST_WORD;
        // A root that has gone by now is noticed through the tree.
        let mut open = self.send(&ArrivalMessage::Linked).is_ok();
        while let (true, Some(left)) = (open, remaining(until)) {
            open = wait(&[(self.link.stream().as_fd(), PollFlags::IN)], left).is_ok()
                && matches!(self.link.fill(Instant::now()), Ok(Fill::Open));
        }
    }

    /// Passes `result` on; an error is told to the root first, so that the others learn of it at once.
    fn or_give_up<T>(&mut self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result {
            let mut failure = failure_of(self.rank, error);
            if failure.rank.is_none() && error.kind() != ErrorKind::Timeout {
                failure.rank = Some(self.rank);
                failure.message = format!("rank {} could not join: {}", self.rank, error);
            }
            let _ = self.send(&ArrivalMessage::GiveUp(failure));
        }
        result
    }

    fn lost(&self, why: &str) -> Error {
        let address = self
            .link
            .stream()
            .peer_addr()
            .map_or_else(|_| "its address".to_owned(), |a| a.to_string());
        let progress = self
            .progress
            .as_ref()
            .map(|p| format!(" ({})", p.describe()))
            .unwrap_or_default();
        Error::new(
            ErrorKind::Remote,
            format!("the root of the job at {address} was lost while the job was forming: {why}{progress}"),
        )
        .with("rank", self.rank)
    }
}
