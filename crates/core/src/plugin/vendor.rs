//! A vendor plugin as the core calls it: the table copied once, failures turned into errors.

use super::found::{PluginInfo, fetch};
use crate::error::{Error, Result};
use infiniccl_plugin_api::{
    Callback, CapRow, CollDesc, Collective, CommHandle, CopyDesc, DeviceHandle, EventHandle, MemInfo,
    MemKind, Property, ReduceDesc, Rows, ScaleDesc, Scope, Status, StreamHandle, VendorTable, VendorTableRef,
};
use std::ffi::c_void;
use std::sync::Arc;
use std::time::Duration;

/// Capability rows taken at most; no library has so many, a plugin that runs wild may.
const MAX_CAPS: usize = 65_536;

/// A row that claims nothing; what a plugin does not write says nothing.
const NO_CAPS: CapRow = CapRow {
    collective: Collective(u32::MAX),
    scope: Scope::DEVICE,
    dtype_mask: 0,
    op_mask: 0,
    mem_mask: 0,
    min_ranks: 0,
    max_ranks: 0,
    min_bytes: 0,
    max_bytes: 0,
    flags: 0,
    alpha_ns: 0,
    beta_ps_per_byte: 0,
    reserved: [0; 2],
};

/// A vendor plugin in use; clones share it.
///
/// Functions that answer with a [`Status`] are those whose failure the caller looks at rarely or never: hot ones,
/// and those that end something. [`Self::error`] turns such a status into an error. Times are limits; what is
/// said of blocking and threads in [`VendorTable`] holds here.
#[derive(Clone)]
pub struct VendorPlugin(Arc<Inner>);

struct Inner {
    info: PluginInfo,
    table: VendorTable,
}

impl std::fmt::Debug for VendorPlugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("VendorPlugin").field(&self.0.info).finish()
    }
}

impl VendorPlugin {
    pub(super) fn new(info: PluginInfo, table: VendorTableRef) -> Self {
        macro_rules! copied {
            ($($field:ident)*) => { VendorTable { $($field: table.$field(),)* } };
        }
        let table = copied!(
            device_count device_attributes device_open device_close mem_alloc mem_free mem_classify
            stream_adopt stream_create stream_destroy event_create event_record event_wait event_query
            event_synchronize event_destroy copy reduce scale stream_notify stream_hold stream_release
            comm_unique_id comm_init comm_caps enqueue comm_async_error comm_abort comm_destroy last_error
        );
        VendorPlugin(Arc::new(Inner { info, table }))
    }

    fn table(&self) -> &VendorTable {
        &self.0.table
    }

    /// What is known of the plugin.
    pub fn info(&self) -> &PluginInfo {
        &self.0.info
    }

    /// Its name in the configuration, or its own where it is not listed.
    pub fn name(&self) -> &str {
        self.0.info.name()
    }

    /// The error for a status that `function` answered just now on this thread.
    #[cold]
    pub fn error(&self, status: Status, function: &'static str) -> Error {
        self.0.info.error(status, function, self.table().last_error)
    }

    fn check(&self, status: Status, function: &'static str) -> Result<()> {
        if status.is_ok() {
            Ok(())
        } else {
            Err(self.error(status, function))
        }
    }

    fn on_device(&self, device: DeviceHandle, status: Status, function: &'static str) -> Result<()> {
        self.check(status, function).map_err(|e| self.at(device, e))
    }

    #[cold]
    fn at(&self, device: DeviceHandle, error: Error) -> Error {
        match self.0.info.device_of(device) {
            Some(index) => error.with("device", index),
            None => error,
        }
    }

    fn handle(&self, handle: u64, function: &'static str) -> Result<u64> {
        if handle == 0 {
            Err(self.0.info.broken(function, "answered with the handle zero"))
        } else {
            Ok(handle)
        }
    }

    /// Number of devices that can be opened.
    pub fn device_count(&self) -> Result<u32> {
        let mut count = 0;
        self.check((self.table().device_count)(&mut count), "device_count")?;
        Ok(count)
    }

    /// The rows of device `index`; keys are in `infiniccl_plugin_api::device_attr`.
    pub fn device_attributes(&self, index: u32) -> Result<Rows> {
        let mut rows = Rows::new();
        self.check(
            (self.table().device_attributes)(index, rows.sink()),
            "device_attributes",
        )
        .map_err(|e| e.with("device", index))?;
        Ok(rows)
    }

    /// Opens device `index`, with the options of the configuration; may take seconds.
    pub fn device_open(&self, index: u32) -> Result<DeviceHandle> {
        let (rows, mut device) = (self.0.info.rows(&[]), 0);
        let status = (self.table().device_open)(
            index,
            self.0.info.services(),
            rows.as_ptr(),
            rows.len() as u64,
            &mut device,
        );
        self.check(status, "device_open")
            .map_err(|e| e.with("device", index))?;
        self.0.info.opened(self.handle(device, "device_open")?, index);
        Ok(device)
    }

