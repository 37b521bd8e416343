//! The one device: the TCP of this host; and whether it is of any use.

use crate::caps;
use crate::error::{Failure, Result, system, usage};
use crate::interfaces;
use crate::options;
use infiniccl_plugin_api::Status;

/// How many devices there are.
pub(crate) const COUNT: u32 = 1;

/// Whether `index` is a device.
pub(crate) fn check(index: u32) -> Result<()> {
    match index < COUNT {
        true => Ok(()),
        false => Err(usage(format!(
            "net-tcp has {COUNT} device; there is no device {index}"
        ))),
    }
}

/// The attributes of device `index`.
pub(crate) fn attributes(index: u32) -> Result<Vec<(&'static str, String)>> {
    check(index)?;
    Ok(caps::rows(&interfaces().unwrap_or_default()))
}

/// Checks the operator's options and says what there is to work with.
pub(crate) fn probe<'a>(rows: impl Iterator<Item = (&'a str, &'a str)>) -> Result<String> {
    options::check(rows)?;
    let listed: Vec<String> = interfaces()?
        .iter()
        .map(|interface| format!("{} {}", interface.name, interface.ip))
        .collect();
    match listed.is_empty() {
        true => Err(Failure::new(
            Status::UNSUPPORTED,
            "no network interface is up, not even loopback",
        )),
        false => Ok(format!("TCP over {}", listed.join(", "))),
    }
}

fn interfaces() -> Result<Vec<interfaces::Interface>> {
    interfaces::list().map_err(|error| system("cannot list the network interfaces of this host", error))
}
