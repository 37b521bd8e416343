//! The stable plugin ABI of InfiniCCL.
//!
//! A plugin is a shared library that exports one [`PluginRoot`] through [`declare_plugin!`]. A vendor plugin
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
//! 8. No panic crosses: [`declare_plugin!`] and [`guard`] turn it into [`Status::PANICKED`].
//! 9. A new collective, data type or operator is a new code and a capability row, not a new function.
//! 10. A removed feature keeps its field, returning [`Status::UNSUPPORTED`].
//! 11. Field names (`reserved` included) and the last prefix field never change.
#![allow(non_local_definitions)] // the StableAbi derive expands to one

mod codes;
mod descriptors;
mod net;
mod root;
mod status;
mod vendor;

pub use codes::*;
pub use descriptors::*;
pub use net::*;
pub use root::*;
pub use status::*;
pub use vendor::*;

/// Major version of this ABI; equal on both sides or the plugin is refused.
pub const ABI_MAJOR: u32 = 1;
/// Minor version of this ABI; grows when fields are appended.
pub const ABI_MINOR: u32 = 0;
