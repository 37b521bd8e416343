//! The vendor side of an engine: the communicator of the rank's island, and its polled streams.

use super::instance::Instance;
use crate::error::{Error, Result};
use crate::plugin::VendorPlugin;
use crate::schedule::VendorCall;
use infiniccl_plugin_api::{CollDesc, Collective, DType, RedOp, Status, stream_flags};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Descriptors of one group that are held on the stack.
const STACK_CALLS: usize = 16;

/// The island's communicator.
pub(crate) struct Island {
    plugin: VendorPlugin,
    device: u64,
    comm: u64,
    stop: Arc<Stop>,
    /// Island rank of each rank of the communicator.
    island_rank: HashMap<u32, u32>,
    /// Whether messages between ranks of the island go through the vendor's library.
    carries_messages: bool,
    collectives: Lane,
    sends: HashMap<u32, Lane>,
    recvs: HashMap<u32, Lane>,
    spare_events: Vec<u64>,
    in_flight: usize,
}

/// What any thread may stop the communicator by. The news of a failure may come while its owner destroys it, and the
/// handle of a destroyed communicator means nothing any more.
struct Stop {
    plugin: VendorPlugin,
    comm: u64,
    destroyed: Mutex<bool>,
}

impl Stop {
    fn abort(&self) {
        let destroyed = self.destroyed.lock().unwrap_or_else(PoisonError::into_inner);
        if !*destroyed {
            self.plugin.comm_abort(self.comm);
        }
    }

    /// Waits for those who abort it now, and keeps later ones away.
    fn destroy(&self) {
        *self.destroyed.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.plugin.comm_destroy(self.comm);
    }
}

/// A polled stream and the steps that wait for it, in order.
struct Lane {
    stream: u64,
    waiting: VecDeque<(u64, u64)>,
}

impl Island {
    /// Wraps an open communicator; `ranks` are those of the island, by island rank.
    pub(crate) fn new(
        plugin: VendorPlugin,
        device: u64,
        comm: u64,
        ranks: Vec<u32>,
        carries_messages: bool,
    ) -> Result<Self> {
        let collectives = Lane::new(&plugin, device)?;
        let island_rank = (0u32..).zip(&ranks).map(|(i, r)| (*r, i)).collect();
        let stop = Stop {
            plugin: plugin.clone(),
            comm,
            destroyed: Mutex::new(false),
        };
        Ok(Island {
            plugin,
            device,
            comm,
            stop: Arc::new(stop),
            island_rank,
            carries_messages,
            collectives,
            sends: HashMap::new(),
            recvs: HashMap::new(),
            spare_events: Vec::new(),
            in_flight: 0,
        })
    }

    /// Whether messages to `rank` go through the vendor's library.
    pub(crate) fn carries(&self, rank: u32) -> bool {
        self.carries_messages && self.island_rank.contains_key(&rank)
    }

    /// Gives a group of collectives to the vendor's library.
    pub(super) fn start(
        &mut self,
        instance: &Instance,
        calls: &[VendorCall],
        check: u64,
        token: u64,
    ) -> Result<()> {
        let schedule = &instance.prepared.schedule;
        let list = |numbers: &[u64]| {
            if numbers.is_empty() {
                std::ptr::null()
            } else {
                numbers.as_ptr()
            }
        };
        let describe = |call: &VendorCall| CollDesc {
            collective: call.collective,
            dtype: DType(call.dtype.code()),
            op: call.op,
            flags: 0,
            root: call.root,
            peer: 0,
            send: instance.source(call.send),
            recv: instance.target(call.recv),
            count: call.count,
            counts: list(&schedule.vector_counts),
            displs: list(&schedule.vector_displs),
            scale_bits: call.scale_bits,
            check,
            reserved: [0; 4],
        };
        let (plugin, comm, stream) = (&self.plugin, self.comm, self.collectives.stream);
        let status = if calls.len() <= STACK_CALLS {
            let mut descs = [EMPTY; STACK_CALLS];
            for (desc, call) in descs.iter_mut().zip(calls) {
                *desc = describe(call);
            }
            plugin.enqueue(comm, &descs[..calls.len()], stream)
        } else {
            let descs: Vec<CollDesc> = calls.iter().map(describe).collect();
            plugin.enqueue(comm, &descs, stream)
        };
        if status.is_error() {
            return Err(self.plugin.error(status, "enqueue"));
        }
        let event = self.event()?;
        self.plugin.event_record(self.device, event, stream)?;
        self.collectives.waiting.push_back((event, token));
        self.in_flight += 1;
        Ok(())
    }

