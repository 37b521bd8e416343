//! Memory registration: sockets take any host memory, so there is nothing to do.

use crate::error::{Failure, Result, usage};
use infiniccl_plugin_api::Status;

/// The key of any host memory.
pub(crate) const NO_KEY: u64 = 0;

/// Accepts host memory as it is.
pub(crate) fn register(ptr: *const u8, len: u64) -> Result<u64> {
    match ptr.is_null() && len > 0 {
        true => Err(usage(format!(
            "{len} bytes at a null address cannot be registered"
        ))),
        false => Ok(NO_KEY),
    }
}

/// Undoes what `register` did.
pub(crate) fn deregister(key: u64) -> Result<()> {
    match key {
        NO_KEY => Ok(()),
        _ => Err(Failure {
            status: Status::USAGE,
            text: format!("{key:#x} is no key of net-tcp"),
        }),
    }
}
