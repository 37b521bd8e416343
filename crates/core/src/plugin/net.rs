//! A network plugin as the core calls it: the table copied once, failures turned into errors.

use super::found::{PluginInfo, fetch, last_words};
use super::vendor::nanos;
use crate::error::{Error, Result};
use infiniccl_plugin_api::{
    ChannelHandle, ChannelParams, ChannelState, Completion, NetTable, NetTableRef, Property, Rows, Status,
    WorkRequest, WorkerHandle,
};
use std::sync::Arc;
use std::time::Duration;

/// Longest address of a worker, in bytes.
const MAX_ADDRESS: usize = 256;

/// A network plugin in use; clones share it.
///
/// Functions that take a worker must be called by one thread at a time, as [`NetTable`] says. Those that answer
/// with a [`Status`] are hot, or end something; [`Self::error`] turns the status into an error.
#[derive(Clone)]
pub struct NetPlugin(Arc<Inner>);

struct Inner {
    info: PluginInfo,
    table: NetTable,
}

impl std::fmt::Debug for NetPlugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("NetPlugin").field(&self.0.info).finish()
    }
}

impl NetPlugin {
    pub(super) fn new(info: PluginInfo, table: NetTableRef) -> Self {
        macro_rules! copied {
            ($($field:ident)*) => { NetTable { $($field: table.$field(),)* } };
        }
        let table = copied!(
            device_count device_attributes worker_open worker_close listen connect accept channel_state
            channel_abort channel_close mem_register mem_deregister post poll arm wait_fd last_error
        );
        NetPlugin(Arc::new(Inner { info, table }))
    }

