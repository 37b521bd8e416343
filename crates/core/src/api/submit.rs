//! From a call to the executor: arguments are checked, the call is noted, planned, and submitted.

use super::arguments;
use super::inner::{Core, Inner, PlanKey};
use super::raw::RawCall;
use crate::call::{Collective, RedOp, Request};
use crate::config::Check;
use crate::error::{Error, ErrorKind, Result};
use crate::exec::{Batch, CallEntry, Label, Prepared, Submission};
use crate::plan::{self, Plan, Vector};
use crate::schedule::{Base, Builder, InPlace, Loc};
use infiniccl_reduce::{DataType, ReduceOp};
use std::collections::HashMap;
use std::sync::Arc;

/// Plans that are kept; beyond that all are forgotten, which costs a new plan each.
const CACHED_PLANS: usize = 1024;

impl Inner {
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
        if !collective.is_message() && !self.watch.has_failed() {
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

    pub(super) fn submit(&self, core: &mut Core, call: RawCall) -> Result<u64> {
        if call.collective.is_message() {
            return self.submit_messages(core, vec![call]);
        }
        // A call after the end is no call of this communicator: the ranks must not compare it.
        if self.watch.has_failed() {
            return Err(core.engine.ended_with());
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
    pub(super) fn submit_messages(&self, core: &mut Core, calls: Vec<RawCall>) -> Result<u64> {
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