    /// Gives one half of a message to the vendor's library.
    pub(super) fn message(
        &mut self,
        collective: Collective,
        peer: u32,
        addr: *mut u8,
        bytes: u64,
        check: u64,
        token: u64,
    ) -> Result<()> {
        let event = self.event()?;
        let sends = collective == Collective::SEND;
        let lanes = if sends { &mut self.sends } else { &mut self.recvs };
        let lane = match lanes.entry(peer) {
            std::collections::hash_map::Entry::Occupied(e) => e.into_mut(),
            std::collections::hash_map::Entry::Vacant(e) => e.insert(Lane::new(&self.plugin, self.device)?),
        };
        let desc = CollDesc {
            collective,
            dtype: DType::UINT8,
            peer: self.island_rank[&peer],
            send: addr,
            recv: addr,
            count: bytes,
            check,
            ..EMPTY
        };
        let status = self.plugin.enqueue(self.comm, &[desc], lane.stream);
        if status.is_error() {
            return Err(self.plugin.error(status, "enqueue"));
        }
        self.plugin.event_record(self.device, event, lane.stream)?;
        lane.waiting.push_back((event, token));
        self.in_flight += 1;
        Ok(())
    }

    /// Drives the vendor's library; reports each step that ended, by its token.
    pub(super) fn poll(&mut self, done: &mut Vec<(u64, Status)>) -> bool {
        if self.in_flight == 0 {
            return false;
        }
        let before = done.len();
        let (plugin, device) = (&self.plugin, self.device);
        let lanes = std::iter::once(&mut self.collectives)
            .chain(self.sends.values_mut())
            .chain(self.recvs.values_mut());
        for lane in lanes {
            while let Some((event, token)) = lane.waiting.front().copied() {
                let status = plugin.event_query(device, event);
                if status.is_pending() {
                    break;
                }
                lane.waiting.pop_front();
                self.spare_events.push(event);
                done.push((token, status));
            }
        }
        self.in_flight -= done.len() - before;
        done.len() > before
    }

    /// Whether steps are under way.
    pub(super) fn is_busy(&self) -> bool {
        self.in_flight > 0
    }

    /// Sleeps until a step may have moved, or `limit`.
    pub(super) fn sleep(&self, limit: Duration) {
        let lanes = std::iter::once(&self.collectives)
            .chain(self.sends.values())
            .chain(self.recvs.values());
        let mut heads = lanes.filter_map(|lane| lane.waiting.front());
        match (heads.next(), heads.next()) {
            (Some((event, _)), None) => {
                self.plugin.event_synchronize(self.device, *event, limit);
            }
            _ => std::thread::sleep(limit.min(Duration::from_micros(200))),
        }
    }

    /// The error behind a failed step.
    pub(super) fn error(&self, status: Status) -> Error {
        self.plugin.error(status, "event_query")
    }

    /// What stops this island's work from any thread.
    pub(crate) fn aborter(&self) -> impl Fn() + Send + Sync + 'static {
        let stop = Arc::clone(&self.stop);
        move || stop.abort()
    }

    /// Ends all work at once, and waits until the vendor's library has let go of the buffers.
    pub(super) fn abort(&mut self) {
        self.stop.abort();
        let mut done = Vec::new();
        for _ in 0..10_000 {
            self.poll(&mut done);
            if self.in_flight == 0 {
                break;
            }
            self.sleep(Duration::from_millis(1));
        }
    }

    /// Name of the plugin.
    pub(crate) fn plugin_name(&self) -> &str {
        self.plugin.name()
    }

    fn event(&mut self) -> Result<u64> {
        match self.spare_events.pop() {
            Some(event) => Ok(event),
            None => self.plugin.event_create(self.device),
        }
    }
}

impl Drop for Island {
    fn drop(&mut self) {
        if self.in_flight > 0 {
            self.abort();
        }
        self.stop.destroy();
        for event in self.spare_events.drain(..) {
            self.plugin.event_destroy(self.device, event);
        }
        let lanes = std::iter::once(&self.collectives)
            .chain(self.sends.values())
            .chain(self.recvs.values());
        for lane in lanes {
            self.plugin.stream_destroy(self.device, lane.stream);
        }
    }
}

impl Lane {
    fn new(plugin: &VendorPlugin, device: u64) -> Result<Self> {
        let stream = plugin.stream_create(device, stream_flags::POLLED)?;
        Ok(Lane {
            stream,
            waiting: VecDeque::new(),
        })
    }
}

const EMPTY: CollDesc = CollDesc {
    collective: Collective::BARRIER,
    dtype: DType::UINT8,
    op: RedOp::SUM,
    flags: 0,
    root: 0,
    peer: 0,
    send: std::ptr::null(),
    recv: std::ptr::null_mut(),
    count: 0,
    counts: std::ptr::null(),
    displs: std::ptr::null(),
    scale_bits: 0,
    check: 0,
    reserved: [0; 4],
};
