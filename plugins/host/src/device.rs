//! The CPU as devices: options, attributes, and what an open device keeps.

use crate::error::usage;
use crate::identity;
use crate::options::Options;
use crate::stream::{Gate, Stream, Work};
use infiniccl_plugin_api::{
    DeviceHandle, Failure, HostServices, Property, PropertySink, Status, StreamHandle, device_attr, guarded,
    properties, store,
};
use std::collections::HashMap;
use std::fs;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Devices there are, as the options of the last probe say.
static DEVICES: AtomicU32 = AtomicU32::new(1);

/// An open device.
#[derive(Debug)]
pub(crate) struct Device {
    index: u32,
    options: Options,
    host: HostRef,
    streams: Mutex<Streams>,
}

/// The host's services, which live as long as the process.
#[derive(Clone, Copy)]
struct HostRef(Option<&'static HostServices>);

impl std::fmt::Debug for HostRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "HostServices" } else { "None" })
    }
}

/// Handles of streams and of holds.
#[derive(Debug, Default)]
struct Streams {
    last: u64,
    streams: HashMap<StreamHandle, Entry>,
    gates: HashMap<u64, Arc<Gate>>,
}

#[derive(Debug)]
struct Entry {
    stream: Arc<Stream>,
    /// Whether destroying this handle ends the stream, or it is another one's.
    owned: bool,
}

/// The device of a handle; USAGE for zero.
pub(crate) fn get<'a>(handle: DeviceHandle) -> Result<&'a Device, Failure> {
    let device: *const Device = ptr::with_exposed_provenance(usize::try_from(handle).unwrap_or(0));
    // SAFETY: the core passes handles of `device_open` that are not closed, or zero.
    unsafe { device.as_ref() }.ok_or_else(|| usage("no device: the handle is zero"))
}

impl Device {
    /// Its number.
    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    /// The configuration's values.
    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// For log lines and to see whether the process shuts down.
    pub(crate) fn host(&self) -> Option<&'static HostServices> {
        self.host.0
    }

    fn lock(&self) -> MutexGuard<'_, Streams> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The stream of a handle; none for zero, the default stream, whose work is done by its caller.
    pub(crate) fn stream(&self, handle: StreamHandle) -> Result<Option<Arc<Stream>>, Failure> {
        if handle == 0 {
            return Ok(None);
        }
        let streams = self.lock();
        let entry = streams
            .streams
            .get(&handle)
            .ok_or_else(|| unknown_stream(handle))?;
        Ok(Some(Arc::clone(&entry.stream)))
    }

    /// Adds a handle for a stream.
    pub(crate) fn add_stream(&self, stream: Arc<Stream>, owned: bool) -> StreamHandle {
        let mut streams = self.lock();
        streams.last += 1;
        let handle = streams.last;
        streams.streams.insert(handle, Entry { stream, owned });
        handle
    }

    /// Forgets a handle, and ends the stream if the handle is its own.
    pub(crate) fn remove_stream(&self, handle: StreamHandle) -> Result<(), Failure> {
        let entry = self
            .lock()
            .streams
            .remove(&handle)
            .ok_or_else(|| unknown_stream(handle))?;
        if entry.owned
            && let Err(failure) = entry.stream.close()
        {
            self.lock().streams.insert(handle, entry);
            return Err(failure);
        }
        Ok(())
    }

    /// Adds a hold; its token.
    pub(crate) fn add_gate(&self, gate: Arc<Gate>) -> u64 {
        let mut streams = self.lock();
        streams.last += 1;
        let token = streams.last;
        streams.gates.insert(token, gate);
        token
    }

    /// Takes a hold away.
    pub(crate) fn remove_gate(&self, token: u64) -> Result<Arc<Gate>, Failure> {
        let gate = self.lock().gates.remove(&token);
        gate.ok_or_else(|| usage(format!("token {token} holds no stream, or was released already")))
    }

    /// Gives work to a stream; the default stream's is done now.
    pub(crate) fn give(&self, stream: StreamHandle, mut work: Work) -> Result<(), Failure> {
        match self.stream(stream)? {
            Some(stream) => stream.push(work),
            None => work.step().map(|_| ()),
        }
    }
}

