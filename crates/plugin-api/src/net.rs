//! The table of a network plugin: devices, workers, channels, memory registration, and data.
//!
//! All functions that take a worker, or a channel of it, are called by one thread at a time; the plugin needs no
//! lock for them. None of them blocks, but for `channel_close` and `worker_close` up to their time limit.
//! Handles are chosen by the plugin; zero is never a valid handle.

use crate::{
    Buffer, ChannelParams, ChannelState, Completion, HostServices, Property, PropertySink, Status,
    WorkRequest,
};
use abi_stable::StableAbi;

/// A worker: the unit of progress, owned by one thread at a time.
pub type WorkerHandle = u64;
/// A channel between two ranks.
pub type ChannelHandle = u64;

/// Keys of the rows that [`NetTable::device_attributes`] puts.
pub mod net_attr {
    /// Name of the device, such as an interface name.
    pub const NAME: &str = "name";
    /// Tier of `planning.md`: `tcp`, `node`, `rdma`.
    pub const TIER: &str = "tier";
    /// Latency of a small message in ns, decimal.
    pub const LATENCY_NS: &str = "latency_ns";
    /// Bandwidth in bytes per second, decimal.
    pub const BANDWIDTH: &str = "bandwidth_bytes_per_s";
    /// `1`: memory must be registered before it is posted.
    pub const NEEDS_REGISTRATION: &str = "needs_registration";
    /// `1`: `arm` and `wait_fd` work.
    pub const WAIT_FD: &str = "wait_fd";
    /// Largest message in bytes, decimal; absent: no limit.
    pub const MAX_MESSAGE: &str = "max_message_bytes";
}

/// Keys of the rows that the core passes to [`NetTable::worker_open`].
pub mod worker_option {
    /// 64 hexadecimal digits: the secret that both ends of a channel prove to each other. Never logged.
    pub const KEY: &str = "auth_key";
    /// `none`: the operator chose to run without proofs.
    pub const AUTH: &str = "auth";
    /// Rank of this process's end.
    pub const RANK: &str = "rank";
    /// Number of ranks.
    pub const SIZE: &str = "size";
    /// Comma-separated addresses to listen on and to advertise, best first.
    pub const ADDRESSES: &str = "addresses";
    /// `LOW-HIGH`: the ports to listen on; absent: any.
    pub const PORT_RANGE: &str = "port_range";
    /// Seconds of silence after which keepalive probes start; 0: off.
    pub const KEEPALIVE: &str = "keepalive_s";
}

/// Functions of a network plugin.
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = NetTableRef)))]
#[sabi(missing_field(option))]
pub struct NetTable {
    /// Number of devices.
    pub device_count: extern "C" fn(count: *mut u32) -> Status,
    /// Puts the rows of [`net_attr`] for device `index`.
    pub device_attributes: extern "C" fn(index: u32, attributes: PropertySink) -> Status,

    /// Opens a worker on device `index`; `options` holds the configuration's rows and those of [`worker_option`].
    pub worker_open: extern "C" fn(
        index: u32,
        host: *const HostServices,
        options: *const Property,
        option_count: u64,
        worker: *mut WorkerHandle,
    ) -> Status,
    /// Closes a worker and all its channels; blocks at most `timeout_ns`.
    pub worker_close: extern "C" fn(worker: WorkerHandle, timeout_ns: u64) -> Status,

    /// Makes the worker reachable and writes its address, at most 256 bytes, which the core carries to the peers.
    pub listen: extern "C" fn(worker: WorkerHandle, address: Buffer) -> Status,
    /// Opens the active end of a channel to the worker whose address this is.
    pub connect: extern "C" fn(
        worker: WorkerHandle,
        address: *const u8,
        address_len: u64,
        params: *const ChannelParams,
        channel: *mut ChannelHandle,
    ) -> Status,
    /// Opens the passive end of a channel; it becomes ready when the peer's active end has proved itself.
    pub accept: extern "C" fn(
        worker: WorkerHandle,
        params: *const ChannelParams,
        channel: *mut ChannelHandle,
    ) -> Status,
    /// The state of a channel; `detail` receives a text: the addresses in use, or why it failed.
    pub channel_state: extern "C" fn(
        worker: WorkerHandle,
        channel: ChannelHandle,
        state: *mut ChannelState,
        detail: Buffer,
    ) -> Status,
    /// Ends a channel at once; pending work completes with ABORTED.
    pub channel_abort: extern "C" fn(worker: WorkerHandle, channel: ChannelHandle) -> Status,
    /// Ends a channel in good order after its pending sends; blocks at most `timeout_ns`.
    pub channel_close: extern "C" fn(worker: WorkerHandle, channel: ChannelHandle, timeout_ns: u64) -> Status,

    /// Registers memory; `key` goes into work requests.
    pub mem_register: extern "C" fn(
        worker: WorkerHandle,
        ptr: *mut u8,
        len: u64,
        properties: *const Property,
        property_count: u64,
        key: *mut u64,
    ) -> Status,
    /// Undoes a registration.
    pub mem_deregister: extern "C" fn(worker: WorkerHandle, key: u64) -> Status,

    /// Posts `count` requests, in order; stores how many were accepted. Fewer than `count` is back-pressure.
    /// Sends of a channel leave in the order posted, and meet the peer's receives in the order posted there.
    pub post: extern "C" fn(
        worker: WorkerHandle,
        requests: *const WorkRequest,
        count: u64,
        accepted: *mut u64,
    ) -> Status,
    /// Drives progress and stores at most `capacity` completions. A SEND is complete when its buffer may be
    /// reused; a RECV when its bytes are visible to the memory's owner.
    pub poll: extern "C" fn(
        worker: WorkerHandle,
        completions: *mut Completion,
        capacity: u64,
        count: *mut u64,
    ) -> Status,
    /// Makes `wait_fd` readable on the next thing `poll` can do; the caller polls once more before it sleeps.
    pub arm: extern "C" fn(worker: WorkerHandle) -> Status,
    /// A descriptor for epoll or poll, owned by the plugin, the same as long as the worker lives.
    pub wait_fd: extern "C" fn(worker: WorkerHandle, fd: *mut i32) -> Status,

    /// The text of the calling thread's last failure.
    #[sabi(last_prefix_field)]
    pub last_error: extern "C" fn(text: Buffer) -> Status,
}
