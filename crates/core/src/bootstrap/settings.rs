//! What the operator decides about the control plane.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::config::{Config, InterfaceSelector};

/// Settings of bootstrap and control plane, from the configuration.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// How long the forming of a communicator may take (`timeouts.connect`).
    pub(crate) connect: Duration,
    /// After how long a silent peer counts as lost (`timeouts.heartbeat`).
    pub(crate) heartbeat: Duration,
    /// Ports that listeners may use; any, when there is none (`network.port_range`).
    pub(crate) port_range: Option<RangeInclusive<u16>>,
    /// Which interfaces other ranks may be told about.
    pub(crate) interfaces: InterfaceSelector,
    /// Sets the ranks of one machine apart as different nodes (`INFINICCL_NODE`).
    pub(crate) node_label: Option<String>,
    /// How long a link may be idle before the kernel probes it; never, when it is zero (`network.keepalive`).
    pub(crate) keepalive: Duration,
}

impl Settings {
    /// The settings that `config` holds.
    pub(crate) fn from_config(config: &Config) -> Self {
        Settings {
            connect: config.timeouts.connect,
            heartbeat: config.timeouts.heartbeat,
            port_range: config
                .network
                .port_range
                .bounds()
                .map(|(first, last)| first..=last),
            interfaces: config.network.selector(),
            node_label: config.job.node.clone(),
            keepalive: config.network.keepalive,
        }
    }
}
