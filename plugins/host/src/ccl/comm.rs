//! A communicator: its segment, its lanes, and the operations that are given to them.

use super::call::Call;
use super::lane::{Lane, Operation};
use super::message::{Recv, Send};
use super::pipeline::{Order, Run};
use super::ring::{RecvEnd, SendEnd};
use super::segment::Segment;
use super::wait::{Poll, Waiter};
use infiniccl_plugin_api::{CollDesc, Collective, Failure, Status};

impl Operation for Run {
    type State = Order;

    fn step(&mut self, segment: &Segment, order: &mut Order) -> Result<Poll, Failure> {
        self.poll(segment, order)
    }
}

impl Operation for Send {
    type State = SendEnd;

    fn step(&mut self, segment: &Segment, end: &mut SendEnd) -> Result<Poll, Failure> {
        self.poll(segment, end)
    }
}

impl Operation for Recv {
    type State = RecvEnd;

    fn step(&mut self, segment: &Segment, end: &mut RecvEnd) -> Result<Poll, Failure> {
        self.poll(segment, end)
    }
}

/// An operation with checked arguments.
#[derive(Debug)]
// It lives on the stack for the time of a call; a box would cost an allocation.
#[allow(clippy::large_enum_variant)]
enum Checked {
    Collective(Run),
    Send(Send),
    Recv(Recv),
}

/// Which lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Collectives,
    To(usize),
    From(usize),
}

/// An operation that a lane has taken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ticket {
    way: Way,
    number: u64,
}

/// One rank's end of a communicator.
#[derive(Debug)]
pub(crate) struct Comm {
    segment: Segment,
    collectives: Lane<Run>,
    to: Box<[Lane<Send>]>,
    from: Box<[Lane<Recv>]>,
}

impl Comm {
    /// A communicator over a segment that all ranks have joined.
    pub(crate) fn new(segment: Segment) -> Comm {
        let ranks = segment.ranks();
        Comm {
            segment,
            collectives: Lane::default(),
            to: (0..ranks).map(|_| Lane::default()).collect(),
            from: (0..ranks).map(|_| Lane::default()).collect(),
        }
    }

    /// Its shared memory.
    pub(crate) fn segment(&self) -> &Segment {
        &self.segment
    }

    /// # Safety
    /// As for [`Call::new`].
    unsafe fn check(&self, desc: &CollDesc) -> Result<Checked, Failure> {
        let (me, ranks) = (self.segment.me(), self.segment.ranks());
        Ok(match desc.collective {
            Collective::SEND => Checked::Send(Send::new(desc, ranks)?),
            Collective::RECV => Checked::Recv(Recv::new(desc, ranks)?),
            // SAFETY: the caller's promise.
            _ => Checked::Collective(Run::new(unsafe { Call::new(desc, me, ranks) }?, &self.segment)),
        })
    }

    fn usable(&self) -> Result<(), Failure> {
        if crate::fork::is_child() {
            let text = "the communicator was made before a fork and cannot be used in the child";
            return Err(Failure::new(Status::USAGE, text));
        }
        self.segment.stopped()
    }

    /// Runs operations on this thread, concurrently if they are several; returns when all have finished.
    ///
    /// # Safety
    /// The descriptors are valid: buffers as long as their counts say, until this returns.
    pub(crate) unsafe fn run(&self, descs: &[CollDesc]) -> Result<(), Failure> {
        self.usable()?;
        if let [desc] = descs {
            // SAFETY: the caller's promise.
            return match unsafe { self.check(desc) }? {
                Checked::Collective(run) => self.collectives.run(&self.segment, run),
                Checked::Send(send) => self.to[send.peer()].run(&self.segment, send),
                Checked::Recv(recv) => self.from[recv.peer()].run(&self.segment, recv),
            };
        }
        // SAFETY: the caller's promise.
        let tickets = unsafe { self.issue(descs, true) }?;
        let mut waiter = Waiter::new(self.segment.crowded());
        while let Poll::Pending { mask, moved } = self.drive(&tickets)? {
            waiter.step(&self.segment, mask, moved, None);
        }
        Ok(())
    }

    /// Queues operations, all or, if one is refused, none.
    ///
    /// # Safety
    /// As for [`Comm::run`], until the operations have ended; count lists only until this returns.
    pub(crate) unsafe fn issue(&self, descs: &[CollDesc], ready: bool) -> Result<Vec<Ticket>, Failure> {
        self.usable()?;
        // SAFETY: the caller's promise.
        let checked: Result<Vec<_>, _> = descs.iter().map(|desc| unsafe { self.check(desc) }).collect();
        let tickets = checked?.into_iter().map(|checked| match checked {
            Checked::Collective(run) => Ticket {
                way: Way::Collectives,
                number: self.collectives.issue(run, ready),
            },
            Checked::Send(send) => {
                let peer = send.peer();
                Ticket {
                    way: Way::To(peer),
                    number: self.to[peer].issue(send, ready),
                }
            }
            Checked::Recv(recv) => {
                let peer = recv.peer();
                Ticket {
                    way: Way::From(peer),
                    number: self.from[peer].issue(recv, ready),
                }
            }
        });
        Ok(tickets.collect())
    }

    /// Lets queued operations run: their stream has got there.
    pub(crate) fn set_ready(&self, tickets: &[Ticket]) {
        for ticket in tickets {
            match ticket.way {
                Way::Collectives => self.collectives.set_ready(ticket.number),
                Way::To(peer) => self.to[peer].set_ready(ticket.number),
                Way::From(peer) => self.from[peer].set_ready(ticket.number),
            }
        }
    }

    /// Drives the lanes of these operations; done when all of them are.
    pub(crate) fn drive(&self, tickets: &[Ticket]) -> Result<Poll, Failure> {
        let (mut waits, mut any_moved, mut all) = (0, false, true);
        for ticket in tickets {
            if self.is_done(ticket) {
                continue;
            }
            let step = match ticket.way {
                Way::Collectives => self.collectives.drive(&self.segment),
                Way::To(peer) => self.to[peer].drive(&self.segment),
                Way::From(peer) => self.from[peer].drive(&self.segment),
            }?;
            if let Poll::Pending { mask, moved } = step {
                waits |= mask;
                any_moved |= moved;
            }
            if !self.is_done(ticket) {
                // The lane was cleared by a failure, or another thread is at it.
                self.segment.stopped()?;
                all = false;
            }
        }
        if all {
            return Ok(Poll::Done);
        }
        // Another thread of this rank may finish what this one waits for.
        Ok(Poll::Pending {
            mask: waits | super::bell::bit(self.segment.me()),
            moved: any_moved,
        })
    }

    fn is_done(&self, ticket: &Ticket) -> bool {
        match ticket.way {
            Way::Collectives => self.collectives.is_done(ticket.number),
            Way::To(peer) => self.to[peer].is_done(ticket.number),
            Way::From(peer) => self.from[peer].is_done(ticket.number),
        }
    }

    /// Ends all work on every rank with ABORTED; from any thread, without waiting.
    pub(crate) fn abort(&self) {
        if !crate::fork::is_child() {
            self.segment.abort();
        }
    }

    /// Ends this rank's part: peers that wait for it get an error, and so does what is still queued here.
    pub(crate) fn leave(&self) {
        if crate::fork::is_child() {
            return;
        }
        let idle = self.collectives.is_idle()
            && self.to.iter().all(Lane::is_idle)
            && self.from.iter().all(Lane::is_idle);
        if !idle {
            self.segment.abort();
        }
        self.segment.leave();
    }
}
