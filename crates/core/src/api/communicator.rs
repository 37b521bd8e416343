//! A communicator: the ranks that do collectives together, as one of them sees it.

use super::arguments;
use super::raw::RawCall;
use super::work::Work;
use crate::bootstrap::ControlPlane;
use crate::call::{Collective, RedOp, Request};
use crate::config::Check;
use crate::error::{Error, ErrorKind, Result};
use crate::exec::{Batch, CallEntry, Driven, Engine, Label, Prepared, Submission, Watch, serve};
use crate::plan::{self, Plan, Vector, World};
use crate::schedule::{Base, Builder, InPlace, Loc};
use infiniccl_reduce::{DataType, ReduceOp};
use std::any::Any;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Plans that are kept; beyond that all are forgotten, which costs a new plan each.
const CACHED_PLANS: usize = 1024;

/// The ranks that do collectives together, as one of them sees it.
///
/// It may be used from several threads; their calls are served one after the other. Dropping it says goodbye to
/// the other ranks and frees everything; [`Communicator::finalize`] also waits for them.
pub struct Communicator {
    inner: Arc<Inner>,
}

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
struct Core {
    engine: Engine,
    plans: HashMap<PlanKey, Arc<Prepared>>,
    /// Buffers of works whose handle was dropped, until the call has ended.
    kept: Vec<(u64, Box<dyn Any + Send>)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum PlanKey {
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

impl Communicator {
    pub(super) fn assemble(parts: Parts) -> Self {
        let check = parts.context.config().check;
        let inner = Inner {
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
        };
        Communicator {
            inner: Arc::new(inner),
        }
    }

    /// This rank, from 0.
    pub fn rank(&self) -> u32 {
        self.inner.rank
    }

    /// The number of ranks.
    pub fn size(&self) -> u32 {
        self.inner.size
    }

    /// Configuration and plugins that it was made with.
    pub fn context(&self) -> &super::Context {
        &self.inner.context
    }

    /// Ends the communicator on all ranks, from any thread, without waiting for anybody: calls under way, here and
    /// elsewhere, fail with [`ErrorKind::Aborted`].
    pub fn abort(&self) {
        self.inner.watch.abort();
        self.inner.aborters.iter().for_each(|stop| stop());
    }

    /// The error that ended the communicator, if one did; never blocks.
    pub fn async_error(&self) -> Option<Error> {
        self.inner.watch.has_failed().then(|| self.inner.watch.failure())
    }

    /// Waits until the work under way has ended and all ranks have come so far, then frees everything.
    pub fn finalize(self) -> Result<()> {
        self.inner.drain()?;
        let limit = self.inner.context.config().timeouts.connect;
        let deadline = Instant::now() + limit;
        self.inner.control.barrier("finalize", deadline)?;
        self.inner.control.close(deadline);
        Ok(())
    }

    pub(super) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    /// Runs a call to its end.
    pub(super) fn run(&self, call: RawCall) -> Result<()> {
        let mut core = self.inner.lock();
        let ticket = self.inner.submit(&mut core, call)?;
        core.engine.wait(ticket)
    }

    /// As [`Self::run`]; a call that cannot be built counts as this rank's call all the same.
    pub(super) fn run_built(
        &self,
        collective: Collective,
        build: impl FnOnce() -> Result<RawCall>,
    ) -> Result<()> {
        match build() {
            Ok(call) => self.run(call),
            Err(error) => Err(self.inner.refuse(collective, error)),
        }
    }

    pub(super) fn start<B: Send + 'static>(&self, call: RawCall, owner: B) -> Result<Work<B>> {
        let ticket = self.inner.submit(&mut self.inner.lock(), call)?;
        self.inner.serve();
        Ok(Work::new(self.inner.clone(), ticket, owner))
    }

    /// Runs any call to its end.
    ///
    /// # Safety
    /// The pointers of `call` must be valid for what the call reads and writes.
    pub unsafe fn run_raw(&self, call: RawCall) -> Result<()> {
        self.run(call)
    }
}

impl std::fmt::Debug for Communicator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Communicator")
            .field("rank", &self.rank())
            .field("size", &self.size())
            .finish_non_exhaustive()
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        // Works that nobody waited for still use their buffers: they end first, unless the communicator failed.
        let _ = self.inner.drain();
        self.inner.lock().engine.close(CLOSE);
    }
}

/// How long a dropped communicator waits for its last messages to leave.
const CLOSE: Duration = Duration::from_secs(2);

impl Inner {
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

    /// Gives a group's calls to the engine: messages first, at once, then the collectives in order.
    pub(super) fn submit_group(self: &Arc<Self>, calls: Vec<RawCall>) -> Result<u64> {
        let mut core = self.lock();
        let (messages, collectives): (Vec<RawCall>, Vec<RawCall>) =
            calls.into_iter().partition(|call| call.collective.is_message());
        let mut ticket = 0;
        if !messages.is_empty() {
            ticket = self.submit_messages(&mut core, messages)?;
        }
        for call in collectives {
            ticket = self.submit(&mut core, call)?;
        }
        Ok(ticket)
    }

