//! `/dev/shm` as containers have it: small, full, read-only, or not there.

use std::process::Command;

use infiniccl_testkit::cluster::{Cluster, ClusterSpec, Layout, Namespaces};
use infiniccl_tests::Ranks;

use crate::RANK;

#[test]
fn any_state_of_shared_memory_in_a_namespace_gives_right_results() {
    let states = [
        ("64 MB", "mount -o remount,size=64m /dev/shm"),
        ("1 MB", "mount -o remount,size=1m /dev/shm"),
        (
            "full",
            "mount -o remount,size=256k /dev/shm; dd if=/dev/zero of=/dev/shm/full bs=4k count=64 2>/dev/null",
        ),
        ("read-only", "mount -o remount,ro /dev/shm"),
        (
            "absent",
            "mount -t tmpfs none /dev; mknod -m 666 /dev/null c 1 3; mknod -m 666 /dev/urandom c 1 9",
        ),
    ];
    for (state, script) in states {
        let spec = ClusterSpec {
            nodes: 1,
            namespaces: Namespaces::Always,
            ..Default::default()
        };
        let (cluster, layout) = (
            Cluster::build(&spec).expect("namespaces"),
            Layout::one_node(4).expect("a layout"),
        );
        let prepare = || Command::new("sh").args(["-ec", script]).output();
        let output = cluster.in_node(0, prepare).expect("the node can be entered");
        let output = output.expect("sh starts");
        assert!(output.status.success(), "{state}: {output:?}");
        let ended = Ranks::start(&cluster, &layout, RANK, &["sum"]).wait();
        assert!(
            (0..4).all(|rank| ended.exit(rank).is_success()),
            "{state}:\n{}",
            ended.report()
        );
    }
}
