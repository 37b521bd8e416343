//! Ranks whose system calls are interrupted all the time, and many ranks that arrive at once.

use std::process::Command;

use infiniccl_tests::{Ranks, cluster};

use crate::RANK;

#[test]
fn a_signal_every_millisecond_interrupts_nothing() {
    // From before the ranks meet until the end, over shared memory, TCP, and both.
    for nodes in ["3", "1+1", "2+1"] {
        let (cluster, layout) = cluster(nodes);
        Ranks::start(&cluster, &layout, RANK, &["alarm"])
            .wait()
            .all_succeeded();
    }
}

#[test]
fn many_ranks_that_arrive_at_once_before_their_root_all_get_in_a_namespace() {
    // Few ports, a short queue of connections, few descriptors; and the root comes last.
    let (cluster, layout) = cluster("32");
    let limits = || {
        std::fs::write("/proc/sys/net/core/somaxconn", "8")?;
        std::fs::write("/proc/sys/net/ipv4/ip_local_port_range", "40000 40199")
    };
    let set = cluster.in_node(0, limits).expect("the node can be entered");
    if cluster.has_namespaces() {
        set.expect("a namespace has limits of its own");
    }
    let script = format!("[ $RANK = 0 ] && sleep 2; ulimit -n 256; exec {RANK} sum");
    Ranks::start_each(&cluster, &layout, |_| {
        let mut command = Command::new("sh");
        command.args(["-c", &script]);
        command
    })
    .wait()
    .all_succeeded();
}