    /// Closes a device; everything that was made with it must be gone.
    pub fn device_close(&self, device: DeviceHandle) -> Status {
        let status = (self.table().device_close)(device);
        self.0.info.closed(device);
        status
    }

    /// Allocates `bytes` of memory, aligned to at least 256 bytes.
    pub fn mem_alloc(&self, device: DeviceHandle, kind: MemKind, bytes: u64) -> Result<*mut u8> {
        let mut ptr = std::ptr::null_mut();
        let status = (self.table().mem_alloc)(device, kind, bytes, &mut ptr);
        self.on_device(device, status, "mem_alloc")
            .map_err(|e| e.with("bytes", bytes))?;
        if ptr.is_null() && bytes != 0 {
            return Err(self.0.info.broken("mem_alloc", "answered with null"));
        }
        Ok(ptr)
    }

    /// Frees memory of [`Self::mem_alloc`].
    ///
    /// # Safety
    /// Nothing may use the memory any more.
    pub unsafe fn mem_free(&self, device: DeviceHandle, kind: MemKind, ptr: *mut u8) -> Status {
        (self.table().mem_free)(device, kind, ptr)
    }

    /// Tells what a pointer is.
    pub fn mem_classify(&self, device: DeviceHandle, ptr: *const u8) -> Result<MemInfo> {
        let mut info = MemInfo::default();
        self.on_device(
            device,
            (self.table().mem_classify)(device, ptr, &mut info),
            "mem_classify",
        )?;
        Ok(info)
    }

    /// Takes a native stream of the application into use; the application keeps owning it.
    ///
    /// # Safety
    /// `native` must be a live stream of this vendor's runtime, until it is given back by `stream_destroy`.
    pub unsafe fn stream_adopt(&self, device: DeviceHandle, native: *mut c_void) -> Result<StreamHandle> {
        let mut stream = 0;
        let status = (self.table().stream_adopt)(device, native, &mut stream);
        self.on_device(device, status, "stream_adopt")?;
        Ok(stream)
    }

    /// Creates a stream; `flags` from `infiniccl_plugin_api::stream_flags`.
    pub fn stream_create(&self, device: DeviceHandle, flags: u64) -> Result<StreamHandle> {
        let mut stream = 0;
        let status = (self.table().stream_create)(device, flags, &mut stream);
        self.on_device(device, status, "stream_create")?;
        self.handle(stream, "stream_create")
    }

    /// Destroys a created stream, or forgets an adopted one; its work must have ended.
    pub fn stream_destroy(&self, device: DeviceHandle, stream: StreamHandle) -> Status {
        (self.table().stream_destroy)(device, stream)
    }

    /// Creates an event.
    pub fn event_create(&self, device: DeviceHandle) -> Result<EventHandle> {
        let mut event = 0;
        self.on_device(
            device,
            (self.table().event_create)(device, &mut event),
            "event_create",
        )?;
        self.handle(event, "event_create")
    }

    /// The event now stands for all work that was given to the stream before this call.
    pub fn event_record(&self, device: DeviceHandle, event: EventHandle, stream: StreamHandle) -> Result<()> {
        self.on_device(
            device,
            (self.table().event_record)(device, event, stream),
            "event_record",
        )
    }

    /// Later work of the stream waits for the event; the host does not.
    pub fn event_wait(&self, device: DeviceHandle, event: EventHandle, stream: StreamHandle) -> Result<()> {
        self.on_device(
            device,
            (self.table().event_wait)(device, event, stream),
            "event_wait",
        )
    }

    /// OK when the event's work is done, IN_PROGRESS when not, else the error of the work. Never blocks.
    #[inline]
    pub fn event_query(&self, device: DeviceHandle, event: EventHandle) -> Status {
        (self.table().event_query)(device, event)
    }

    /// Blocks until the event's work is done or `limit` passed (IN_PROGRESS).
    pub fn event_synchronize(&self, device: DeviceHandle, event: EventHandle, limit: Duration) -> Status {
        (self.table().event_synchronize)(device, event, nanos(limit))
    }

    /// Destroys an event.
    pub fn event_destroy(&self, device: DeviceHandle, event: EventHandle) -> Status {
        (self.table().event_destroy)(device, event)
    }

    /// Starts copies in stream order.
    ///
    /// # Safety
    /// The memory that the rows name must stay valid, and the targets unused by others, until the stream is past.
    pub unsafe fn copy(&self, device: DeviceHandle, stream: StreamHandle, copies: &[CopyDesc]) -> Result<()> {
        let status = (self.table().copy)(device, stream, copies.as_ptr(), copies.len() as u64);
        self.on_device(device, status, "copy")
    }

    /// Starts element-wise reductions in stream order; capability rows LOCAL_REDUCE say what is possible.
    ///
    /// # Safety
    /// As for [`Self::copy`].
    pub unsafe fn reduce(
        &self,
        device: DeviceHandle,
        stream: StreamHandle,
        rows: &[ReduceDesc],
    ) -> Result<()> {
        let status = (self.table().reduce)(device, stream, rows.as_ptr(), rows.len() as u64);
        self.on_device(device, status, "reduce")
    }