fn unknown_stream(handle: StreamHandle) -> Failure {
    usage(format!(
        "stream {handle} is unknown to this device, or was destroyed"
    ))
}

fn known_index(index: u32) -> Result<(), Failure> {
    let count = DEVICES.load(Ordering::Relaxed);
    if index < count {
        return Ok(());
    }
    Err(usage(format!(
        "device {index} of {count}; the option 'devices' says how many there are"
    )))
}

fn processor() -> String {
    fs::read_to_string("/proc/cpuinfo")
        .ok()
        .and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("model name"))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        })
        .unwrap_or_else(|| "CPU".to_owned())
}

fn memory_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let kib: u64 = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?
        .split_whitespace()
        .next()?
        .parse()
        .ok()?;
    kib.checked_mul(1024)
}

/// The only NUMA node there is; with several, memory is wherever it was touched first.
fn numa() -> Option<&'static str> {
    let text = fs::read_to_string("/sys/devices/system/node/online").ok()?;
    (text.trim() == "0").then_some("0")
}

fn put_attributes(index: u32, sink: PropertySink) -> Result<(), Failure> {
    known_index(index)?;
    sink.row(device_attr::NAME, processor());
    sink.row(device_attr::BUS_ID, format_args!("cpu{index}"));
    if let Some(numa) = numa() {
        sink.row(device_attr::NUMA, numa);
    }
    if let Some(boot) = identity::boot_id() {
        sink.row(device_attr::UUID, format_args!("{boot}-cpu{index}"));
    }
    sink.row(device_attr::ARCH, std::env::consts::ARCH);
    if let Some(bytes) = memory_bytes() {
        sink.row(device_attr::MEMORY, bytes);
    }
    sink.row(device_attr::ISLAND, identity::island());
    sink.row(
        device_attr::ARITHMETIC,
        concat!("infiniccl-reduce ", env!("CARGO_PKG_VERSION"), " ieee"),
    );
    sink.row(device_attr::HOST_ACCESS, 1);
    sink.row(device_attr::HOLD, 1);
    Ok(())
}

guarded! {
    pub(crate) extern "C" fn probe(
        _host: *const HostServices,
        options: *const Property,
        option_count: u64,
        report: PropertySink,
    ) -> Status {
        // SAFETY: the core lends the options for this call.
        match Options::read(unsafe { properties(options, option_count) }) {
            Ok(options) => {
                DEVICES.store(options.devices, Ordering::Relaxed);
                report.row("reason", format_args!("{} ({})", processor(), std::env::consts::ARCH));
                Status::OK
            }
            Err(failure) => {
                report.row("reason", &failure.text);
                failure.into()
            }
        }
    }

    pub(crate) extern "C" fn device_count(count: *mut u32) -> Status {
        // SAFETY: the core gives a place for the result.
        unsafe { store(count, DEVICES.load(Ordering::Relaxed)) }
    }

    pub(crate) extern "C" fn device_attributes(index: u32, attributes: PropertySink) -> Status {
        put_attributes(index, attributes).into()
    }

    pub(crate) extern "C" fn device_open(
        index: u32,
        host: *const HostServices,
        options: *const Property,
        option_count: u64,
        device: *mut DeviceHandle,
    ) -> Status {
        // SAFETY: the core lends the options for this call, and its services for the life of the process.
        let (options, host) = unsafe { (properties(options, option_count), host.as_ref()) };
        let opened = known_index(index).and_then(|()| {
            let options = Options::read(options)?;
            Ok(Device { index, options, host: HostRef(host), streams: Mutex::default() })
        });
        match opened {
            Ok(opened) => {
                crate::fork::watch();
                let handle = Box::into_raw(Box::new(opened)).expose_provenance() as DeviceHandle;
                // SAFETY: the core gives a place for the result.
                unsafe { store(device, handle) }
            }
            Err(failure) => failure.into(),
        }
    }

    pub(crate) extern "C" fn device_close(device: DeviceHandle) -> Status {
        if let Err(failure) = get(device) {
            return failure.into();
        }
        let device: *mut Device = ptr::with_exposed_provenance_mut(usize::try_from(device).unwrap_or(0));
        // SAFETY: a handle of `device_open`, which the core passes here once.
        drop(unsafe { Box::from_raw(device) });
        Status::OK
    }
}
