//! The functions of the table: they check pointers, find the worker and call it.

use crate::channel::Ends;
use crate::error::{Result, usage};
use crate::host::Host;
use crate::options::Options;
use crate::worker::Worker;
use crate::{device, memory, registry};
use infiniccl_plugin_api::{
    Buffer, ChannelHandle, ChannelParams, ChannelState, Completion, Failure, HostServices, NetTable,
    Property, PropertySink, Status, WorkRequest, WorkerHandle, guarded, last_error, properties, slice, store,
};
use rustix::fd::AsRawFd;
use std::time::Duration;

pub(crate) const TABLE: NetTable = NetTable {
    device_count,
    device_attributes,
    worker_open,
    worker_close,
    listen,
    connect,
    accept,
    channel_state,
    channel_abort,
    channel_close,
    mem_register,
    mem_deregister,
    post,
    poll,
    arm,
    wait_fd,
    last_error,
};

/// The status of a result, whose text is kept for `last_error`.
fn answer(result: Result<Status>) -> Status {
    result.unwrap_or_else(Status::from)
}

/// As [`store`], for a caller that has more to do.
///
/// # Safety
/// As of [`store`].
unsafe fn place<T>(place: *mut T, value: T) -> Result<Status> {
    match place.is_null() {
        true => Err(usage("no place for the result: null pointer")),
        // SAFETY: the caller's promise.
        false => Ok(unsafe { store(place, value) }),
    }
}

/// Who a channel joins, and for how long to try.
///
/// # Safety
/// `params` is null or points at valid parameters.
unsafe fn ends(params: *const ChannelParams) -> Result<(Ends, Duration)> {
    // SAFETY: the caller's promise.
    let params = unsafe { params.as_ref() }.ok_or_else(|| usage("no parameters: null pointer"))?;
    let ends = Ends {
        local: params.local_rank,
        remote: params.remote_rank,
        lane: params.lane,
    };
    Ok((ends, Duration::from_nanos(params.timeout_ns)))
}

fn pointer(status: Status) -> Failure {
    Failure::new(status, "a null pointer with a length")
}

