//! Strangers at every listening port of a job that runs: they cost nothing but their own connection.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use infiniccl_tests::{Ranks, Traces, cluster};
use socket2::{Domain, Socket, Type};

use crate::RANK;

const HELLOS: [&[u8]; 5] = [
    b"",
    b"\x01",
    b"1234567",
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
];

/// Says `words` and leaves: in good order, or with a reset.
fn visit(address: SocketAddr, words: &[u8], resets: bool) {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None).expect("a socket");
    if socket
        .connect_timeout(&address.into(), Duration::from_secs(2))
        .is_err()
    {
        return;
    }
    if resets {
        socket
            .set_linger(Some(Duration::ZERO))
            .expect("a socket can be told to reset");
    }
    // The job may have hung up already.
    let _ = (&socket).write_all(words);
}

#[test]
fn a_running_job_does_not_mind_strangers_at_its_ports() {
    let (cluster, layout) = cluster("2+2");
    let folder = tempfile::tempdir().expect("a folder");
    let stop = folder.path().join("stop");
    let until = format!("until={}", stop.display());
    let ranks = Ranks::start(&cluster, &layout, RANK, &["loop", "bytes=100000", &until]);
    ranks.all_say("call");
    let traces = Traces::of(&ranks);
    let addresses: Vec<SocketAddr> = traces.listeners().map(|l| l.address).collect();
    assert!(
        addresses.len() >= 4,
        "the ranks listen for each other: {addresses:?}"
    );
    let mut noise = vec![0u8; 1 << 20];
    let mut word = 1u64;
    for byte in &mut noise {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        *byte = word.to_be_bytes()[0];
    }
    cluster
        .in_node(0, || {
            let mut silent = Vec::new();
            for address in &addresses {
                for (i, words) in HELLOS.into_iter().chain([&noise[..]]).enumerate() {
                    visit(*address, words, i % 2 == 1);
                }
                silent.extend((0..50).filter_map(|_| TcpStream::connect(address).ok()));
            }
            // Nobody is told anything before it has proved who it is.
            for stream in &mut silent {
                stream
                    .set_read_timeout(Some(Duration::from_millis(1)))
                    .expect("a limit");
                let heard = stream.read(&mut [0; 64]);
                assert!(!matches!(heard, Ok(1..)), "a stranger heard something: {heard:?}");
            }
        })
        .expect("the node can be entered");
    std::fs::write(&stop, "").expect("the file can be written");
    let ended = ranks.wait();
    ended.all_succeeded();
    let calls = ended.event(0, "calls").number("n");
    assert!(calls > 10, "the job worked on while they came: {calls} calls");
    traces.are_gone(&cluster, &layout, &ended);
}
