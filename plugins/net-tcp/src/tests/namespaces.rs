//! Hosts of their own, as network namespaces of threads: traps among addresses, scopes, cut cables.
//!
//! `cargo test -p infiniccl-plugin-net-tcp -- --ignored` as root; the namespaces vanish with their threads.

use super::{KEY, LIMIT, Node, Way, within};
use infiniccl_plugin_api::{ChannelState, Status};
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// Runs `ip` in the namespace of the calling thread.
fn ip(arguments: &str) {
    let output = Command::new("ip")
        .args(arguments.split(' '))
        .output()
        .expect("iproute2 is installed");
    assert!(
        output.status.success(),
        "ip {arguments}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Moves the calling thread into a namespace of its own.
fn unshare() {
    // SAFETY: it concerns this thread alone.
    let result = unsafe { libc::unshare(libc::CLONE_NEWNET) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    ip("link set lo up");
}

fn thread_id() -> i32 {
    // SAFETY: no arguments.
    unsafe { libc::gettid() }
}

/// What a host says to the other one, outside of the network that is tested.
struct Line(Sender<Vec<u8>>, Receiver<Vec<u8>>);

impl Line {
    fn swap(&self, mine: &[u8]) -> Vec<u8> {
        self.0.send(mine.to_vec()).unwrap();
        self.1.recv_timeout(LIMIT / 2).unwrap()
    }
}

/// Two hosts with a cable between their eth0; each body runs on its host, with its number and a line to the other.
fn two_hosts(body: impl Fn(u32, &Line) + Send + Sync + 'static) {
    within(move || {
        let ((to_b, from_a), (to_a, from_b)) = (channel(), channel());
        let body = &body;
        std::thread::scope(|scope| {
            scope.spawn(move || {
                unshare();
                let line = Line(to_b, from_b);
                let other = line.swap(&[]);
                let other = String::from_utf8(other).unwrap();
                ip(&format!("link add eth0 type veth peer name eth0 netns {other}"));
                line.swap(&[]);
                ip("addr add 10.9.0.1/24 dev eth0");
                ip("link set eth0 up");
                line.swap(&[]);
                body(0, &line);
            });
            scope.spawn(move || {
                unshare();
                // So that the numbers of the interfaces differ.
                ip("link add other0 type bridge");
                let line = Line(to_a, from_a);
                line.swap(thread_id().to_string().as_bytes());
                line.swap(&[]);
                ip("addr add 10.9.0.2/24 dev eth0");
                ip("link set eth0 up");
                line.swap(&[]);
                body(1, &line);
            });
        });
    });
}

/// Opens a worker and the channel to the other host's.
fn meet(rank: u32, line: &Line, rows: &[(&str, &str)], limit: Duration) -> (Node, u64) {
    let mut all = vec![("auth_key", KEY)];
    all.extend_from_slice(rows);
    let node = Node::open(Way::Table, rank, &all).unwrap();
    let address = line.swap(&node.address);
    let channel = match rank {
        0 => node.connect_to(&address, 1, 0, limit).unwrap(),
        _ => node.accept_from(0, 0, limit).unwrap(),
    };
    (node, channel)
}

fn wait_for(node: &Node, channel: u64, wanted: ChannelState) -> String {
    let deadline = Instant::now() + LIMIT / 2;
    loop {
        node.poll();
        let (state, text) = node.state(channel);
        if state == wanted {
            return text;
        }
        assert!(
            state == ChannelState::CONNECTING || state == ChannelState::READY,
            "{text}"
        );
        assert!(Instant::now() < deadline, "{text}");
    }
}

fn exchange(node: &mut Node, channel: u64) {
    let (mine, theirs) = (
        vec![node.rank as u8 + 1; 50_000],
        vec![2 - node.rank as u8; 50_000],
    );
    let mut received = vec![0; theirs.len()];
    node.recv(channel, &mut received);
    node.send(channel, &mine, 0);
    assert!(node.finish(2).iter().all(|end| end.status == Status::OK));
    assert!(received == theirs);
}

#[test]
#[ignore = "makes network namespaces, which takes root and iproute2"]
fn an_address_that_both_hosts_have_is_no_trap() {
    two_hosts(|rank, line| {
        ip("link add docker0 type bridge");
        ip("addr add 172.17.0.1/16 dev docker0");
        ip("link set docker0 up");
        // The same port on both, so that the address of the other host's bridge leads to this host's worker.
        let own = format!("172.17.0.1,10.9.0.{}", rank + 1);
        let rows = [("addresses", own.as_str()), ("port_range", "5000-5000")];
        let (mut node, channel) = meet(rank, line, &rows, LIMIT / 2);
        let text = wait_for(&node, channel, ChannelState::READY);
        assert!(
            text.contains("10.9.0.1:") && text.contains("10.9.0.2:") && text.ends_with("(eth0)"),
            "{text}"
        );
        exchange(&mut node, channel);
        line.swap(&[]);
    });
}

#[test]
#[ignore = "makes network namespaces, which takes root and iproute2"]
fn dead_candidates_are_named() {
    two_hosts(|rank, line| {
        ip("link add docker0 type bridge");
        ip("addr add 172.17.0.1/16 dev docker0");
        ip("link set docker0 up");
        let own = format!("172.17.0.1,10.9.0.{}", rank + 1);
        let node = Node::open(Way::Table, rank, &[("auth_key", KEY), ("addresses", &own)]).unwrap();
        let address = line.swap(&node.address);
        if rank == 1 {
            ip("link del eth0");
        }
        line.swap(&[]);
        if rank == 0 {
            let started = Instant::now();
            let channel = node.connect_to(&address, 1, 0, Duration::from_secs(2)).unwrap();
            let text = wait_for(&node, channel, ChannelState::FAILED);
            assert!(started.elapsed() < Duration::from_secs(4));
            assert!(
                text.contains("172.17.0.1:") && text.contains("10.9.0.2:"),
                "{text}"
            );
            assert!(text.contains("refused") && text.contains("unreachable"), "{text}");
        }
        line.swap(&[]);
    });
}

#[test]
#[ignore = "makes network namespaces, which takes root and iproute2"]
fn a_candidate_that_swallows_everything_does_not_hold_up_the_next() {
    two_hosts(|rank, line| {
        ip("addr add 10.8.0.1/24 dev lo");
        if rank == 0 {
            // Bytes for this address leave by the cable, where nobody answers for it.
            ip("addr del 10.8.0.1/24 dev lo");
            ip("route add 10.8.0.0/24 dev eth0");
            ip("neigh add 10.8.0.1 lladdr 02:00:00:00:00:09 dev eth0");
        }
        let own = if rank == 0 {
            "10.9.0.1"
        } else {
            "10.8.0.1,10.9.0.2"
        };
        let started = Instant::now();
        let (mut node, channel) = meet(rank, line, &[("addresses", own)], LIMIT / 2);
        wait_for(&node, channel, ChannelState::READY);
        assert!(
            started.elapsed() < Duration::from_secs(5),
            "{:?}",
            started.elapsed()
        );
        exchange(&mut node, channel);
        line.swap(&[]);
    });
}

#[test]
#[ignore = "makes network namespaces, which takes root and iproute2"]
fn link_local_addresses_work_between_hosts() {
    two_hosts(|rank, line| {
        // A second link with such addresses, which leads nowhere and comes first.
        ip("link add aaa0 type bridge");
        ip("addr add fe80::77/64 dev aaa0 nodad");
        ip("link set aaa0 up");
        ip(&format!("addr add fe80::{}/64 dev eth0 nodad", rank + 1));
        let own = format!("fe80::{}%eth0", rank + 1);
        let (mut node, channel) = meet(rank, line, &[("addresses", &own)], LIMIT / 2);
        let text = wait_for(&node, channel, ChannelState::READY);
        assert!(text.contains("[fe80::1%") && text.ends_with("(eth0)"), "{text}");
        exchange(&mut node, channel);
        line.swap(&[]);
    });
}

#[test]
#[ignore = "makes network namespaces, which takes root and iproute2"]
fn everywhere_leads_to_an_address_of_the_other_host() {
    two_hosts(|rank, line| {
        let (mut node, channel) = meet(rank, line, &[], LIMIT / 2);
        let text = wait_for(&node, channel, ChannelState::READY);
        assert!(text.contains("10.9.0.1:") && text.ends_with("(eth0)"), "{text}");
        exchange(&mut node, channel);
        line.swap(&[]);
    });
}

#[test]
#[ignore = "makes network namespaces, which takes root and iproute2"]
fn a_cut_cable_is_noticed_and_explained() {
    two_hosts(|rank, line| {
        let own = format!("10.9.0.{}", rank + 1);
        let rows = [("addresses", own.as_str()), ("keepalive_s", "1")];
        let (mut node, channel) = meet(rank, line, &rows, LIMIT / 2);
        wait_for(&node, channel, ChannelState::READY);
        exchange(&mut node, channel);
        line.swap(&[]);
        if rank == 0 {
            ip("link set eth0 down");
            node.recv_for_ever(channel, 8);
            let end = node.finish(1)[0];
            assert_eq!(end.status, Status::REMOTE);
            let text = node.state(channel).1;
            for part in ["rank 1", "10.9.0.2:", "silent for", "keepalive is 1 s"] {
                assert!(text.contains(part), "{part} in {text}");
            }
        }
        line.swap(&[]);
    });
}
