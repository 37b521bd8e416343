//! The collective library: a communicator is a segment of shared memory and lanes of operations that use it.
//!
//! | file | job |
//! |---|---|
//! | `layout`, `segment` | where everything lies in the segment; a rank's typed view of it |
//! | `shared`, `handoff`, `join` | making the memory, handing it over, and proving that all ranks see it |
//! | `bell`, `wait` | how threads sleep and are woken; how long they stay awake |
//! | `call`, `combine` | a collective's arguments, checked; its reduction |
//! | `cut`, `moves`, `pipeline` | how a call is cut into chunks; what a chunk moves where; when |
//! | `write` | copies into shared memory, near and far |
//! | `verdict` | who is wrong when ranks disagree |
//! | `ring`, `message` | messages between two ranks |
//! | `lane`, `comm` | operations in order; a communicator |

mod bell;
mod call;
mod combine;
mod comm;
mod cut;
mod handoff;
mod join;
mod lane;
mod layout;
mod message;
mod moves;
mod pipeline;
mod ring;
mod segment;
mod shared;
mod verdict;
mod wait;
mod write;

pub(crate) use comm::{Comm, Ticket};
pub(crate) use layout::MAX_RANKS;
pub(crate) use wait::{Patience, Poll, SLICE, Waiter};

use crate::device::{self, Device};
use crate::error::usage;
use crate::stream::Work;
use infiniccl_plugin_api::{
    Buffer, CapRow, CollDesc, CommHandle, DeviceHandle, Failure, Property, Status, StreamHandle, guarded,
    slice, store,
};
use join::Joiner;
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

/// What a handle points to: the communicator, and the device whose streams it is given work on.
struct Opened {
    comm: Arc<Comm>,
    device: DeviceHandle,
}

fn get<'a>(handle: CommHandle) -> Result<&'a Opened, Failure> {
    let opened: *const Opened = ptr::with_exposed_provenance(usize::try_from(handle).unwrap_or(0));
    // SAFETY: the core passes handles of `comm_init` that are not destroyed, or zero.
    unsafe { opened.as_ref() }.ok_or_else(|| usage("no communicator: the handle is zero"))
}

fn init(device: &Device, id: &[u8], rank: u32, size: u32, timeout_ns: u64) -> Result<Comm, Failure> {
    let wide = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
    let joiner = Joiner {
        id,
        rank: wide(rank),
        size: wide(size),
        timeout: Duration::from_nanos(timeout_ns),
        slot: device.options().slot_bytes,
        host: device.host(),
        reserve: shared::reserve,
    };
    Ok(Comm::new(joiner.join()?))
}

/// # Safety
/// As for [`Comm::run`] or [`Comm::issue`].
unsafe fn give(opened: &Opened, descs: &[CollDesc], stream: StreamHandle) -> Result<(), Failure> {
    let comm = &opened.comm;
    if descs.is_empty() {
        return Ok(());
    }
    if stream == 0 {
        // SAFETY: the caller's promise.
        return unsafe { comm.run(descs) };
    }
    let stream = device::get(opened.device)?.stream(stream)?;
    let Some(stream) = stream else { return Ok(()) };
    // SAFETY: the caller's promise.
    let tickets = unsafe { comm.issue(descs, false) }?;
    stream.push(Work::collectives(Arc::clone(comm), tickets))
}

guarded! {
    pub(crate) extern "C" fn comm_unique_id(_device: DeviceHandle, id: Buffer) -> Status {
        match join::new_id() {
            // SAFETY: the core lends a buffer for this call.
            Ok(bytes) => unsafe { id.write(&bytes) },
            Err(failure) => failure.into(),
        }
    }

    pub(crate) extern "C" fn comm_init(
        device: DeviceHandle,
        id: *const u8,
        id_len: u64,
        rank: u32,
        size: u32,
        timeout_ns: u64,
        _properties: *const Property,
        _property_count: u64,
        comm: *mut CommHandle,
    ) -> Status {
        // SAFETY: the core lends the id for this call.
        let id = unsafe { slice(id, id_len) }.unwrap_or(&[]);
        let opened = device::get(device).and_then(|device| init(device, id, rank, size, timeout_ns));
        match opened {
            Ok(opened) => {
                let opened = Opened { comm: Arc::new(opened), device };
                let handle = Box::into_raw(Box::new(opened)).expose_provenance() as CommHandle;
                // SAFETY: the core gives a place for the result.
                unsafe { store(comm, handle) }
            }
            Err(failure) => failure.into(),
        }
    }

    pub(crate) extern "C" fn comm_caps(
        _comm: CommHandle,
        rows: *mut CapRow,
        capacity: u64,
        count: *mut u64,
    ) -> Status {
        let all = crate::caps::rows();
        for (index, row) in all.iter().enumerate().take_while(|(index, _)| (*index as u64) < capacity) {
            if !rows.is_null() {
                // SAFETY: the core lends room for `capacity` rows.
                unsafe { rows.add(index).write(*row) };
            }
        }
        // SAFETY: the core gives a place for the result.
        unsafe { store(count, all.len() as u64) }
    }

    pub(crate) extern "C" fn enqueue(
        comm: CommHandle,
        collectives: *const CollDesc,
        count: u64,
        stream: StreamHandle,
    ) -> Status {
        let run = || {
            // SAFETY: the core lends the descriptors for this call, and what they point to until the work has ended.
            unsafe {
                let descs = slice(collectives, count).map_err(|_| usage("no collectives: null pointer"))?;
                give(get(comm)?, descs, stream)
            }
        };
        run().into()
    }

    pub(crate) extern "C" fn comm_async_error(comm: CommHandle) -> Status {
        match get(comm) {
            Ok(opened) => opened.comm.segment().stopped().into(),
            Err(failure) => failure.into(),
        }
    }

    pub(crate) extern "C" fn comm_abort(comm: CommHandle) -> Status {
        match get(comm) {
            Ok(opened) => {
                opened.comm.abort();
                Status::OK
            }
            Err(failure) => failure.into(),
        }
    }

    pub(crate) extern "C" fn comm_destroy(comm: CommHandle) -> Status {
        match get(comm) {
            Ok(opened) => opened.comm.leave(),
            Err(failure) => return failure.into(),
        }
        let opened: *mut Opened = ptr::with_exposed_provenance_mut(usize::try_from(comm).unwrap_or(0));
        // SAFETY: a handle of `comm_init`, which the core passes here once.
        drop(unsafe { Box::from_raw(opened) });
        Status::OK
    }
}
