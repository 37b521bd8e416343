//! The stable plugin ABI of InfiniCCL.
//!
//! A plugin is a shared library that exports one [`PluginRoot`], made by [`declare_plugin!`], through [`export_plugin!`]. A vendor plugin
//! drives a card and its collective library ([`VendorTable`]); a network plugin carries bytes between ranks
//! ([`NetTable`]). One plugin may offer both.
//!
//! # The promise, and the rules that keep it
//! A plugin built against version 1.x loads, unmodified, in every later 1.y core; one built against a newer
//! 1.y loads in an older core as long as it does not need what that core lacks.
//!
//! 1. The root is frozen.
//! 2. Function tables are prefix types; fields are appended only; what a plugin lacks reads as `None`.
//! 3. Plain-data arguments never change size; each ends in reserved words that are zero until a flag bit gives
//!    them meaning.
//! 4. Enumerations are transparent integers; an unknown code is answered with [`Status::UNSUPPORTED`].
//! 5. Properties are rows `{key, value}`; unknown keys are ignored both ways.
//! 6. Sizes, offsets and counts are `u64`; handles are opaque and owned by their creator.
//! 7. No Rust allocation crosses; strings cross borrowed for the call, or copied into the caller's buffer.
//! 8. No panic crosses: [`guarded!`] and [`guard`] turn it into [`Status::PANICKED`].
//! 9. A new collective, data type or operator is a new code and a capability row, not a new function.
//! 10. A removed feature keeps its field, returning [`Status::UNSUPPORTED`].
//! 11. Field names (`reserved` included) and the last prefix field never change.
//!
//! # How to write a plugin
//! The plugin is an ordinary library crate, so that a program may also link it in. Its exported functions stand
//! in [`guarded!`], its root in [`declare_plugin!`]. Fallible work is best written as a function that returns
//! `Result<_, `[`Failure`]`>`; the exported function turns it into a status and a last error.
//!
//! ```
//! use infiniccl_plugin_api::*;
//!
//! /// What the operating system says.
//! fn loopback_mtu() -> Result<u32, Failure> {
//!     let text = std::fs::read_to_string("/sys/class/net/lo/mtu")
//!         .map_err(|e| Failure::new(Status::UNSUPPORTED, format!("no loopback interface: {e}")))?;
//!     text.trim().parse().map_err(|_| Failure::new(Status::SYSTEM, format!("odd MTU {text:?}")))
//! }
//!
//! guarded! {
//!     extern "C" fn probe(
//!         host: *const HostServices,
//!         options: *const Property,
//!         option_count: u64,
//!         report: PropertySink,
//!     ) -> Status {
//!         // SAFETY: the host lends its services for the life of the process, the options for this call.
//!         let (host, options) = unsafe { (&*host, properties(options, option_count)) };
//!         for (key, value) in options {
//!             host.write_log(LogLevel::DEBUG, "probe", format_args!("option {key} = {value}"));
//!         }
//!         match loopback_mtu() {
//!             Ok(mtu) => report.row("reason", format_args!("loopback with MTU {mtu}")),
//!             Err(failure) => {
//!                 report.row("reason", &failure.text);
//!                 return failure.into();
//!             }
//!         }
//!         Status::OK
//!     }
//!
//!     extern "C" fn device_count(count: *mut u32) -> Status {
//!         // SAFETY: the core gives a place for the result.
//!         unsafe { store(count, 1) }
//!     }
//! }
//! # guarded! {
//! #     extern "C" fn device_attributes(_index: u32, _attributes: PropertySink) -> Status { Status::UNSUPPORTED }
//! #     extern "C" fn worker_open(_i: u32, _h: *const HostServices, _o: *const Property, _n: u64, _w: *mut WorkerHandle) -> Status { Status::UNSUPPORTED }
//! #     extern "C" fn worker_close(_w: WorkerHandle, _t: u64) -> Status { Status::UNSUPPORTED }
//! #     extern "C" fn listen(_w: WorkerHandle, _a: Buffer) -> Status { Status::UNSUPPORTED }
//! #     extern "C" fn connect(_w: WorkerHandle, _a: *const u8, _l: u64, _p: *const ChannelParams, _c: *mut ChannelHandle) -> Status { Status::UNSUPPORTED }
//! #     extern "C" fn accept(_w: WorkerHandle, _p: *const ChannelParams, _c: *mut ChannelHandle) -> Status { Status::UNSUPPORTED }
//! #     extern "C" fn channel_state(_w: WorkerHandle, _c: ChannelHandle, _s: *mut ChannelState, _d: Buffer) -> Status { Status::UNSUPPORTED }
//! #     extern "C" fn channel_abort(_w: WorkerHandle, _c: ChannelHandle) -> Status { Status::UNSUPPORTED }
//! #     extern "C" fn channel_close(_w: WorkerHandle, _c: ChannelHandle, _t: u64) -> Status { Status::UNSUPPORTED }
//! #     extern "C" fn mem_register(_w: WorkerHandle, _p: *mut u8, _l: u64, _r: *const Property, _n: u64, _k: *mut u64) -> Status { Status::UNSUPPORTED }
//! #     extern "C" fn mem_deregister(_w: WorkerHandle, _k: u64) -> Status { Status::UNSUPPORTED }
//! #     extern "C" fn post(_w: WorkerHandle, _r: *const WorkRequest, _n: u64, _a: *mut u64) -> Status { Status::UNSUPPORTED }
//! #     extern "C" fn poll(_w: WorkerHandle, _c: *mut Completion, _n: u64, _k: *mut u64) -> Status { Status::UNSUPPORTED }
//! #     extern "C" fn arm(_w: WorkerHandle) -> Status { Status::UNSUPPORTED }
//! #     extern "C" fn wait_fd(_w: WorkerHandle, _f: *mut i32) -> Status { Status::UNSUPPORTED }
//! # }
//!
//! declare_plugin! {
//!     name: "example",
//!     version: env!("CARGO_PKG_VERSION"),
//!     probe: probe,
//!     net: NetTable {
//!         device_count, // … every other function, written the same way
//! #       device_attributes, worker_open, worker_close, listen, connect, accept, channel_state, channel_abort,
//! #       channel_close, mem_register, mem_deregister, post, poll, arm, wait_fd,
//!         last_error, // comes with this crate
//!     },
//! }
//! # fn main() {
//! #     let root = plugin_root();
//! #     assert_eq!((root.name().as_str(), root.kind()), ("example", PluginKind::NET));
//! #     let mut count = 0;
//! #     assert_eq!(root.net().into_option().unwrap().device_count()(&mut count), Status::OK);
//! #     assert_eq!(count, 1);
//! # }
//! ```
//! The shared library is a second, tiny crate with `crate-type = ["cdylib"]`, whose only line is
//! `infiniccl_plugin_api::export_plugin!(example::plugin_root);`. It must unwind on panic, which is the default.
#![allow(non_local_definitions)] // the StableAbi derive expands to one

mod borrow;
mod codes;
mod declare;
mod descriptors;
mod failure;
mod guard;
pub mod loader;
mod net;
mod root;
mod status;
mod vendor;

pub use borrow::*;
pub use codes::*;
pub use declare::*;
pub use descriptors::*;
pub use failure::*;
pub use guard::*;
pub use net::*;
pub use root::*;
pub use status::*;
pub use vendor::*;

/// Major version of this ABI; equal on both sides or the plugin is refused.
pub const ABI_MAJOR: u32 = 1;
/// Minor version of this ABI; grows when fields are appended.
pub const ABI_MINOR: u32 = 0;
