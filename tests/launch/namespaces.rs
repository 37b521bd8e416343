//! Nodes with awkward networks, as namespaces; they need root.

use std::process::Command;

use infiniccl_testkit::cluster::{Cluster, ClusterSpec, Family, Layout, Namespaces, Order};
use infiniccl_tests::{Ended, Ranks, now_ms};

use crate::RANK;

fn nodes(spec: &str, family: Family) -> (Cluster, Layout) {
    let layout = Layout::parse(spec, Order::Interleaved).expect("a layout");
    let spec = ClusterSpec {
        nodes: layout.nodes(),
        namespaces: Namespaces::Always,
        family,
        rate: None,
    };
    (Cluster::build(&spec).expect("namespaces"), layout)
}

/// Runs a shell script inside a node.
fn in_node(cluster: &Cluster, node: usize, script: &str) {
    let run = || Command::new("sh").args(["-ec", script]).output();
    let output = cluster.in_node(node, run).expect("the node can be entered");
    let output = output.expect("sh starts");
    assert!(
        output.status.success(),
        "{script}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// A rank that is told neither interface nor node, and finds out for itself.
fn unaided(scenario: &[&str]) -> Command {
    let mut command = Command::new("env");
    command
        .args(["-u", "INFINICCL_INTERFACE", "-u", "INFINICCL_NODE", RANK])
        .args(scenario);
    command
}

#[test]
fn bridges_with_one_address_on_both_nodes_are_no_trap_in_namespaces() {
    let (cluster, layout) = nodes("2+1", Family::V4);
    for node in 0..2 {
        in_node(
            &cluster,
            node,
            "ip link add docker0 type bridge; ip addr add 172.17.0.1/16 dev docker0; ip link set docker0 up
             ip link add virbr0 type bridge; ip addr add 192.168.122.1/24 dev virbr0; ip link set virbr0 up",
        );
    }
    Ranks::start_each(&cluster, &layout, |_| unaided(&["sum"]))
        .wait()
        .all_succeeded();
}

#[test]
fn a_host_name_that_leads_to_loopback_is_no_trap_in_namespaces() {
    let (cluster, layout) = nodes("1+2", Family::V4);
    let folder = tempfile::tempdir().expect("a folder");
    let names: Vec<&str> = cluster.nodes().iter().map(|node| node.name.as_str()).collect();
    for (node, own) in names.iter().enumerate() {
        // As Debian has it: a host knows itself by 127.0.1.1, and the others by their addresses.
        let mut hosts = format!("127.0.0.1 localhost\n127.0.1.1 {own}\n");
        for (other, name) in names.iter().enumerate().filter(|(other, _)| *other != node) {
            hosts += &format!("{} {name}\n", cluster.nodes()[other].address);
        }
        let file = folder.path().join(format!("hosts{node}"));
        std::fs::write(&file, hosts).expect("the file can be written");
        in_node(
            &cluster,
            node,
            &format!("mount --bind {} /etc/hosts", file.display()),
        );
    }
    let root = format!(
        "export INFINICCL_ROOT={}:${{INFINICCL_ROOT##*:}}; exec {RANK} sum",
        names[0]
    );
    Ranks::start_each(&cluster, &layout, |_| {
        let mut command = Command::new("env");
        command.args([
            "-u",
            "INFINICCL_INTERFACE",
            "-u",
            "INFINICCL_NODE",
            "sh",
            "-c",
            &root,
        ]);
        command
    })
    .wait()
    .all_succeeded();
}

#[test]
fn nodes_with_nothing_but_ipv6_work_in_namespaces() {
    let (cluster, layout) = nodes("2+1", Family::V6);
    Ranks::start(&cluster, &layout, RANK, &["sum"])
        .wait()
        .all_succeeded();
    Ranks::start_each(&cluster, &layout, |_| unaided(&["sum"]))
        .wait()
        .all_succeeded();
}

/// Every rank refuses the selector with an error that names each of `parts`.
fn refused(cluster: &Cluster, layout: &Layout, selector: &str, parts: &[&str]) {
    let ended = Ranks::start_each(cluster, layout, |_| {
        let mut command = Command::new("env");
        let set = format!("INFINICCL_INTERFACE={selector}");
        command.args([&set, RANK, "--set", "timeouts.connect=3", "sum"]);
        command
    })
    .wait();
    let told = (0..layout.ranks())
        .flat_map(|rank| ended.events(rank, "error"))
        .any(|error| parts.iter().all(|part| error.text("text").contains(part)));
    assert!(
        told,
        "`{selector}`: not all of {parts:?} are in\n{}",
        ended.report()
    );
    assert!(
        (0..layout.ranks()).all(|rank| !ended.exit(rank).is_success()),
        "`{selector}` is refused\n{}",
        ended.report()
    );
}

#[test]
fn the_grammar_of_interfaces_in_namespaces() {
    let (cluster, layout) = nodes("1+1", Family::V4);
    for node in 0..2 {
        in_node(
            &cluster,
            node,
            "ip link add eth1 type veth peer name spare; ip addr add 10.77.0.1/24 dev eth1
             ip link add docker0 type bridge; ip addr add 172.17.0.1/16 dev docker0; ip link set docker0 up",
        );
    }
    let address = cluster.nodes()[0].address.to_string();
    for selector in ["eth0", "10.83.0.0/24", "^docker0", "eth0,eth9", "eth*"] {
        let ended = Ranks::start_each(&cluster, &layout, |_| {
            let mut command = Command::new("env");
            let set = format!("INFINICCL_INTERFACE={selector}");
            command.args([&set, RANK, "sum"]);
            command
        })
        .wait();
        ended.all_succeeded();
    }
    refused(
        &cluster,
        &layout,
        "nope",
        &["nope", "eth0", &address, "docker0", "172.17.0.1", "lo"],
    );
    refused(&cluster, &layout, "eth1", &["eth1 10.77.0.1", "down", "eth0"]);
}

fn cut_off(ended: &Ended, ranks: &[usize], others: &[usize], since: u64) {
    for rank in ranks {
        let error = &ended.events(*rank, "error")[0];
        assert!(matches!(error.text("kind"), "Remote" | "Timeout"), "{error:?}");
        let named: usize = error.text("rank").parse().expect("a rank");
        let known = others.contains(&named);
        assert!(known, "rank {rank} names a rank of the other node: {error:?}");
        let took = error.number("at") - since;
        // The heartbeat limit of 2 s, 2 s for the news, and what a busy machine adds.
        assert!(took < 6000, "rank {rank} heard of it after {took} ms: {error:?}");
        assert!(error.text("text").contains("uint64 sum"), "{error:?}");
        ended.event(*rank, "aftermath");
    }
}

#[test]
fn a_cable_pulled_in_mid_collective_ends_both_sides_in_namespaces() {
    let (cluster, layout) = nodes("2+2", Family::V4);
    let arguments = ["--set", "timeouts.heartbeat=2", "loop", "bytes=33554432"];
    let ranks = Ranks::start(&cluster, &layout, RANK, &arguments);
    for rank in 0..4 {
        ranks.event_that(rank, "call", |call| call.number("n") == 1);
    }
    let since = now_ms();
    in_node(&cluster, 1, "ip link set eth0 down");
    let ended = ranks.wait();
    // Interleaved: ranks 0 and 2 are on the first node.
    cut_off(&ended, &[0, 2], &[1, 3], since);
    cut_off(&ended, &[1, 3], &[0, 2], since);
}

#[test]
fn hosts_of_one_name_are_two_hosts_in_namespaces() {
    let (cluster, layout) = nodes("2+2", Family::V4);
    for node in 0..2 {
        in_node(&cluster, node, "hostname localhost.localdomain");
    }
    let ended = Ranks::start_each(&cluster, &layout, |_| unaided(&["paths"])).wait();
    ended.all_succeeded();
    for rank in 0..4 {
        let paths = ended.event(rank, "paths");
        assert_eq!(paths.text("islands"), "0,2|1,3", "{paths:?}");
        let other_node = paths.text(&format!("peer{}", (rank + 1) % 4));
        assert!(other_node.contains("tcp"), "{paths:?}");
    }
}

#[test]
fn containers_of_one_host_that_share_its_memory_are_one_host_in_namespaces() {
    let cluster = Cluster::this_machine();
    let layout = Layout::one_node(2).expect("a layout");
    let ended = Ranks::start_each(&cluster, &layout, |rank| {
        let script = format!("hostname box{rank}.example; exec {RANK} paths");
        let mut command = Command::new("unshare");
        command.args(["--uts", "sh", "-ec", &script]);
        command
    })
    .wait();
    ended.all_succeeded();
    for rank in 0..2 {
        let paths = ended.event(rank, "paths");
        assert_eq!(paths.text("islands"), "0,1", "{paths:?}");
    }
}
