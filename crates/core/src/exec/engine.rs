//! The executor of one communicator and rank: runs calls in the order they were submitted.
//!
//! A batch is a set of calls that run at once (the messages of a group) or a single collective. Batches run one
//! after the other, as on a stream. Whoever waits drives; the progress thread drives what nobody waits for.

use super::backoff::{Backoff, Pause, WaitPolicy};
use super::instance::{Instance, Submission};
use super::island::Island;
use super::links::{Arrival, Links};
use super::local;
use super::outcome::{no_island, no_links};
use super::prepared::LaneKind;
use super::scratch::Scratch;
use super::watch::{Label, Watch};
use crate::error::{Error, Result};
use crate::schedule::Action;
use infiniccl_plugin_api::{Collective, Status, WorkOp};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Longest sleep between two looks at the failure flag.
const SLEEP: Duration = Duration::from_millis(20);
/// A call that waits for longer than this is looked at by the control plane.
const TELL_AFTER: Duration = Duration::from_millis(200);
/// Longest sleep while both network and vendor library are awaited, since one wait cannot cover both.
const SHORT_SLEEP: Duration = Duration::from_micros(200);

/// Calls that run at once, and what is known of them.
pub(crate) struct Batch {
    pub(crate) calls: Vec<Submission>,
    pub(crate) label: Label,
}

/// A batch under way.
pub(super) struct Running {
    pub(super) label: Label,
    started: Instant,
    left: usize,
    /// Whether the control plane was told that this rank waits.
    told: bool,
}

/// What the engine's owner thread works with.
pub(crate) struct Engine {
    pub(super) links: Option<Links>,
    pub(super) island: Option<Island>,
    queue: VecDeque<Batch>,
    pub(super) running: Option<Running>,
    pub(super) instances: Vec<Instance>,
    spare: Vec<Instance>,
    scratch: Scratch,
    arrivals: Vec<Arrival>,
    vendor_done: Vec<(u64, Status)>,
    pub(super) watch: Arc<Watch>,
    policy: WaitPolicy,
    limit: Duration,
    /// Batches submitted and batches ended, since the start.
    submitted: u64,
    ended: Arc<AtomicU64>,
    /// The error that ended the communicator, and how many batches had ended well before it.
    failed: Option<(Error, u64)>,
}

impl Engine {
    pub(crate) fn new(
        links: Option<Links>,
        island: Option<Island>,
        watch: Arc<Watch>,
        policy: WaitPolicy,
        limit: Duration,
    ) -> Self {
        Engine {
            links,
            island,
            queue: VecDeque::new(),
            running: None,
            instances: Vec::new(),
            spare: Vec::new(),
            scratch: Scratch::new(),
            arrivals: Vec::new(),
            vendor_done: Vec::new(),
            watch,
            policy,
            limit,
            submitted: 0,
            ended: Arc::new(AtomicU64::new(0)),
            failed: None,
        }
    }

    /// The count of ended batches, for looks without the engine's lock.
    pub(crate) fn ended(&self) -> Arc<AtomicU64> {
        self.ended.clone()
    }

    /// The network side, for reports.
    pub(crate) fn links(&self) -> Option<&Links> {
        self.links.as_ref()
    }

    /// The island's side, for reports.
    pub(crate) fn island(&self) -> Option<&Island> {
        self.island.as_ref()
    }

    /// Appends a batch; the ticket says when it has ended.
    pub(crate) fn submit(&mut self, batch: Batch) -> Result<u64> {
        self.check_failed()?;
        self.queue.push_back(batch);
        self.submitted += 1;
        // An error leaves a call half started: everything ends with it, so that no buffer stays in use.
        self.start_next().map_err(|e| self.fail(e))?;
        Ok(self.submitted)
    }

    /// Whether the batch of `ticket` has ended.
    pub(crate) fn has_ended(&self, ticket: u64) -> bool {
        self.ended.load(Ordering::Acquire) >= ticket
    }

    /// Drives until the batch of `ticket` has ended.
    pub(crate) fn wait(&mut self, ticket: u64) -> Result<()> {
        let mut backoff = Backoff::new(self.policy);
        loop {
            if self.has_ended(ticket) {
                return self.outcome(ticket);
            }
            if self.progress()? {
                backoff.reset();
            } else if matches!(backoff.pause(), Pause::Sleep) {
                self.sleep()?;
            }
        }
    }

    /// Does what can be done now; tells whether anything moved.
    pub(crate) fn progress(&mut self) -> Result<bool> {
        self.check_failed()?;
        let moved = self.advance();
        moved.map_err(|e| self.fail(e))
    }

