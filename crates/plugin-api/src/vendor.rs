//! The table of a vendor plugin: device, memory, streams, local compute, and the vendor's collectives.
//!
//! Every function may be called from any thread unless it says otherwise, returns a [`Status`], and writes its
//! result through the last pointers. Handles are chosen by the plugin; zero is never a valid handle.

use crate::{
    Buffer, Callback, CapRow, CollDesc, CopyDesc, HostServices, MemInfo, MemKind, Property, PropertySink,
    ReduceDesc, ScaleDesc, Status,
};
use abi_stable::StableAbi;
use std::ffi::c_void;

/// An opened device.
pub type DeviceHandle = u64;
/// A stream of a device; zero is the device's default stream.
pub type StreamHandle = u64;
/// An event of a device.
pub type EventHandle = u64;
/// A communicator of the vendor's collective library.
pub type CommHandle = u64;

/// Flags of [`VendorTable::stream_create`].
pub mod stream_flags {
    /// The core is the only user and polls: work of the stream may advance only inside `event_query` and
    /// `event_synchronize` of the thread that calls them, so that no thread of the plugin is needed.
    pub const POLLED: u64 = 1;
}

/// Keys of the rows that [`VendorTable::device_attributes`] puts.
pub mod device_attr {
    /// Human-readable model.
    pub const NAME: &str = "name";
    /// PCI bus id or another stable position in the node.
    pub const BUS_ID: &str = "bus_id";
    /// NUMA node number, decimal; absent: unknown.
    pub const NUMA: &str = "numa";
    /// Stable identity of the device across processes of a node.
    pub const UUID: &str = "uuid";
    /// Architecture name.
    pub const ARCH: &str = "arch";
    /// Bytes of device memory, decimal.
    pub const MEMORY: &str = "memory_bytes";
    /// Ranks whose devices give the same text, on the same node, may form one island.
    pub const ISLAND: &str = "island";
    /// Name and version of the arithmetic: ranks with equal text compute equal bytes from equal inputs.
    pub const ARITHMETIC: &str = "arithmetic";
    /// `1`: the application's pointers may be read and written by the host directly.
    pub const HOST_ACCESS: &str = "host_access";
    /// `1`: `stream_hold` works; `0`: stream-ordered calls block their caller.
    pub const HOLD: &str = "hold";
}

/// Functions of a vendor plugin.
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = VendorTableRef)))]
#[sabi(missing_field(option))]
pub struct VendorTable {
    /// Number of devices that can be opened.
    pub device_count: extern "C" fn(count: *mut u32) -> Status,
    /// Puts the rows of [`device_attr`] for device `index`; needs no open device.
    pub device_attributes: extern "C" fn(index: u32, attributes: PropertySink) -> Status,
    /// Opens device `index`; may take seconds; `options` are those of the configuration.
    pub device_open: extern "C" fn(
        index: u32,
        host: *const HostServices,
        options: *const Property,
        option_count: u64,
        device: *mut DeviceHandle,
    ) -> Status,
    /// Closes a device; everything that was made with it must be gone.
    pub device_close: extern "C" fn(device: DeviceHandle) -> Status,

    /// Allocates `bytes` of memory, aligned to at least 256 bytes.
    pub mem_alloc:
        extern "C" fn(device: DeviceHandle, kind: MemKind, bytes: u64, ptr: *mut *mut u8) -> Status,
    /// Frees memory of `mem_alloc`.
    pub mem_free: extern "C" fn(device: DeviceHandle, kind: MemKind, ptr: *mut u8) -> Status,
    /// Tells what a pointer is.
    pub mem_classify: extern "C" fn(device: DeviceHandle, ptr: *const u8, info: *mut MemInfo) -> Status,

