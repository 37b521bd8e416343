//! The stream and event functions of the table.

use super::{Gate, Mark, Stream, Work};
use crate::device::{self, Device};
use crate::error::usage;
use infiniccl_plugin_api::{
    Callback, DeviceHandle, EventHandle, Failure, Status, StreamHandle, guarded, store, stream_flags,
};
use std::ffi::c_void;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// An event: what it was last recorded for, if anything.
#[derive(Default)]
struct Event(Mutex<Option<Mark>>);

impl Event {
    fn get<'a>(handle: EventHandle) -> Result<&'a Event, Failure> {
        let event: *const Event = ptr::with_exposed_provenance(usize::try_from(handle).unwrap_or(0));
        // SAFETY: the core passes handles of `event_create` that are not destroyed, or zero.
        unsafe { event.as_ref() }.ok_or_else(|| usage("no event: the handle is zero"))
    }

    fn mark(&self) -> Option<Mark> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, mark: Option<Mark>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = mark;
    }
}

fn adopt(device: &Device, native: *mut c_void) -> Result<StreamHandle, Failure> {
    if native.is_null() {
        return Ok(0);
    }
    // A native stream of the host is a handle of `stream_create`.
    let stream = device.stream(native.addr() as StreamHandle)?;
    Ok(stream.map_or(0, |stream| device.add_stream(stream, false)))
}

fn create(device: &Device, flags: u64) -> Result<StreamHandle, Failure> {
    if flags & !stream_flags::POLLED != 0 {
        let text = format!("stream flags {flags:#x} are unknown to the host plugin");
        return Err(Failure::new(Status::UNSUPPORTED, text));
    }
    Ok(device.add_stream(Stream::new(flags & stream_flags::POLLED != 0), true))
}

fn hold(device: &Device, stream: StreamHandle) -> Result<u64, Failure> {
    let Some(stream) = device.stream(stream)? else {
        let text = "the default stream runs in its callers and cannot be held; create a stream";
        return Err(Failure::new(Status::UNSUPPORTED, text));
    };
    let gate = Arc::new(Gate::default());
    stream.push(Work::hold(Arc::clone(&gate)))?;
    Ok(device.add_gate(gate))
}

fn answer<T>(result: Result<T, Failure>, place: *mut T) -> Status {
    match result {
        // SAFETY: the core gives a place for the result.
        Ok(value) => unsafe { store(place, value) },
        Err(failure) => failure.into(),
    }
}

fn progress(ended: Result<bool, Failure>) -> Status {
    match ended {
        Ok(true) => Status::OK,
        Ok(false) => Status::IN_PROGRESS,
        Err(failure) => failure.into(),
    }
}

guarded! {
    pub(crate) extern "C" fn stream_adopt(
        device: DeviceHandle,
        native: *mut c_void,
        stream: *mut StreamHandle,
    ) -> Status {
        answer(device::get(device).and_then(|device| adopt(device, native)), stream)
    }

    pub(crate) extern "C" fn stream_create(
        device: DeviceHandle,
        flags: u64,
        stream: *mut StreamHandle,
    ) -> Status {
        answer(device::get(device).and_then(|device| create(device, flags)), stream)
    }

    pub(crate) extern "C" fn stream_destroy(device: DeviceHandle, stream: StreamHandle) -> Status {
        if stream == 0 {
            return Status::OK;
        }
        device::get(device).and_then(|device| device.remove_stream(stream)).into()
    }

    pub(crate) extern "C" fn event_create(_device: DeviceHandle, event: *mut EventHandle) -> Status {
        let handle = Box::into_raw(Box::new(Event::default())).expose_provenance() as EventHandle;
        // SAFETY: the core gives a place for the result.
        unsafe { store(event, handle) }
    }

    pub(crate) extern "C" fn event_record(
        device: DeviceHandle,
        event: EventHandle,
        stream: StreamHandle,
    ) -> Status {
        let record = || {
            let stream = device::get(device)?.stream(stream)?;
            Event::get(event)?.set(stream.map(|stream| stream.mark()));
            Ok(())
        };
        record().into()
    }

    pub(crate) extern "C" fn event_wait(
        device: DeviceHandle,
        event: EventHandle,
        stream: StreamHandle,
    ) -> Status {
        let wait = || {
            let stream = device::get(device)?.stream(stream)?;
            let Some(mark) = Event::get(event)?.mark() else { return Ok(()) };
            match stream {
                Some(stream) => stream.push(Work::wait(mark)),
                // Work of the default stream is done by its callers, so the wait is theirs as well. The event's
                // own failure is told to who asks for the event.
                None => {
                    while mark.is_behind() {
                        let _ = mark.wait(None);
                    }
                    Ok(())
                }
            }
        };
        wait().into()
    }

    pub(crate) extern "C" fn event_query(_device: DeviceHandle, event: EventHandle) -> Status {
        let query = || Event::get(event)?.mark().map_or(Ok(true), |mark| mark.query());
        progress(query())
    }

    pub(crate) extern "C" fn event_synchronize(
        _device: DeviceHandle,
        event: EventHandle,
        timeout_ns: u64,
    ) -> Status {
        let deadline = Instant::now().checked_add(Duration::from_nanos(timeout_ns));
        let wait = || Event::get(event)?.mark().map_or(Ok(true), |mark| mark.wait(deadline));
        progress(wait())
    }

    pub(crate) extern "C" fn event_destroy(_device: DeviceHandle, event: EventHandle) -> Status {
        if let Err(failure) = Event::get(event) {
            return failure.into();
        }
        let event: *mut Event = ptr::with_exposed_provenance_mut(usize::try_from(event).unwrap_or(0));
        // SAFETY: a handle of `event_create`, which the core passes here once.
        drop(unsafe { Box::from_raw(event) });
        Status::OK
    }

    pub(crate) extern "C" fn stream_notify(
        device: DeviceHandle,
        stream: StreamHandle,
        callback: Callback,
    ) -> Status {
        device::get(device).and_then(|device| device.give(stream, Work::notify(callback))).into()
    }

    pub(crate) extern "C" fn stream_hold(
        device: DeviceHandle,
        stream: StreamHandle,
        token: *mut u64,
    ) -> Status {
        answer(device::get(device).and_then(|device| hold(device, stream)), token)
    }

    pub(crate) extern "C" fn stream_release(device: DeviceHandle, token: u64) -> Status {
        let release = || {
            device::get(device)?.remove_gate(token)?.open();
            Ok(())
        };
        release().into()
    }
}
