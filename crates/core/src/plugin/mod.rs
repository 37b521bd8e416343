//! Plugins: found and checked once ([`Registry`]), then called through plain tables ([`VendorPlugin`],
//! [`NetPlugin`]).

mod builtin;
#[cfg(test)]
mod fake;
mod found;
mod host;
mod listing;
mod net;
mod probe;
mod registry;
mod report;
mod status;
mod trust;
mod vendor;

pub use builtin::Builtin;
pub use found::PluginInfo;
pub use host::set_aborting;
pub use infiniccl_plugin_api::PluginKind;
pub use listing::{Listing, PluginOptions};
pub use net::NetPlugin;
pub use registry::Registry;
pub use report::{PluginRow, PluginStatus};
pub use vendor::VendorPlugin;