guarded! {
    pub(crate) extern "C" fn probe(
        _host: *const HostServices,
        options: *const Property,
        option_count: u64,
        report: PropertySink,
    ) -> Status {
        // SAFETY: the host lends the rows for the call.
        match device::probe(unsafe { properties(options, option_count) }) {
            Ok(reason) => {
                report.row("reason", reason);
                Status::OK
            }
            Err(failure) => {
                report.row("reason", &failure.text);
                failure.into()
            }
        }
    }

    extern "C" fn device_count(count: *mut u32) -> Status {
        // SAFETY: the core gives a place that is null or writable.
        unsafe { store(count, device::COUNT) }
    }

    extern "C" fn device_attributes(index: u32, attributes: PropertySink) -> Status {
        answer(device::attributes(index).map(|rows| {
            for (key, value) in rows {
                attributes.row(key, value);
            }
            Status::OK
        }))
    }

    extern "C" fn worker_open(
        index: u32,
        host: *const HostServices,
        options: *const Property,
        option_count: u64,
        worker: *mut WorkerHandle,
    ) -> Status {
        let open = || {
            device::check(index)?;
            if worker.is_null() {
                return Err(usage("no place for the worker: null pointer"));
            }
            // SAFETY: the host lends the rows for the call.
            let options = Options::read(unsafe { properties(options, option_count) })?;
            // SAFETY: null, or services that live as long as the process.
            let host = unsafe { host.as_ref() }.copied();
            let handle = registry::insert(Worker::open(options, Host::new(host))?)?;
            // SAFETY: the core gives a place that is writable; null was refused.
            unsafe { place(worker, handle) }
        };
        answer(open())
    }

    extern "C" fn worker_close(worker: WorkerHandle, timeout_ns: u64) -> Status {
        let close = |worker: Worker| worker.close(Duration::from_nanos(timeout_ns));
        answer(registry::remove(worker).and_then(close).map(|()| Status::OK))
    }

    extern "C" fn listen(worker: WorkerHandle, address: Buffer) -> Status {
        // SAFETY: the core gives a buffer that is writable as it says.
        answer(registry::with(worker, |worker| Ok(unsafe { address.write(&worker.listen()?) })))
    }

    extern "C" fn connect(
        worker: WorkerHandle,
        address: *const u8,
        address_len: u64,
        params: *const ChannelParams,
        channel: *mut ChannelHandle,
    ) -> Status {
        answer(registry::with(worker, |worker| {
            if channel.is_null() {
                return Err(usage("no place for the channel: null pointer"));
            }
            // SAFETY: the core lends address and parameters for the call.
            let (address, (ends, timeout)) =
                unsafe { (slice(address, address_len).map_err(pointer)?, ends(params)?) };
            let handle = worker.connect(address, ends, timeout)?;
            // SAFETY: the core gives a place that is writable; null was refused.
            unsafe { place(channel, handle) }
        }))
    }

    extern "C" fn accept(
        worker: WorkerHandle,
        params: *const ChannelParams,
        channel: *mut ChannelHandle,
    ) -> Status {
        answer(registry::with(worker, |worker| {
            if channel.is_null() {
                return Err(usage("no place for the channel: null pointer"));
            }
            // SAFETY: the core lends the parameters for the call.
            let (ends, timeout) = unsafe { ends(params)? };
            let handle = worker.accept(ends, timeout)?;
            // SAFETY: the core gives a place that is writable; null was refused.
            unsafe { place(channel, handle) }
        }))
    }

    extern "C" fn channel_state(
        worker: WorkerHandle,
        channel: ChannelHandle,
        state: *mut ChannelState,
        detail: Buffer,
    ) -> Status {
        answer(registry::with(worker, |worker| {
            let (now, text) = worker.channel_state(channel)?;
            // SAFETY: the core gives a place that is null or writable, and a buffer that is writable as it says.
            unsafe {
                place(state, now)?;
                Ok(detail.write(text.as_bytes()))
            }
        }))
    }

    extern "C" fn channel_abort(worker: WorkerHandle, channel: ChannelHandle) -> Status {
        answer(registry::with(worker, |worker| worker.channel_abort(channel).map(|()| Status::OK)))
    }

    extern "C" fn channel_close(worker: WorkerHandle, channel: ChannelHandle, timeout_ns: u64) -> Status {
        let timeout = Duration::from_nanos(timeout_ns);
        answer(registry::with(worker, |worker| worker.channel_close(channel, timeout).map(|()| Status::OK)))
    }

    extern "C" fn mem_register(
        worker: WorkerHandle,
        ptr: *mut u8,
        len: u64,
        _properties: *const Property,
        _property_count: u64,
        key: *mut u64,
    ) -> Status {
        // SAFETY: the core gives a place that is null or writable.
        answer(registry::with(worker, |_| unsafe { place(key, memory::register(ptr, len)?) }))
    }

    extern "C" fn mem_deregister(worker: WorkerHandle, key: u64) -> Status {
        answer(registry::with(worker, |_| memory::deregister(key).map(|()| Status::OK)))
    }

    extern "C" fn post(
        worker: WorkerHandle,
        requests: *const WorkRequest,
        count: u64,
        accepted: *mut u64,
    ) -> Status {
        answer(registry::with(worker, |worker| {
            if accepted.is_null() {
                return Err(usage("no place for the number of accepted requests: null pointer"));
            }
            // SAFETY: the core lends the requests for the call.
            let requests = unsafe { slice(requests, count) }.map_err(pointer)?;
            // SAFETY: the core keeps the memory of requests valid until they complete.
            let (taken, verdict) = unsafe { worker.post(requests) };
            // SAFETY: the core gives a place that is writable; null was refused.
            let stored = unsafe { place(accepted, taken as u64) };
            verdict.and(stored)
        }))
    }

    extern "C" fn poll(
        worker: WorkerHandle,
        completions: *mut Completion,
        capacity: u64,
        count: *mut u64,
    ) -> Status {
        answer(registry::with(worker, |worker| {
            if count.is_null() || (completions.is_null() && capacity > 0) {
                return Err(usage("no place for completions: null pointer"));
            }
            // SAFETY: the core gives `capacity` places that are writable and used by nobody else.
            let stored = unsafe { worker.poll(completions, usize::try_from(capacity).unwrap_or(usize::MAX)) };
            // SAFETY: the core gives a place that is writable; null was refused.
            unsafe { place(count, stored as u64) }
        }))
    }

    extern "C" fn arm(worker: WorkerHandle) -> Status {
        answer(registry::with(worker, |worker| {
            worker.arm();
            Ok(Status::OK)
        }))
    }

    extern "C" fn wait_fd(worker: WorkerHandle, fd: *mut i32) -> Status {
        // SAFETY: the core gives a place that is null or writable.
        answer(registry::with(worker, |worker| unsafe { place(fd, worker.events.fd().as_raw_fd()) }))
    }
}
