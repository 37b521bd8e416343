//! Tests of the nodes themselves: what is private to one, and that they reach each other.
//!
//! Tests with `namespace` in their names fail where namespaces are not permitted; `cargo xtask test` leaves
//! them out there, and says so.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::time::Duration;

use super::*;

fn namespaces(nodes: usize, family: Family) -> Cluster {
    Cluster::build(&ClusterSpec {
        nodes,
        namespaces: Namespaces::Always,
        family,
        rate: None,
    })
    .unwrap()
}

fn output(cluster: &Cluster, node: usize, script: &str) -> String {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]).stdout(Stdio::piped());
    let output = cluster.launch(node, command).unwrap().wait_with_output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_string()
}

fn exchange(cluster: &Cluster) {
    let port = cluster.reserve_port(0).unwrap();
    let listener = cluster
        .in_node(0, || TcpListener::bind(port.address()))
        .unwrap()
        .unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, from) = listener.accept().unwrap();
            stream.write_all(from.ip().to_string().as_bytes()).unwrap();
        });
        let mut stream = cluster
            .in_node(1, || {
                TcpStream::connect_timeout(&port.address(), Duration::from_secs(10))
            })
            .unwrap()
            .unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut seen = String::new();
        stream.read_to_string(&mut seen).unwrap();
        if cluster.has_namespaces() {
            assert_eq!(seen, cluster.nodes()[1].address.to_string());
        }
    });
}

#[test]
fn nodes_in_namespaces_reach_each_other() {
    for family in [Family::V4, Family::V6] {
        exchange(&namespaces(2, family));
    }
}

#[test]
fn a_namespace_has_its_own_host_name_links_and_shared_memory() {
    let cluster = namespaces(2, Family::V4);
    for node in 0..2 {
        let name = &cluster.nodes()[node].name;
        assert_eq!(&output(&cluster, node, "cat /proc/sys/kernel/hostname"), name);
        assert_eq!(output(&cluster, node, "ls /sys/class/net | grep -c eth0"), "1");
        assert_eq!(
            output(
                &cluster,
                node,
                "ls -A /dev/shm; touch /dev/shm/mine; ls -A /dev/shm"
            ),
            "mine"
        );
    }
    let here = std::env::current_dir().unwrap();
    assert_eq!(output(&cluster, 0, "pwd"), here.to_str().unwrap());
}

#[test]
fn a_link_speed_is_set_in_a_namespace() {
    let spec = ClusterSpec {
        nodes: 2,
        namespaces: Namespaces::Always,
        family: Family::V4,
        rate: Some(100_000_000),
    };
    let cluster = Cluster::build(&spec).unwrap();
    assert!(output(&cluster, 1, "tc qdisc show dev eth0").contains("rate 100Mbit"));
    exchange(&cluster);
}

#[test]
fn loopback_nodes_have_addresses_of_their_own() {
    let spec = ClusterSpec {
        nodes: 3,
        namespaces: Namespaces::Never,
        ..Default::default()
    };
    let (a, b) = (Cluster::build(&spec).unwrap(), Cluster::build(&spec).unwrap());
    let all: std::collections::HashSet<_> = a.nodes().iter().chain(b.nodes()).map(|n| n.address).collect();
    assert_eq!(all.len(), 6);
    assert!(a.which().contains("as asked"), "{a}");
    exchange(&a);
}

#[test]
fn a_link_speed_on_loopback_is_refused() {
    let spec = ClusterSpec {
        nodes: 2,
        namespaces: Namespaces::Never,
        rate: Some(1),
        ..Default::default()
    };
    assert!(
        Cluster::build(&spec)
            .unwrap_err()
            .to_string()
            .contains("needs network namespaces")
    );
}

#[test]
fn a_reserved_port_is_given_to_nobody_else() {
    let cluster = Cluster::this_machine();
    let port = cluster.reserve_port(0).unwrap();
    let mut others = Vec::new();
    for _ in 0..200 {
        let other = TcpListener::bind((port.address().ip(), 0)).unwrap();
        assert_ne!(other.local_addr().unwrap().port(), port.address().port());
        others.push(other);
    }
    TcpListener::bind(port.address()).expect("the rank that was told the port may listen on it");
}

#[test]
fn links_of_a_namespace_last_as_long_as_the_cluster() {
    let cluster = namespaces(2, Family::V4);
    // The kernel removes what nobody holds a little later, so look a few times.
    for _ in 0..20 {
        assert_eq!(output(&cluster, 0, "ls /sys/class/net | grep -c eth0"), "1");
        std::thread::sleep(Duration::from_millis(20));
    }
    exchange(&cluster);
}
