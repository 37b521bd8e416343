//! One run of a schedule: which steps are ready, under way, done.

use super::prepared::{LOCAL, Prepared};
use crate::schedule::{Base, Loc};
use std::collections::VecDeque;
use std::sync::Arc;

/// A call given to the executor.
///
/// The pointers must stay valid until the call has ended; who submits it vouches for that.
pub(crate) struct Submission {
    pub(crate) prepared: Arc<Prepared>,
    pub(crate) send: *const u8,
    pub(crate) recv: *mut u8,
    /// Equal on all ranks that mean the same call; travels with every message.
    pub(crate) check: u32,
}

// SAFETY: the pointers are addresses of memory that the submitter keeps valid for the executor, which is the
// only one to use them until the call has ended.
unsafe impl Send for Submission {}

/// A call under way. Instances are reused, so that a repeated call allocates nothing.
pub(super) struct Instance {
    pub(super) prepared: Arc<Prepared>,
    send: *const u8,
    recv: *mut u8,
    scratch: *mut u8,
    pub(super) check: u32,
    pub(super) state: State,
}

// SAFETY: see `Submission`; scratch memory belongs to the engine that owns the instance.
unsafe impl Send for Instance {}

/// Which steps are ready, under way, done.
#[derive(Default)]
pub(super) struct State {
    /// Waits left of each step.
    waits: Vec<u32>,
    /// For each step of a lane, whether its waits are over.
    ready: Vec<bool>,
    /// For each lane, how many of its steps have started.
    cursors: Vec<usize>,
    /// Local steps that may run now.
    pub(super) local: VecDeque<u32>,
    /// Lanes whose next step has become ready.
    pub(super) moved: Vec<u32>,
    left: usize,
}

impl State {
    fn reset(&mut self, prepared: &Prepared) {
        let schedule = &prepared.schedule;
        self.waits.clone_from(&schedule.wait_counts);
        self.ready.clear();
        self.ready.resize(schedule.actions.len(), false);
        self.cursors.clear();
        self.cursors.resize(prepared.lanes.len(), 0);
        self.local.clear();
        self.moved.clear();
        self.left = schedule.actions.len();
        for step in &prepared.first {
            self.make_ready(prepared, *step);
        }
    }

    fn finish(&mut self, prepared: &Prepared, step: u32) {
        self.left -= 1;
        for next in prepared.schedule.dependents_of(step as usize) {
            let waits = &mut self.waits[*next as usize];
            *waits -= 1;
            if *waits == 0 {
                self.make_ready(prepared, *next);
            }
        }
    }

    fn make_ready(&mut self, prepared: &Prepared, step: u32) {
        match prepared.lane_of[step as usize] {
            LOCAL => self.local.push_back(step),
            lane => {
                self.ready[step as usize] = true;
                let next = prepared.lanes[lane as usize].steps[self.cursors[lane as usize]];
                if next == step {
                    self.moved.push(lane);
                }
            }
        }
    }
}

impl Instance {
    pub(super) fn new(call: Submission, scratch: *mut u8) -> Self {
        let mut instance = Instance {
            prepared: call.prepared.clone(),
            send: std::ptr::null(),
            recv: std::ptr::null_mut(),
            scratch: std::ptr::null_mut(),
            check: 0,
            state: State::default(),
        };
        instance.reset(call, scratch);
        instance
    }

    /// Starts over with another call.
    pub(super) fn reset(&mut self, call: Submission, scratch: *mut u8) {
        self.send = call.send;
        self.recv = call.recv;
        self.scratch = scratch;
        self.check = call.check;
        self.prepared = call.prepared;
        self.state.reset(&self.prepared);
    }

    /// Whether all steps are done.
    pub(super) fn is_done(&self) -> bool {
        self.state.left == 0
    }

    /// Notes that a step is done, and what may start because of it.
    pub(super) fn finish(&mut self, step: u32) {
        self.state.finish(&self.prepared, step);
    }

    /// Takes the next step of a lane if it may start.
    pub(super) fn next_of_lane(&mut self, lane: u32) -> Option<u32> {
        let cursor = &mut self.state.cursors[lane as usize];
        let step = *self.prepared.lanes[lane as usize].steps.get(*cursor)?;
        if !self.state.ready[step as usize] {
            return None;
        }
        *cursor += 1;
        Some(step)
    }

    /// The address of a place that is only read.
    pub(super) fn source(&self, at: Loc) -> *const u8 {
        let base = match at.base {
            Base::Send => self.send,
            Base::Recv => self.recv.cast_const(),
            Base::Scratch => self.scratch.cast_const(),
        };
        base.wrapping_add(at.offset as usize)
    }

    /// The address of a place that is written.
    pub(super) fn target(&self, at: Loc) -> *mut u8 {
        let base = match at.base {
            Base::Send => self.send.cast_mut(),
            Base::Recv => self.recv,
            Base::Scratch => self.scratch,
        };
        base.wrapping_add(at.offset as usize)
    }
}
