//! Whatever strangers do to the open ports, the ranks meet and their messages arrive.

use super::{LIMIT, Node, Way, both_ways, drive, drive_for, is_ready, pattern};
use crate::address::WorkerAddress;
use infiniccl_plugin_api::Status;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

both_ways! {
    ranks_meet_among_strangers
    silent_strangers_make_room
    a_replayed_connection_is_turned_away
}

fn port(node: &Node) -> SocketAddr {
    WorkerAddress::decode(&node.address).unwrap().entries[0]
}

/// Bytes of a small generator, so that a failure repeats.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..len).map(|_| next()).collect()
}

/// One visit of a stranger; the kinds repeat.
fn visit(address: SocketAddr, kind: u64) {
    let Ok(mut stream) = TcpStream::connect_timeout(&address, Duration::from_secs(5)) else {
        return;
    };
    // Errors are the visited end turning the stranger away.
    let _ = match kind % 7 {
        0 => Ok(()),
        1 => {
            crate::socket::reset_on_close(rustix::fd::AsFd::as_fd(&stream));
            Ok(())
        }
        2 => stream.write_all(&noise(kind, 1 + (kind % 13) as usize)),
        3 => stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
        4 => stream.write_all(&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3]),
        5 => stream.write_all(&noise(kind, 1 << 20)),
        _ => stream.write_all(b"ICCL-TCP\x01\x00"),
    };
}

fn ranks_meet_among_strangers(way: Way) {
    let (mut a, mut b) = (Node::new(way, 0, &[]), Node::new(way, 1, &[]));
    let stop = AtomicBool::new(false);
    let visited = [port(&a), port(&b)];
    std::thread::scope(|scope| {
        let stop = &stop;
        scope.spawn(move || {
            let mut kind = 0;
            while !stop.load(Ordering::Relaxed) {
                visit(visited[kind as usize % 2], kind);
                kind += 1;
            }
        });
        for lane in 0..20 {
            let (to_b, to_a) = (a.connect(&b, lane), b.accept(&a, lane));
            let (sent, mut received) = (pattern(0, 1, lane, 50_000), vec![0; 50_000]);
            a.send(to_b, &sent, 0);
            b.recv(to_a, &mut received);
            let ends = drive_for(&[&a, &b], 2);
            assert!(ends.iter().all(|(_, end)| end.status == Status::OK), "{ends:?}");
            assert!(received == sent);
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(a.close(LIMIT), Status::OK);
}

fn silent_strangers_make_room(way: Way) {
    let (a, b) = (Node::new(way, 0, &[]), Node::new(way, 1, &[]));
    let mut silent = Vec::new();
    for _ in 0..200 {
        silent.push(TcpStream::connect(port(&b)).unwrap());
        b.poll();
    }
    let (to_b, to_a) = (a.connect(&b, 0), b.accept(&a, 0));
    drive(&[&a, &b], || is_ready(&a, to_b) && is_ready(&b, to_a));
    // The first ones were pushed out.
    let mut stream = &silent[0];
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    assert!(matches!(stream.read(&mut [0; 1]), Ok(0) | Err(_)));
}

fn a_replayed_connection_is_turned_away(way: Way) {
    let (a, b) = (Node::new(way, 0, &[]), Node::new(way, 1, &[]));
    // Someone in the middle records what a says to b, and repeats it on a connection of its own.
    let middle = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    middle.set_nonblocking(true).unwrap();
    let mut address = WorkerAddress::decode(&b.address).unwrap();
    address.entries = vec![middle.local_addr().unwrap()];
    let to_b = a
        .connect_to(&address.encode(), 1, 0, Duration::from_secs(20))
        .unwrap();
    let to_a = b.accept(&a, 0);
    let mut streams = None;
    let mut recorded = Vec::new();
    drive(&[&a, &b], || {
        if streams.is_none()
            && let Ok((from_a, _)) = middle.accept()
        {
            let onward = TcpStream::connect(port(&b)).unwrap();
            from_a.set_nonblocking(true).unwrap();
            onward.set_nonblocking(true).unwrap();
            streams = Some((from_a, onward));
        }
        if let Some((from_a, onward)) = &mut streams {
            let mut bytes = [0; 256];
            if let Ok(count) = from_a.read(&mut bytes) {
                recorded.extend_from_slice(&bytes[..count]);
                onward.write_all(&bytes[..count]).unwrap();
            }
            if let Ok(count) = onward.read(&mut bytes) {
                from_a.write_all(&bytes[..count]).unwrap();
            }
        }
        is_ready(&a, to_b) && is_ready(&b, to_a)
    });
    assert!(recorded.len() > 100);
    let again = b.accept_from(0, 1, Duration::from_millis(300)).unwrap();
    let mut replay = TcpStream::connect(port(&b)).unwrap();
    replay.write_all(&recorded).unwrap();
    drive(&[&b], || {
        b.state(again).0 == infiniccl_plugin_api::ChannelState::FAILED
    });
    let text = b.state(again).1;
    assert!(text.contains("turned away") && text.contains("secret"), "{text}");
}
