//! The shared part of a communicator: what it is made of, how threads take turns, and how calls are waited for.

use super::arguments;
use super::raw::RawCall;
use crate::bootstrap::ControlPlane;
use crate::call::Request;
use crate::config::Check;
use crate::error::{Error, ErrorKind, Result};
use crate::exec::{Driven, Engine, Prepared, Watch, serve};
use crate::plan::World;
use crate::schedule::InPlace;
use infiniccl_reduce::{DataType, Factors, Input, ReduceOp, reduce};
use std::any::Any;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The shared part, which works under way keep alive.
pub(super) struct Inner {
    pub(super) rank: u32,
    pub(super) size: u32,
    pub(super) context: super::Context,
    pub(super) world: World,
    pub(super) control: Arc<ControlPlane>,
    pub(super) watch: Arc<Watch>,
    pub(super) check: Check,
    pub(super) aborters: Vec<Box<dyn Fn() + Send + Sync>>,
    ended: Arc<AtomicU64>,
    core: Mutex<Core>,
}

/// What one thread at a time works with.
pub(super) struct Core {
    pub(super) engine: Engine,
    pub(super) plans: HashMap<PlanKey, Arc<Prepared>>,
    /// Buffers of works whose handle was dropped, until the call has ended.
    kept: Vec<(u64, Box<dyn Any + Send>)>,
}

/// What a plan is kept under.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum PlanKey {
    Collective(Request, Option<InPlace>),
    Message { sends: bool, peer: u32, bytes: u64 },
}

/// Everything that a new communicator is made of.
pub(super) struct Parts {
    pub(super) context: super::Context,
    pub(super) world: World,
    pub(super) control: Arc<ControlPlane>,
    pub(super) watch: Arc<Watch>,
    pub(super) engine: Engine,
    pub(super) aborters: Vec<Box<dyn Fn() + Send + Sync>>,
}

/// The output of a call that moves bools as they are. A rank that is no Rust program may send any byte, and a `bool`
/// that is neither 0 nor 1 must not exist here.
pub(super) struct BoolOutput {
    at: *mut u8,
    bytes: u64,
}

// SAFETY: the memory belongs to the call, and whoever waits for the call is the only one to touch it then.
unsafe impl Send for BoolOutput {}

impl BoolOutput {
    /// Turns every byte that is not zero into one. The call has ended, and its buffers are still there.
    pub(super) fn normalise(&self) -> Result<()> {
        let input = [Input {
            ptr: self.at,
            pre: false,
        }];
        let count = usize::try_from(self.bytes).unwrap_or(usize::MAX);
        // SAFETY: the call wrote these bytes, and its buffers live until the caller of this has returned.
        let outcome = unsafe {
            reduce(
                DataType::Bool,
                ReduceOp::Max,
                self.at,
                &input,
                count,
                Factors::NONE,
            )
        };
        outcome.map_err(|e| Error::new(ErrorKind::Internal, "bools cannot be normalised").with_source(e))
    }
}

impl Inner {
    /// What has to be looked at when `call` has ended.
    pub(super) fn bool_output(&self, call: &RawCall) -> Option<BoolOutput> {
        let moves = call.dtype == DataType::Bool && !call.collective.reduces();
        let checked = moves && arguments::check(call, self.rank, self.size).is_ok();
        let bytes = if checked {
            arguments::written(call, self.rank, self.size)
        } else {
            0
        };
        (bytes > 0).then_some(BoolOutput { at: call.recv, bytes })
    }

    pub(super) fn new(parts: Parts) -> Self {
        let check = parts.context.config().check;
        Inner {
            rank: parts.control.rank(),
            size: parts.control.size(),
            context: parts.context,
            world: parts.world,
            control: parts.control,
            watch: parts.watch,
            check,
            aborters: parts.aborters,
            ended: parts.engine.ended(),
            core: Mutex::new(Core {
                engine: parts.engine,
                plans: HashMap::new(),
                kept: Vec::new(),
            }),
        }
    }

    pub(super) fn has_ended(&self, ticket: u64) -> bool {
        self.ended.load(Ordering::Acquire) >= ticket
    }

    pub(super) fn wait(&self, ticket: u64) -> Result<()> {
        let mut core = self.lock();
        let outcome = core.engine.wait(ticket);
        core.kept.retain(|(t, _)| *t > ticket);
        outcome
    }

    /// Waits for several communicators at once, so that one thread can drive them all.
    pub(super) fn wait_all(tickets: &[(Arc<Inner>, u64)]) -> Result<()> {
        if let [(inner, ticket)] = tickets {
            return inner.wait(*ticket);
        }
        let mut first = Ok(());
        let mut open: Vec<&(Arc<Inner>, u64)> = tickets.iter().collect();
        let mut idle = 0u32;
        while !open.is_empty() {
            let mut moved = false;
            open.retain(|(inner, ticket)| {
                let mut core = inner.lock();
                match core.engine.progress() {
                    Ok(any) => moved |= any,
                    Err(error) => {
                        if first.is_ok() {
                            first = Err(error);
                        }
                        return false;
                    }
                }
                if !core.engine.has_ended(*ticket) {
                    return true;
                }
                if let (Err(error), true) = (core.engine.outcome(*ticket), first.is_ok()) {
                    first = Err(error);
                }
                false
            });
            idle = if moved { 0 } else { idle + 1 };
            match idle {
                0..200 => std::hint::spin_loop(),
                200..1000 => rustix::thread::sched_yield(),
                _ => {
                    // Limits are looked at while nothing moves; the wait of each is short, for the sake of the others.
                    for (inner, _) in &open {
                        let _ = inner.lock().engine.check_limits();
                    }
                    std::thread::sleep(Duration::from_micros(100));
                }
            }
        }
        first
    }

    pub(super) fn keep_until(&self, ticket: u64, buffers: Box<dyn Any + Send>) {
        let mut core = self.lock();
        if !core.engine.has_ended(ticket) {
            core.kept.push((ticket, buffers));
        }
    }

    pub(super) fn with_engine<T>(&self, look: impl FnOnce(&Engine) -> T) -> T {
        look(&self.lock().engine)
    }

    pub(super) fn serve(self: &Arc<Self>) {
        let driven: Arc<dyn Driven> = self.clone();
        serve(&driven);
    }

    /// Waits until nothing is under way.
    pub(super) fn drain(&self) -> Result<()> {
        let mut core = self.lock();
        let ticket = core.engine.submitted();
        core.engine.wait(ticket)?;
        core.kept.clear();
        Ok(())
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Driven for Inner {
    fn drive(&self) -> Option<bool> {
        // Whoever holds the lock drives.
        let Ok(mut core) = self.core.try_lock() else {
            return Some(false);
        };
        if core.engine.is_idle() {
            core.kept.clear();
            return None;
        }
        // Errors stay with the engine, which gives them to whoever waits.
        let moved = core.engine.progress().and_then(|moved| match moved {
            true => Ok(true),
            false => core.engine.check_limits().map(|()| false),
        });
        Some(moved.unwrap_or(true))
    }
}
