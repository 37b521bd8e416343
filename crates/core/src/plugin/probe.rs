//! Asks a loaded plugin what it finds on this machine, on a thread of its own, so that a hang costs only that.

use super::found::last_words;
use super::host::{self, line};
use super::listing::PluginOptions;
use super::report::PluginStatus;
use infiniccl_plugin_api::{HostServices, PluginRootRef, Property, Rows, Status};
use std::sync::mpsc;
use std::time::Duration;

/// What a probe found.
#[derive(Debug)]
pub(super) struct Probed {
    pub(super) status: PluginStatus,
    pub(super) reason: String,
    pub(super) library: String,
    pub(super) devices: Option<u32>,
}

impl Probed {
    fn refused(reason: String) -> Self {
        Probed {
            status: PluginStatus::Refused,
            reason,
            library: String::new(),
            devices: None,
        }
    }
}

/// Probes the plugin that is called `name`, and gives up after `limit`.
pub(super) fn probe(name: &str, root: PluginRootRef, options: &PluginOptions, limit: Duration) -> Probed {
    let (answer, answered) = mpsc::channel();
    let (services, options) = (host::services(name), options.clone());
    let thread = std::thread::Builder::new().name(format!("probe {name}"));
    let started = thread.spawn(move || {
        // Nobody waits any more when the limit passed.
        let _ = answer.send(ask(root, services, &options));
    });
    let thread = match started {
        Ok(thread) => thread,
        Err(e) => return Probed::refused(format!("no thread for its probe: {e}")),
    };
    match answered.recv_timeout(limit) {
        Ok(probed) => {
            let _ = thread.join();
            probed
        }
        Err(mpsc::RecvTimeoutError::Timeout) => Probed::refused(format!(
            "its probe did not end within {} s, it is left alone",
            limit.as_secs_f64()
        )),
        Err(mpsc::RecvTimeoutError::Disconnected) => Probed::refused("its probe panicked".to_owned()),
    }
}

fn ask(root: PluginRootRef, services: &HostServices, options: &PluginOptions) -> Probed {
    let rows: Vec<Property> = options
        .0
        .iter()
        .map(|(key, value)| Property::new(key, value))
        .collect();
    let mut report = Rows::new();
    let status = (root.probe())(services, rows.as_ptr(), rows.len() as u64, report.sink());
    let words = || {
        let vendor = root.vendor().into_option().map(|table| table.last_error());
        let net = root.net().into_option().map(|table| table.last_error());
        vendor.or(net).map(last_words).unwrap_or_default()
    };
    let library = report.get("library").map(line).unwrap_or_default();
    let mut reason = report.get("reason").map(line).unwrap_or_default();
    if !status.is_ok() {
        let unavailable = (400..500).contains(&status.0);
        if reason.is_empty() || !unavailable {
            let words = words();
            reason = match (words.is_empty(), reason.is_empty()) {
                (true, true) => "its probe failed without a reason".to_owned(),
                (true, false) => reason,
                (false, _) => words,
            };
        }
        let outcome = if unavailable {
            PluginStatus::Unavailable
        } else {
            PluginStatus::Refused
        };
        if !unavailable {
            reason = format!("its probe failed ({}): {reason}", status.name());
        }
        return Probed {
            status: outcome,
            reason,
            library,
            devices: None,
        };
    }
    match count(root) {
        Ok(devices) => Probed {
            status: PluginStatus::Loaded,
            reason,
            library,
            devices: Some(devices),
        },
        Err(status) => Probed {
            library,
            ..Probed::refused(format!(
                "its device_count failed ({}): {}",
                status.name(),
                words()
            ))
        },
    }
}

fn count(root: PluginRootRef) -> Result<u32, Status> {
    let mut count = 0;
    let vendor = root.vendor().into_option().map(|table| table.device_count());
    let net = root.net().into_option().map(|table| table.device_count());
    match vendor
        .or(net)
        .map_or(Status::OK, |device_count| device_count(&mut count))
    {
        Status::OK => Ok(count),
        failed => Err(failed),
    }
}
