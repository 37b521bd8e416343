//! What the host offers to a worker: log lines, and the word that it is time to go.

use infiniccl_plugin_api::{HostServices, LogLevel};
use std::fmt;

/// The host's services; without a host, lines go nowhere.
#[derive(Clone, Copy, Default)]
pub(crate) struct Host(Option<HostServices>);

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Host").field(&self.0.is_some()).finish()
    }
}

impl Host {
    /// The services of `host`.
    pub(crate) fn new(host: Option<HostServices>) -> Self {
        Self(host)
    }

    /// Whether waits should end, since the process is shutting its communicators down.
    pub(crate) fn aborting(&self) -> bool {
        self.0.as_ref().is_some_and(HostServices::aborting)
    }

    /// Writes one line.
    pub(crate) fn line(&self, level: LogLevel, message: fmt::Arguments<'_>) {
        if let Some(host) = &self.0 {
            host.write_log(level, "net-tcp", message);
        }
    }
}