    /// Starts scalings in stream order; capability rows LOCAL_SCALE say what is possible.
    ///
    /// # Safety
    /// As for [`Self::copy`].
    pub unsafe fn scale(&self, device: DeviceHandle, stream: StreamHandle, rows: &[ScaleDesc]) -> Result<()> {
        let status = (self.table().scale)(device, stream, rows.as_ptr(), rows.len() as u64);
        self.on_device(device, status, "scale")
    }

    /// Calls the callback once when the stream gets there.
    ///
    /// # Safety
    /// The callback's argument must be valid then, on any thread; the callback must not block or unwind.
    pub unsafe fn stream_notify(
        &self,
        device: DeviceHandle,
        stream: StreamHandle,
        callback: Callback,
    ) -> Result<()> {
        self.on_device(
            device,
            (self.table().stream_notify)(device, stream, callback),
            "stream_notify",
        )
    }

    /// Later work of the stream waits until [`Self::stream_release`] is called with the token.
    pub fn stream_hold(&self, device: DeviceHandle, stream: StreamHandle) -> Result<u64> {
        let mut token = 0;
        self.on_device(
            device,
            (self.table().stream_hold)(device, stream, &mut token),
            "stream_hold",
        )?;
        Ok(token)
    }

    /// Lets a held stream go on; from any thread.
    pub fn stream_release(&self, device: DeviceHandle, token: u64) -> Result<()> {
        self.on_device(
            device,
            (self.table().stream_release)(device, token),
            "stream_release",
        )
    }

    /// Makes the id of a new communicator, at most 8 KiB, which the other ranks need.
    pub fn comm_unique_id(&self, device: DeviceHandle) -> Result<Vec<u8>> {
        const MAX_ID: usize = 8 * 1024;
        let id = fetch(256, |buffer| (self.table().comm_unique_id)(device, buffer))
            .map_err(|status| self.at(device, self.error(status, "comm_unique_id")))?;
        if id.len() > MAX_ID {
            return Err(self
                .0
                .info
                .broken("comm_unique_id", "made an id of more than 8 KiB"));
        }
        Ok(id)
    }

    /// Joins a communicator; blocks until all ranks joined or `limit` passed.
    pub fn comm_init(
        &self,
        device: DeviceHandle,
        id: &[u8],
        rank: u32,
        size: u32,
        limit: Duration,
        properties: &[(&str, &str)],
    ) -> Result<CommHandle> {
        let rows: Vec<Property> = properties
            .iter()
            .map(|(key, value)| Property::new(key, value))
            .collect();
        let mut comm = 0;
        let status = (self.table().comm_init)(
            device,
            id.as_ptr(),
            id.len() as u64,
            rank,
            size,
            nanos(limit),
            rows.as_ptr(),
            rows.len() as u64,
            &mut comm,
        );
        self.on_device(device, status, "comm_init")?;
        self.handle(comm, "comm_init")
    }

    /// What the communicator can do by itself.
    pub fn comm_caps(&self, comm: CommHandle) -> Result<Vec<CapRow>> {
        let mut rows = vec![NO_CAPS; 64];
        loop {
            let (room, mut count) = (rows.len(), 0_u64);
            self.check(
                (self.table().comm_caps)(comm, rows.as_mut_ptr(), room as u64, &mut count),
                "comm_caps",
            )?;
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            if count <= room {
                rows.truncate(count);
                return Ok(rows);
            }
            if count > MAX_CAPS {
                return Err(self
                    .0
                    .info
                    .broken("comm_caps", "has more rows than any library could need"));
            }
            rows.resize(count, NO_CAPS);
        }
    }

    /// Gives collectives to the stream; more than one form a group.
    ///
    /// For the core only: the caller answers for the memory that the rows name, until the stream is past.
    #[inline]
    pub(crate) fn enqueue(&self, comm: CommHandle, collectives: &[CollDesc], stream: StreamHandle) -> Status {
        (self.table().enqueue)(comm, collectives.as_ptr(), collectives.len() as u64, stream)
    }

    /// The first error that the communicator met, else OK.
    pub fn comm_async_error(&self, comm: CommHandle) -> Status {
        (self.table().comm_async_error)(comm)
    }

    /// Ends all work of the communicator with ABORTED; from any thread, returns fast.
    pub fn comm_abort(&self, comm: CommHandle) -> Status {
        (self.table().comm_abort)(comm)
    }

    /// Frees a communicator; needs no peer.
    pub fn comm_destroy(&self, comm: CommHandle) -> Status {
        (self.table().comm_destroy)(comm)
    }
}

/// `limit` in ns; what does not fit is no limit.
pub(super) fn nanos(limit: Duration) -> u64 {
    u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX)
}
