//! What the device is said to be able to do: the rows of its attributes.

use crate::interfaces::Interface;
use infiniccl_plugin_api::net_attr;
use std::fs;

/// Half a round trip of a small message between two nodes in ns, from which costs start; measured over veth.
const LATENCY_NS: u64 = 8000;

/// The rows for a host with these interfaces.
pub(crate) fn rows(interfaces: &[Interface]) -> Vec<(&'static str, String)> {
    let mut rows = vec![
        (net_attr::NAME, "tcp".to_owned()),
        (net_attr::TIER, "tcp".to_owned()),
        (net_attr::LATENCY_NS, LATENCY_NS.to_string()),
        (net_attr::NEEDS_REGISTRATION, "0".to_owned()),
        (net_attr::WAIT_FD, "1".to_owned()),
        (net_attr::MAX_MESSAGE, crate::wire::MAX_MESSAGE.to_string()),
    ];
    let fastest = interfaces
        .iter()
        .filter(|interface| !interface.loopback)
        .filter_map(bandwidth)
        .max();
    if let Some(bytes) = fastest {
        rows.push((net_attr::BANDWIDTH, bytes.to_string()));
    }
    rows
}

/// Bytes per second of an interface, if its driver tells.
fn bandwidth(interface: &Interface) -> Option<u64> {
    let text = fs::read_to_string(format!("/sys/class/net/{}/speed", interface.name)).ok()?;
    megabits(&text)
}

/// The file has Mbit/s; drivers that do not know write -1 or 2^32 - 1, or refuse to be read.
fn megabits(text: &str) -> Option<u64> {
    match text.trim().parse::<u64>() {
        Ok(0) | Err(_) => None,
        Ok(speed) if speed >= u64::from(u32::MAX) => None,
        Ok(speed) => Some(speed * 1_000_000 / 8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_that_are_none_are_left_out() {
        assert_eq!(megabits("10000\n"), Some(1_250_000_000));
        for text in ["-1\n", "4294967295", "0", "", "fast"] {
            assert_eq!(megabits(text), None, "{text}");
        }
    }
}