    pub(super) fn refuse(&self, collective: Collective, error: Error) -> Error {
        let argument = error.get("argument").unwrap_or("count").to_string();
        let refused = Some(format!("{argument}: {}", error.message()));
        if !collective.is_message() {
            let entry = CallEntry {
                collective,
                dtype: DataType::Uint8,
                op: RedOp::Fixed(ReduceOp::Sum),
                count: 0,
                root: 0,
                digest: 0,
                refused,
            };
            self.watch.note(entry);
        }
        error.with("collective", collective)
    }

    pub(super) fn with_engine<T>(&self, look: impl FnOnce(&Engine) -> T) -> T {
        look(&self.lock().engine)
    }

    fn serve(self: &Arc<Self>) {
        let driven: Arc<dyn Driven> = self.clone();
        serve(&driven);
    }

    /// Waits until nothing is under way.
    fn drain(&self) -> Result<()> {
        let mut core = self.lock();
        let ticket = core.engine.submitted();
        core.engine.wait(ticket)?;
        core.kept.clear();
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn submit(&self, core: &mut Core, call: RawCall) -> Result<u64> {
        if call.collective.is_message() {
            return self.submit_messages(core, vec![call]);
        }
        let in_place = match arguments::check(&call, self.rank, self.size) {
            Ok(in_place) => in_place,
            Err(bad) => {
                let text = format!("{} {}", bad.argument, bad.reason);
                let error = Error::new(ErrorKind::InvalidArgument, text).with("argument", bad.argument);
                return Err(self.refuse(call.collective, error).with("rank", self.rank));
            }
        };
        let request = Request {
            collective: call.collective,
            dtype: call.dtype,
            op: call.op,
            count: call.count,
            root: call.root,
        };
        let vector = call.vector.as_ref().map(|v| Vector {
            send_counts: v.send_counts.clone(),
            send_displs: v.send_displs.clone(),
            recv_counts: v.recv_counts.clone(),
            recv_displs: v.recv_displs.clone(),
        });
        let digest = self.digest(&request, vector.as_ref());
        let prepared = match self.prepare(core, &request, vector.as_ref(), in_place) {
            Ok(prepared) => prepared,
            Err(why) => {
                let text = format!(
                    "{} {} {} is refused: {why}",
                    call.collective,
                    call.dtype,
                    call.op.name()
                );
                return Err(self.refuse(call.collective, Error::new(ErrorKind::NotSupported, text)));
            }
        };
        let seq = self.watch.note(CallEntry {
            collective: request.collective,
            dtype: request.dtype,
            op: request.op,
            count: request.count,
            root: request.root,
            digest,
            refused: None,
        });
        let check = if self.check == Check::On {
            mix(digest, seq)
        } else {
            0
        };
        let submission = Submission {
            prepared,
            send: call.send,
            recv: call.recv,
            check,
        };
        core.engine.submit(Batch {
            calls: vec![submission],
            label: Label::Collective(seq),
        })
    }

    fn prepare(
        &self,
        core: &mut Core,
        request: &Request,
        vector: Option<&Vector>,
        in_place: Option<InPlace>,
    ) -> std::result::Result<Arc<Prepared>, String> {
        if vector.is_some() {
            return Ok(Arc::new(Prepared::new(
                self.plan(request, vector, in_place)?.schedule,
            )));
        }
        let key = PlanKey::Collective(*request, in_place);
        if let Some(prepared) = core.plans.get(&key) {
            return Ok(prepared.clone());
        }
        let plan = self.plan(request, None, in_place)?;
        tracing::debug!(
            collective = %request.collective,
            bytes = request.bytes(),
            algorithm = %plan.choice.algorithm,
            by = plan.choice.decided_by,
            steps = plan.schedule.actions.len(),
            "planned"
        );
        let prepared = Arc::new(Prepared::new(plan.schedule));
        remember(&mut core.plans, key, &prepared);
        Ok(prepared)
    }

    pub(super) fn plan(
        &self,
        request: &Request,
        vector: Option<&Vector>,
        in_place: Option<InPlace>,
    ) -> std::result::Result<Plan, String> {
        plan::plan(&self.world, self.rank, request, vector, in_place)
    }

    /// Messages that run at once; those to this rank itself are matched here.
    fn submit_messages(&self, core: &mut Core, calls: Vec<RawCall>) -> Result<u64> {
        for call in &calls {
            if let Err(bad) = arguments::check(call, self.rank, self.size) {
                let text = format!("{} {}", bad.argument, bad.reason);
                let error = Error::new(ErrorKind::InvalidArgument, text).with("argument", bad.argument);
                return Err(error.with("collective", call.collective).with("rank", self.rank));
            }
        }
        let (to_self, others): (Vec<RawCall>, Vec<RawCall>) =
            calls.into_iter().partition(|call| call.peer == self.rank);
        let mut batch = Vec::with_capacity(others.len() + to_self.len() / 2);
        let label = others.iter().chain(&to_self).next().map(|call| Label::Messages {
            sends: call.collective == Collective::Send,
            peer: call.peer,
            bytes: call.count * call.dtype.size() as u64,
        });
        for call in others {
            let sends = call.collective == Collective::Send;
            let bytes = call.count * call.dtype.size() as u64;
            let key = PlanKey::Message {
                sends,
                peer: call.peer,
                bytes,
            };
            let prepared = match core.plans.get(&key) {
                Some(prepared) => prepared.clone(),
                None => {
                    let prepared = Arc::new(Prepared::new(message(sends, call.peer, bytes)));
                    remember(&mut core.plans, key, &prepared);
                    prepared
                }
            };
            let check = if self.check == Check::On {
                mix(call.dtype.code(), call.count)
            } else {
                0
            };
            batch.push(Submission {
                prepared,
                send: call.send,
                recv: call.recv,
                check,
            });
        }
        batch.extend(self.match_own(to_self)?);
        let label = label.unwrap_or(Label::Messages {
            sends: true,
            peer: self.rank,
            bytes: 0,
        });
        core.engine.submit(Batch { calls: batch, label })
    }

    fn match_own(&self, calls: Vec<RawCall>) -> Result<Vec<Submission>> {
        let (sends, recvs): (Vec<RawCall>, Vec<RawCall>) = calls
            .into_iter()
            .partition(|call| call.collective == Collective::Send);
        if sends.len() != recvs.len() {
            let text = format!(
                "{} sends and {} recvs of rank {} to itself: both halves belong into one group",
                sends.len(),
                recvs.len(),
                self.rank
            );
            return Err(Error::new(ErrorKind::InvalidUsage, text).with("rank", self.rank));
        }
        let pairs = sends.into_iter().zip(recvs);
        pairs
            .map(|(send, recv)| {
                let bytes = send.count * send.dtype.size() as u64;
                if bytes != recv.count * recv.dtype.size() as u64 || send.dtype != recv.dtype {
                    let text = format!(
                        "a send of {} {} to this rank itself meets a recv of {} {}",
                        send.count, send.dtype, recv.count, recv.dtype
                    );
                    return Err(Error::new(ErrorKind::InvalidArgument, text).with("argument", "count"));
                }
                let mut b = Builder::new(None, 1);
                b.copy(Loc::new(Base::Recv, 0), Loc::new(Base::Send, 0), bytes);
                let prepared = Arc::new(Prepared::new(b.finish()));
                Ok(Submission {
                    prepared,
                    send: send.send,
                    recv: recv.recv,
                    check: 0,
                })
            })
            .collect()
    }

    /// A word that is equal on ranks that mean the same call; what one rank alone knows stays out.
    fn digest(&self, request: &Request, vector: Option<&Vector>) -> u32 {
        let root = if request.collective.has_root() {
            request.root
        } else {
            0
        };
        let op = if request.collective.reduces() {
            request.op.abi().0
        } else {
            0
        };
        let mut digest = mix(
            request.collective.abi().0 << 16 | request.dtype.code() << 8 | op,
            request.count,
        );
        digest = mix(digest, u64::from(root));
        let shared: &[&Vec<u64>] = match (vector, request.collective) {
            (Some(v), Collective::AllGatherV) => &[&v.recv_counts, &v.recv_displs],
            (Some(v), Collective::ReduceScatterV) => &[&v.send_counts],
            _ => &[],
        };
        for list in shared {
            digest = list.iter().fold(digest, |d, x| mix(d, *x));
        }
        digest
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

fn message(sends: bool, peer: u32, bytes: u64) -> crate::schedule::Schedule {
    let mut b = Builder::new(None, 1);
    if sends {
        b.send(peer, Loc::new(Base::Send, 0), bytes);
    } else {
        b.recv(peer, Loc::new(Base::Recv, 0), bytes);
    }
    b.finish()
}

fn remember(plans: &mut HashMap<PlanKey, Arc<Prepared>>, key: PlanKey, prepared: &Arc<Prepared>) {
    if plans.len() >= CACHED_PLANS {
        plans.clear();
    }
    plans.insert(key, prepared.clone());
}

/// Mixes 64 bits into a word (the finaliser of MurmurHash3, over both halves).
fn mix(word: u32, value: u64) -> u32 {
    let mut x = value ^ (u64::from(word) << 32 | u64::from(word));
    x ^= x >> 33;
    x = x.wrapping_mul(0xff51_afd7_ed55_8ccd);
    x ^= x >> 33;
    x = x.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^= x >> 33;
    (x ^ (x >> 32)) as u32
}