    fn table(&self) -> &NetTable {
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

    fn of_worker(&self, worker: WorkerHandle, status: Status, function: &'static str) -> Result<()> {
        self.check(status, function).map_err(|e| self.at(worker, e))
    }

    #[cold]
    fn at(&self, worker: WorkerHandle, error: Error) -> Error {
        match self.0.info.device_of(worker) {
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

    /// Number of devices.
    pub fn device_count(&self) -> Result<u32> {
        let mut count = 0;
        self.check((self.table().device_count)(&mut count), "device_count")?;
        Ok(count)
    }

    /// The rows of device `index`; keys are in `infiniccl_plugin_api::net_attr`.
    pub fn device_attributes(&self, index: u32) -> Result<Rows> {
        let mut rows = Rows::new();
        self.check(
            (self.table().device_attributes)(index, rows.sink()),
            "device_attributes",
        )
        .map_err(|e| e.with("device", index))?;
        Ok(rows)
    }

    /// Opens a worker on device `index`, with the options of the configuration and those of `options`, whose keys
    /// are in `infiniccl_plugin_api::worker_option`.
    pub fn worker_open(&self, index: u32, options: &[(&str, &str)]) -> Result<WorkerHandle> {
        let (rows, mut worker) = (self.0.info.rows(options), 0);
        let status = (self.table().worker_open)(
            index,
            self.0.info.services(),
            rows.as_ptr(),
            rows.len() as u64,
            &mut worker,
        );
        self.check(status, "worker_open")
            .map_err(|e| e.with("device", index))?;
        self.0.info.opened(self.handle(worker, "worker_open")?, index);
        Ok(worker)
    }

    /// Closes a worker and all its channels; blocks at most `limit`.
    pub fn worker_close(&self, worker: WorkerHandle, limit: Duration) -> Status {
        let status = (self.table().worker_close)(worker, nanos(limit));
        self.0.info.closed(worker);
        status
    }

    /// Makes the worker reachable; the address is for the peers' [`Self::connect`].
    pub fn listen(&self, worker: WorkerHandle) -> Result<Vec<u8>> {
        let address = fetch(MAX_ADDRESS, |buffer| (self.table().listen)(worker, buffer))
            .map_err(|status| self.at(worker, self.error(status, "listen")))?;
        if address.len() > MAX_ADDRESS {
            return Err(self
                .0
                .info
                .broken("listen", "made an address of more than 256 bytes"));
        }
        Ok(address)
    }

    /// Opens the active end of a channel to the worker whose address this is.
    pub fn connect(
        &self,
        worker: WorkerHandle,
        address: &[u8],
        params: &ChannelParams,
    ) -> Result<ChannelHandle> {
        let mut channel = 0;
        let status = (self.table().connect)(
            worker,
            address.as_ptr(),
            address.len() as u64,
            params,
            &mut channel,
        );
        self.of_worker(worker, status, "connect")
            .map_err(|e| e.with("peer", params.remote_rank))?;
        self.handle(channel, "connect")
    }

    /// Opens the passive end of a channel; it becomes ready when the peer's active end has proved itself.
    pub fn accept(&self, worker: WorkerHandle, params: &ChannelParams) -> Result<ChannelHandle> {
        let mut channel = 0;
        let status = (self.table().accept)(worker, params, &mut channel);
        self.of_worker(worker, status, "accept")
            .map_err(|e| e.with("peer", params.remote_rank))?;
        self.handle(channel, "accept")
    }

    /// The state of a channel with a text: the addresses in use, or why it failed.
    pub fn channel_state(&self, worker: WorkerHandle, channel: ChannelHandle) -> (ChannelState, String) {
        let mut state = ChannelState::FAILED;
        let detail = fetch(256, |buffer| {
            (self.table().channel_state)(worker, channel, &mut state, buffer)
        });
        match detail {
            Ok(bytes) => (state, super::host::line(&String::from_utf8_lossy(&bytes))),
            // A detail of absurd length hides a state that is known.
            Err(Status::TOO_SMALL) => (state, String::new()),
            Err(_) => (ChannelState::FAILED, last_words(self.table().last_error)),
        }
    }

    /// Ends a channel at once; pending work completes with ABORTED.
    pub fn channel_abort(&self, worker: WorkerHandle, channel: ChannelHandle) -> Status {
        (self.table().channel_abort)(worker, channel)
    }

    /// Ends a channel in good order after its pending sends; blocks at most `limit`.
    pub fn channel_close(&self, worker: WorkerHandle, channel: ChannelHandle, limit: Duration) -> Status {
        (self.table().channel_close)(worker, channel, nanos(limit))
    }

    /// Registers memory; the key goes into work requests.
    ///
    /// # Safety
    /// The memory must stay valid until [`Self::mem_deregister`].
    pub unsafe fn mem_register(
        &self,
        worker: WorkerHandle,
        ptr: *mut u8,
        len: u64,
        properties: &[(&str, &str)],
    ) -> Result<u64> {
        let rows: Vec<Property> = properties
            .iter()
            .map(|(key, value)| Property::new(key, value))
            .collect();
        let mut key = 0;
        let status =
            (self.table().mem_register)(worker, ptr, len, rows.as_ptr(), rows.len() as u64, &mut key);
        self.of_worker(worker, status, "mem_register")
            .map_err(|e| e.with("bytes", len))?;
        Ok(key)
    }

    /// Undoes a registration.
    pub fn mem_deregister(&self, worker: WorkerHandle, key: u64) -> Status {
        (self.table().mem_deregister)(worker, key)
    }

    /// Posts requests, in order; the number is how many were accepted, fewer being back-pressure.
    ///
    /// For the core only: the caller answers for the memory that the requests name, until they complete.
    #[inline]
    pub(crate) fn post(&self, worker: WorkerHandle, requests: &[WorkRequest]) -> (Status, usize) {
        let mut accepted = 0;
        let status = (self.table().post)(worker, requests.as_ptr(), requests.len() as u64, &mut accepted);
        (status, bounded(accepted, requests.len()))
    }

    /// Drives progress and stores completions; the number is how many.
    #[inline]
    pub fn poll(&self, worker: WorkerHandle, completions: &mut [Completion]) -> (Status, usize) {
        let mut count = 0;
        let status = (self.table().poll)(
            worker,
            completions.as_mut_ptr(),
            completions.len() as u64,
            &mut count,
        );
        (status, bounded(count, completions.len()))
    }

    /// Makes the descriptor of [`Self::wait_fd`] readable on the next thing that `poll` can do; poll once more
    /// before sleeping.
    pub fn arm(&self, worker: WorkerHandle) -> Status {
        (self.table().arm)(worker)
    }

    /// A descriptor to sleep on, owned by the plugin as long as the worker lives; `None` where it has none.
    pub fn wait_fd(&self, worker: WorkerHandle) -> Option<i32> {
        let mut fd = -1;
        let status = (self.table().wait_fd)(worker, &mut fd);
        (status.is_ok() && fd >= 0).then_some(fd)
    }
}

/// A count of a plugin, which may not be larger than what it was given.
#[inline]
fn bounded(count: u64, most: usize) -> usize {
    usize::try_from(count).map_or(most, |count| count.min(most))
}
