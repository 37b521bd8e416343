//! What the plugin says of itself before a worker is opened.

use super::{Way, within};
use infiniccl_plugin_api::{PluginKind, Property, Rows, Status, last_error_text, net_attr};
use std::ptr::{null, null_mut};

fn probe(rows: &[(&str, &str)]) -> (Status, Rows) {
    let list: Vec<Property> = rows
        .iter()
        .map(|(key, value)| Property::new(key, value))
        .collect();
    let mut report = Rows::new();
    let root = crate::plugin_root();
    let status = root.probe()(std::ptr::null(), list.as_ptr(), list.len() as u64, report.sink());
    (status, report)
}

#[test]
fn the_root_says_what_it_is() {
    let root = crate::plugin_root();
    assert_eq!((root.name().as_str(), root.kind()), ("net-tcp", PluginKind::NET));
    assert!(root.vendor().into_option().is_none());
}

#[test]
fn probe_lists_interfaces_and_checks_the_operators_options() {
    let (status, report) = probe(&[("rcvbuf", "1000000")]);
    assert_eq!(status, Status::OK);
    assert!(report.get("reason").unwrap().contains("127.0.0.1"), "{report:?}");
    for wrong in [("streams", "4"), ("sndbuff", "1"), ("sndbuf", "large")] {
        let (status, report) = probe(&[wrong]);
        assert_eq!(status, Status::USAGE, "{wrong:?}");
        let reason = report.get("reason").unwrap();
        assert!(reason.contains(wrong.0) && reason.contains("sndbuf"), "{reason}");
        assert_eq!(last_error_text(), reason);
    }
}

#[test]
fn the_device_has_its_attributes() {
    let table = super::table();
    let mut count = 0;
    assert_eq!((table.device_count()(&mut count), count), (Status::OK, 1));
    let mut rows = Rows::new();
    assert_eq!(table.device_attributes()(0, rows.sink()), Status::OK);
    let row = |key| rows.get(key).unwrap_or_else(|| panic!("no {key}"));
    assert_eq!((row(net_attr::NAME), row(net_attr::TIER)), ("tcp", "tcp"));
    assert_eq!(
        (row(net_attr::WAIT_FD), row(net_attr::NEEDS_REGISTRATION)),
        ("1", "0")
    );
    for key in [net_attr::LATENCY_NS, net_attr::MAX_MESSAGE] {
        assert!(row(key).parse::<u64>().unwrap() > 0, "{key}");
    }
    assert_eq!(table.device_attributes()(1, rows.sink()), Status::USAGE);
}

#[test]
fn null_pointers_are_refused() {
    within(|| {
        let table = super::table();
        assert_eq!(table.device_count()(null_mut()), Status::USAGE);
        assert_eq!(
            table.worker_open()(0, null(), null(), 0, null_mut()),
            Status::USAGE
        );
        let (node, channel, _peer, _) = super::pair(Way::Table, &[]);
        let worker = node.handle;
        assert_eq!(
            table.connect()(worker, null(), 5, null(), null_mut()),
            Status::USAGE
        );
        assert_eq!(table.accept()(worker, null(), &mut 0), Status::USAGE);
        assert_eq!(table.post()(worker, null(), 3, &mut 0), Status::USAGE);
        assert_eq!(table.post()(worker, null(), 0, null_mut()), Status::USAGE);
        assert_eq!(table.poll()(worker, null_mut(), 3, &mut 0), Status::USAGE);
        assert_eq!(table.wait_fd()(worker, null_mut()), Status::USAGE);
        let nowhere = infiniccl_plugin_api::Buffer {
            ptr: null_mut(),
            capacity: 0,
            len: null_mut(),
        };
        assert_eq!(
            table.channel_state()(worker, channel, null_mut(), nowhere),
            Status::USAGE
        );
        assert_eq!(table.listen()(worker, nowhere), Status::TOO_SMALL);
        let mut key = 1;
        assert_eq!(
            table.mem_register()(worker, null_mut(), 0, null(), 0, &mut key),
            Status::OK
        );
        assert_eq!((key, table.mem_deregister()(worker, key)), (0, Status::OK));
        assert_eq!(table.mem_deregister()(worker, 1), Status::USAGE);
        assert_eq!(
            table.mem_register()(worker, null_mut(), 8, null(), 0, &mut key),
            Status::USAGE
        );
    });
}
