//! Log lines, through the host's service.

use infiniccl_plugin_api::{HostServices, LogLevel};
use std::fmt;

/// Where log lines go; without a host, nowhere.
#[derive(Clone, Copy, Default)]
pub(crate) struct Log(Option<HostServices>);

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Log").field(&self.0.is_some()).finish()
    }
}

impl Log {
    /// Lines for `host`.
    pub(crate) fn new(host: Option<HostServices>) -> Self {
        Self(host)
    }

    /// Writes one line.
    pub(crate) fn line(&self, level: LogLevel, message: fmt::Arguments<'_>) {
        if let Some(host) = &self.0 {
            host.write_log(level, "net-tcp", message);
        }
    }
}
