//! The root of a plugin, which is frozen, and the services that the host gives to it.

use crate::{LogLevel, NetTableRef, Property, PropertySink, Status, Str, VendorTableRef};
use abi_stable::StableAbi;
use abi_stable::library::RootModule;
use abi_stable::package_version_strings;
use abi_stable::sabi_types::VersionStrings;
use abi_stable::std_types::{ROption, RStr};
use std::ffi::c_void;
use std::fmt;

/// What a plugin offers; bits may be combined.
#[repr(transparent)]
#[derive(StableAbi, Debug, Clone, Copy, PartialEq, Eq)]
pub struct PluginKind(pub u32);

impl PluginKind {
    /// A device and perhaps its collective library: `vendor` is there.
    pub const VENDOR: PluginKind = PluginKind(1);
    /// Channels between ranks: `net` is there.
    pub const NET: PluginKind = PluginKind(2);

    /// Whether all bits of `other` are set.
    pub const fn contains(self, other: PluginKind) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Services of the host, valid as long as the process lives.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct HostServices {
    /// Passed back as the first argument of each function.
    pub context: *mut c_void,
    /// Writes one log line under the plugin's name.
    pub log: extern "C" fn(context: *mut c_void, level: LogLevel, target: Str, message: Str),
    /// Monotonic time in ns.
    pub now: extern "C" fn(context: *mut c_void) -> u64,
    /// Whether the process is shutting communicators down, so that waits should end; 1 or 0.
    pub is_aborting: extern "C" fn(context: *mut c_void) -> u32,
    /// Zero.
    pub reserved: [u64; 4],
}

// SAFETY: the host promises functions that may be called from any thread, for as long as the process lives.
unsafe impl Send for HostServices {}
// SAFETY: as above.
unsafe impl Sync for HostServices {}

/// The root of a plugin.
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = PluginRootRef)))]
#[sabi(missing_field(panic))]
pub struct PluginRoot {
    /// [`crate::ABI_MAJOR`] of the plugin-api that the plugin was built with.
    pub abi_major: u32,
    /// [`crate::ABI_MINOR`] of the plugin-api that the plugin was built with.
    pub abi_minor: u32,
    /// What the plugin offers.
    pub kind: PluginKind,
    /// Short name, such as `host` or `net-tcp`; what configuration and reports use.
    pub name: RStr<'static>,
    /// Version of the plugin.
    pub version: RStr<'static>,
    /// How it was built: compiler, target, features; free text.
    pub build: RStr<'static>,
    /// Looks for library and devices; cheap, never blocks. Puts at least the row `reason` (why it can or cannot
    /// work here) and, where there is one, `library` (path and version of the vendor's library).
    /// OK: usable. UNSUPPORTED: not on this machine.
    pub probe: extern "C" fn(
        host: *const HostServices,
        options: *const Property,
        option_count: u64,
        report: PropertySink,
    ) -> Status,
    /// The device side, if the plugin has one.
    pub vendor: ROption<VendorTableRef>,
    /// The network side, if the plugin has one.
    #[sabi(last_prefix_field)]
    pub net: ROption<NetTableRef>,
}

impl fmt::Debug for PluginRootRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PluginRoot")
            .field("name", &self.name())
            .field("version", &self.version())
            .field("kind", &self.kind())
            .field("abi", &format_args!("{}.{}", self.abi_major(), self.abi_minor()))
            .finish_non_exhaustive()
    }
}

impl RootModule for PluginRootRef {
    abi_stable::declare_root_module_statics! {PluginRootRef}
    const BASE_NAME: &'static str = "infiniccl_plugin";
    const NAME: &'static str = "infiniccl_plugin";
    const VERSION_STRINGS: VersionStrings = package_version_strings!();
}
