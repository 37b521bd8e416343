//! Where the ranks of a job listen.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, TcpListener};

use infiniccl_testkit::cluster::{Cluster, Layout};
use infiniccl_tests::{Ranks, Traces, by_hand, cluster, run_one};

use crate::{LIMIT, RANK};

/// The addresses where each rank of a job listens once it works, with their ranks.
fn listening(cluster: &Cluster, layout: &Layout, settings: &[&str]) -> Vec<SocketAddr> {
    let folder = tempfile::tempdir().expect("a folder");
    let stop = folder.path().join("stop");
    let until = format!("until={}", stop.display());
    let arguments = [settings, &["loop", "bytes=80000", &until]].concat();
    let ranks = Ranks::start(cluster, layout, RANK, &arguments);
    ranks.all_say("call");
    let traces = Traces::of(&ranks);
    let found = traces.listeners().map(|l| l.address).collect();
    std::fs::write(&stop, "").expect("the file can be written");
    let ended = ranks.wait();
    ended.all_succeeded();
    traces.are_gone(cluster, layout, &ended);
    found
}

#[test]
fn nobody_listens_on_all_interfaces() {
    // Told nothing, told to stay on this machine, and told the interface between nodes.
    let here = Cluster::this_machine();
    let alone = Layout::one_node(3).expect("a layout");
    let found = listening(&here, &alone, &[]);
    assert!(found.iter().all(|a| !a.ip().is_unspecified()), "{found:?}");
    let found = listening(&here, &alone, &["--set", "network.interfaces=lo"]);
    assert!(found.iter().all(|a| a.ip().is_loopback()), "{found:?}");
    let (cluster, layout) = cluster("2+1");
    let found = listening(&cluster, &layout, &["--set", "network.address_family=ipv4"]);
    let allowed: BTreeSet<IpAddr> = cluster.nodes().iter().map(|node| node.address).collect();
    assert!(found.iter().all(|a| allowed.contains(&a.ip())), "{found:?}");
}

#[test]
fn listeners_stay_inside_the_port_range_in_a_namespace() {
    let (cluster, layout) = cluster("4+4");
    let settings = [
        "--set",
        "network.port_range=42000-42009",
        "--set",
        "network.address_family=ipv4",
    ];
    let found = listening(&cluster, &layout, &settings);
    // The root's port was chosen by whoever started the job.
    let outside: Vec<_> = found
        .iter()
        .filter(|a| !(42000..=42009).contains(&a.port()))
        .collect();
    assert!(outside.len() <= 1, "{outside:?} of {found:?}");
    assert!(found.len() > 4, "{found:?}");
}

#[test]
fn a_range_with_too_few_ports_in_a_namespace_is_an_error_with_numbers() {
    let (cluster, layout) = cluster("3");
    let arguments = [
        "--set",
        "network.port_range=42000-42001",
        "--set",
        "network.address_family=ipv4",
        "--set",
        "timeouts.connect=4",
        "sum",
    ];
    let ended = Ranks::start(&cluster, &layout, RANK, &arguments).wait();
    let texts: Vec<String> = (0..3)
        .flat_map(|rank| ended.events(rank, "error"))
        .map(|error| error.text("text").to_string())
        .collect();
    let told = texts
        .iter()
        .any(|text| text.contains("42000") && text.contains("42001"));
    assert!(told, "{texts:#?}");
    assert!(
        (0..3).all(|rank| !ended.exit(rank).is_success()),
        "{}",
        ended.report()
    );
}

#[test]
fn an_occupied_root_port_is_named_with_its_address() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let root = taken.local_addr().expect("it listens").to_string();
    let mut command = by_hand(RANK);
    command
        .args(["--set", "timeouts.connect=5", "sum"])
        .envs([("RANK", "0"), ("WORLD_SIZE", "2"), ("INFINICCL_SECRET", "s")])
        .env("INFINICCL_ROOT", &root);
    let error = run_one(command, LIMIT).event("error");
    let text = error.text("text");
    assert!(text.contains(&root) && text.contains("in use"), "{text}");
}