    /// Takes a native stream of the application into use; the application keeps owning it.
    pub stream_adopt:
        extern "C" fn(device: DeviceHandle, native: *mut c_void, stream: *mut StreamHandle) -> Status,
    /// Creates a stream; `flags` from [`stream_flags`].
    pub stream_create: extern "C" fn(device: DeviceHandle, flags: u64, stream: *mut StreamHandle) -> Status,
    /// Destroys a created stream, or forgets an adopted one; its work must have ended.
    pub stream_destroy: extern "C" fn(device: DeviceHandle, stream: StreamHandle) -> Status,
    /// Creates an event.
    pub event_create: extern "C" fn(device: DeviceHandle, event: *mut EventHandle) -> Status,
    /// The event now stands for all work that was given to the stream before this call.
    pub event_record: extern "C" fn(device: DeviceHandle, event: EventHandle, stream: StreamHandle) -> Status,
    /// Later work of the stream waits for the event; the host does not.
    pub event_wait: extern "C" fn(device: DeviceHandle, event: EventHandle, stream: StreamHandle) -> Status,
    /// OK when the event's work is done, IN_PROGRESS when not, else the error of the work. Never blocks.
    pub event_query: extern "C" fn(device: DeviceHandle, event: EventHandle) -> Status,
    /// Blocks the host until the event's work is done or `timeout_ns` passed (IN_PROGRESS).
    pub event_synchronize: extern "C" fn(device: DeviceHandle, event: EventHandle, timeout_ns: u64) -> Status,
    /// Destroys an event.
    pub event_destroy: extern "C" fn(device: DeviceHandle, event: EventHandle) -> Status,

    /// Starts `count` copies in stream order.
    pub copy: extern "C" fn(
        device: DeviceHandle,
        stream: StreamHandle,
        copies: *const CopyDesc,
        count: u64,
    ) -> Status,
    /// Starts `count` element-wise reductions in stream order; rows LOCAL_REDUCE say what is possible.
    pub reduce: extern "C" fn(
        device: DeviceHandle,
        stream: StreamHandle,
        reductions: *const ReduceDesc,
        count: u64,
    ) -> Status,
    /// Starts `count` scalings in stream order; rows LOCAL_SCALE say what is possible.
    pub scale: extern "C" fn(
        device: DeviceHandle,
        stream: StreamHandle,
        scalings: *const ScaleDesc,
        count: u64,
    ) -> Status,

    /// Calls the callback once when the stream gets there; the callback never blocks.
    pub stream_notify:
        extern "C" fn(device: DeviceHandle, stream: StreamHandle, callback: Callback) -> Status,
    /// Later work of the stream waits until `stream_release` is called with the token.
    pub stream_hold: extern "C" fn(device: DeviceHandle, stream: StreamHandle, token: *mut u64) -> Status,
    /// Lets a held stream go on; from any thread.
    pub stream_release: extern "C" fn(device: DeviceHandle, token: u64) -> Status,

    /// Makes the id of a new communicator, at most 8 KiB; the core carries it to the other ranks.
    pub comm_unique_id: extern "C" fn(device: DeviceHandle, id: Buffer) -> Status,
    /// Joins a communicator; blocks until all ranks joined or `timeout_ns` passed. `properties` has rows such as
    /// `job` (a text equal on all ranks), for names and messages.
    pub comm_init: extern "C" fn(
        device: DeviceHandle,
        id: *const u8,
        id_len: u64,
        rank: u32,
        size: u32,
        timeout_ns: u64,
        properties: *const Property,
        property_count: u64,
        comm: *mut CommHandle,
    ) -> Status,
    /// Copies at most `capacity` capability rows and stores how many there are.
    pub comm_caps:
        extern "C" fn(comm: CommHandle, rows: *mut CapRow, capacity: u64, count: *mut u64) -> Status,
    /// Gives `count` collectives to the stream; more than one form a group, whose members are concurrent.
    /// On stream zero of a host device the call returns when the work is done.
    pub enqueue: extern "C" fn(
        comm: CommHandle,
        collectives: *const CollDesc,
        count: u64,
        stream: StreamHandle,
    ) -> Status,
    /// The first error that the communicator met, else OK.
    pub comm_async_error: extern "C" fn(comm: CommHandle) -> Status,
    /// Ends all work of the communicator with ABORTED; from any thread, returns fast, needs no living peer.
    pub comm_abort: extern "C" fn(comm: CommHandle) -> Status,
    /// Frees a communicator; needs no peer.
    pub comm_destroy: extern "C" fn(comm: CommHandle) -> Status,

    /// The text of the calling thread's last failure; the core asks only after a failure.
    #[sabi(last_prefix_field)]
    pub last_error: extern "C" fn(text: Buffer) -> Status,
}