    /// Whether nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.running.is_none() && self.queue.is_empty()
    }

    /// Sleeps until something may have moved, at most [`SLEEP`].
    pub(crate) fn sleep(&mut self) -> Result<()> {
        self.check_limits()?;
        let network = self.links.as_ref().is_some_and(Links::is_busy);
        let vendor = self.island.as_ref().is_some_and(Island::is_busy);
        match (network, vendor) {
            (true, _) => {
                let fd = self.links.as_ref().and_then(Links::arm);
                // What came between the last poll and `arm` must not be slept over.
                if !self.progress()? {
                    let limit = if vendor || fd.is_none() {
                        SHORT_SLEEP
                    } else {
                        SLEEP
                    };
                    wait_readable(fd, limit);
                }
            }
            (false, true) => {
                if let Some(island) = &self.island {
                    island.sleep(SLEEP);
                }
            }
            (false, false) => std::thread::sleep(SHORT_SLEEP),
        }
        Ok(())
    }

    /// Ends everything with `error`; every later call gets it too.
    pub(crate) fn fail(&mut self, error: Error) -> Error {
        if let Some((first, _)) = &self.failed {
            return first.clone();
        }
        // The watch may know more: who died, or who called what.
        let error = self.watch.explain(error);
        if let Some(links) = &mut self.links {
            links.abort();
        }
        if let Some(island) = &mut self.island {
            island.abort();
        }
        self.instances.clear();
        self.queue.clear();
        self.running = None;
        self.failed = Some((error.clone(), self.ended.load(Ordering::Acquire)));
        self.ended.store(self.submitted, Ordering::Release);
        error
    }

    /// How the batch of `ticket`, which has ended, ended.
    pub(crate) fn outcome(&self, ticket: u64) -> Result<()> {
        match &self.failed {
            Some((error, well)) if ticket > *well => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// The error that ended the communicator, once the watch knows of one; frees what was under way.
    pub(crate) fn ended_with(&mut self) -> Error {
        match self.check_failed() {
            Err(error) => error,
            Ok(()) => self.watch.failure(),
        }
    }

    /// Batches submitted so far: the ticket of the last one.
    pub(crate) fn submitted(&self) -> u64 {
        self.submitted
    }

    /// Closes the network side in good order.
    pub(crate) fn close(&mut self, limit: Duration) {
        if let Some(links) = &mut self.links {
            links.close(limit);
        }
        self.island = None;
    }

    fn check_failed(&mut self) -> Result<()> {
        if let Some((error, _)) = &self.failed {
            return Err(error.clone());
        }
        if self.watch.has_failed() {
            let error = self.watch.failure();
            return Err(self.fail(error));
        }
        Ok(())
    }

    pub(crate) fn check_limits(&mut self) -> Result<()> {
        self.check_failed()?;
        let Some(running) = &mut self.running else {
            return Ok(());
        };
        let waited = running.started.elapsed();
        if waited > self.limit {
            let error = self.watch.timed_out(running.label, self.limit);
            return Err(self.fail(error));
        }
        if waited > TELL_AFTER && !running.told {
            running.told = true;
            self.watch.waits();
        }
        Ok(())
    }

    fn start_next(&mut self) -> Result<()> {
        if self.running.is_some() {
            return Ok(());
        }
        let Some(batch) = self.queue.pop_front() else {
            return Ok(());
        };
        let total: u64 = batch
            .calls
            .iter()
            .map(|c| c.prepared.schedule.scratch_bytes)
            .sum();
        let mut scratch = self.scratch.reserve(total);
        self.instances.clear();
        for call in batch.calls {
            let bytes = call.prepared.schedule.scratch_bytes as usize;
            let instance = match self.spare.pop() {
                Some(mut spare) => {
                    spare.reset(call, scratch);
                    spare
                }
                None => Instance::new(call, scratch),
            };
            scratch = scratch.wrapping_add(bytes);
            self.instances.push(instance);
        }
        // Calls without any step have ended before they start.
        let left = self.instances.iter().filter(|i| !i.is_done()).count();
        self.running = Some(Running {
            label: batch.label,
            started: Instant::now(),
            left,
            told: false,
        });
        self.watch.entered(batch.label);
        for i in 0..self.instances.len() {
            self.start_lanes(i)?;
        }
        self.flush()?;
        self.end_if_done(0)
    }

    fn advance(&mut self) -> Result<bool> {
        if self.running.is_none() {
            self.start_next()?;
            return Ok(self.running.is_some());
        }
        let mut moved = false;
        if let Some(links) = &mut self.links {
            let mut arrivals = std::mem::take(&mut self.arrivals);
            let polled = links.poll(&mut arrivals);
            for arrival in arrivals.drain(..) {
                self.arrived(&arrival)?;
                moved = true;
            }
            self.arrivals = arrivals;
            moved |= polled?;
        }
        if let Some(island) = &mut self.island {
            let mut done = std::mem::take(&mut self.vendor_done);
            island.poll(&mut done);
            for (token, status) in done.drain(..) {
                self.vendor_ended(token, status)?;
                moved = true;
            }
            self.vendor_done = done;
        }
        moved |= self.run_local()?;
        moved |= self.flush()?;
        Ok(moved)
    }

    /// Runs one ready local step of each call, so that messages move between two of them.
    fn run_local(&mut self) -> Result<bool> {
        let mut moved = false;
        let mut i = 0;
        // The last step of a batch brings in the next one, with another number of calls.
        while i < self.instances.len() {
            if let Some(step) = self.instances[i].state.local.pop_front() {
                let prepared = &self.instances[i].prepared;
                local::run(&self.instances[i], &prepared.schedule.actions[step as usize])?;
                self.step_done(i, step)?;
                moved = true;
            }
            i += 1;
        }
        Ok(moved)
    }

    fn flush(&mut self) -> Result<bool> {
        match &mut self.links {
            Some(links) => links.flush(),
            None => Ok(false),
        }
    }

    pub(super) fn step_done(&mut self, instance: usize, step: u32) -> Result<()> {
        self.instances[instance].finish(step);
        self.start_lanes(instance)?;
        if self.instances[instance].is_done() {
            self.end_if_done(1)?;
        }
        Ok(())
    }

    fn end_if_done(&mut self, finished: usize) -> Result<()> {
        let Some(running) = &mut self.running else {
            return Ok(());
        };
        running.left -= finished;
        if running.left > 0 {
            return Ok(());
        }
        self.watch.left(running.label);
        self.running = None;
        self.spare.append(&mut self.instances);
        self.ended.fetch_add(1, Ordering::AcqRel);
        self.start_next()
    }

    /// Starts every step of a lane that may start.
    fn start_lanes(&mut self, index: usize) -> Result<()> {
        while let Some(lane) = self.instances[index].state.moved.pop() {
            while let Some(step) = self.instances[index].next_of_lane(lane) {
                self.start(index, lane, step)?;
            }
        }
        Ok(())
    }

    fn start(&mut self, index: usize, lane: u32, step: u32) -> Result<()> {
        let instance = &self.instances[index];
        let token = ((index as u64) << 32) | u64::from(step);
        let kind = instance.prepared.lanes[lane as usize].kind;
        match (kind, &instance.prepared.schedule.actions[step as usize]) {
            (LaneKind::Send(peer), Action::Send { src, bytes, .. }) => {
                let addr = instance.source(*src).cast_mut();
                self.message(peer, true, addr, *bytes, instance.check, token)
            }
            (LaneKind::Recv(peer), Action::Recv { dst, bytes, .. }) => {
                let addr = instance.target(*dst);
                self.message(peer, false, addr, *bytes, instance.check, token)
            }
            (LaneKind::Vendor, Action::Vendor { first, len }) => {
                let calls = instance.prepared.schedule.calls_of(*first, *len);
                let island = self.island.as_mut().ok_or_else(no_island)?;
                island.start(instance, calls, u64::from(instance.check), token)
            }
            _ => unreachable!("a lane holds steps of its kind only"),
        }
    }

    fn message(
        &mut self,
        peer: u32,
        sends: bool,
        addr: *mut u8,
        bytes: u64,
        check: u32,
        token: u64,
    ) -> Result<()> {
        if let Some(island) = self.island.as_mut().filter(|island| island.carries(peer)) {
            let half = if sends { Collective::SEND } else { Collective::RECV };
            return island.message(half, peer, addr, bytes, u64::from(check), token);
        }
        let op = if sends { WorkOp::SEND } else { WorkOp::RECV };
        self.links
            .as_mut()
            .ok_or_else(no_links)?
            .queue(op, peer, addr, bytes, check, token)
    }
}

fn wait_readable(fd: Option<i32>, limit: Duration) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let Some(fd) = fd else {
        std::thread::sleep(limit);
        return;
    };
    // SAFETY: the descriptor belongs to the worker, which the engine keeps open during the call.
    let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) };
    let limit = Timespec {
        tv_sec: limit.as_secs() as i64,
        tv_nsec: i64::from(limit.subsec_nanos()),
    };
    // An interrupted or refused wait is a short one: the caller polls and comes back.
    let _ = poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&limit));
}
