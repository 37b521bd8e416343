//! Bytes arrive as they were sent, in order, whatever their number.

use super::{KEY, LIMIT, Node, Way, both_ways, drive, drive_for, is_ready, pair, pattern, request};
use infiniccl_plugin_api::{ChannelState, Status, WorkOp};
use std::sync::Barrier;
use std::time::{Duration, Instant};

both_ways! {
    two_workers_exchange_every_size
    four_workers_exchange_in_threads
    large_messages_both_ways_at_once
    messages_wait_for_their_receives
    ten_thousand_small_messages_in_a_row
    empty_messages_carry_their_word
    tiny_buffers_of_the_kernel
    work_before_the_connection_and_a_late_accept
    several_lanes_and_many_channels
    ipv6_and_details
    many_ranks_meet_one_at_once
}

const SIZES: [usize; 26] = [
    1, 2, 3, 7, 8, 9, 15, 16, 17, 100, 1000, 4095, 4096, 8175, 8176, 8177, 8192, 8193, 16384, 32752, 32767,
    32768, 32769, 65536, 65537, 70000,
];

fn two_workers_exchange_every_size(way: Way) {
    let (mut a, to_b, mut b, to_a) = pair(way, &[]);
    for (message, size) in SIZES.into_iter().enumerate() {
        let message = message as u32;
        let (ab, ba) = (pattern(0, 1, message, size), pattern(1, 0, message, size));
        let (mut at_a, mut at_b) = (vec![0; size + 1], vec![0; size + 1]);
        let tokens = [
            (0, a.recv(to_b, &mut at_a[..size])),
            (0, a.send(to_b, &ab, message)),
            (1, b.recv(to_a, &mut at_b[..size])),
            (1, b.send(to_a, &ba, message + 100)),
        ];
        let ends = drive_for(&[&a, &b], 4);
        for (rank, token) in tokens {
            let (_, end) = ends
                .iter()
                .find(|(r, end)| *r == rank && end.token == token)
                .unwrap();
            assert_eq!((end.status, end.bytes), (Status::OK, size as u64));
        }
        let imm = |rank, token| {
            ends.iter()
                .find(|(r, end)| *r == rank && end.token == token)
                .unwrap()
                .1
                .imm
        };
        assert_eq!(
            (imm(0, tokens[0].1), imm(1, tokens[2].1)),
            (message + 100, message)
        );
        assert!(at_a[..size] == ba && at_b[..size] == ab, "{size} bytes");
        assert_eq!((at_a[size], at_b[size]), (0, 0), "nothing beyond {size} bytes");
    }
    assert_eq!((a.close(LIMIT), b.close(LIMIT)), (Status::OK, Status::OK));
}

fn four_workers_exchange_in_threads(way: Way) {
    const RANKS: u32 = 4;
    let nodes: Vec<Node> = (0..RANKS).map(|rank| Node::new(way, rank, &[])).collect();
    let addresses: Vec<Vec<u8>> = nodes.iter().map(|node| node.address.clone()).collect();
    let barrier = Barrier::new(RANKS as usize);
    std::thread::scope(|scope| {
        for mut node in nodes {
            let (addresses, barrier) = (&addresses, &barrier);
            scope.spawn(move || {
                let rank = node.rank;
                let channel = |peer: u32| match rank < peer {
                    true => node
                        .connect_to(&addresses[peer as usize], peer, 0, LIMIT)
                        .unwrap(),
                    false => node.accept_from(peer, 0, LIMIT).unwrap(),
                };
                let channels: Vec<(u32, u64)> = (0..RANKS)
                    .filter(|peer| *peer != rank)
                    .map(|peer| (peer, channel(peer)))
                    .collect();
                for (message, size) in SIZES.into_iter().enumerate() {
                    let message = message as u32;
                    let sends: Vec<Vec<u8>> = channels
                        .iter()
                        .map(|(peer, _)| pattern(rank, *peer, message, size))
                        .collect();
                    let mut receives = vec![vec![0; size]; channels.len()];
                    for (position, (_, channel)) in channels.iter().enumerate() {
                        node.send(*channel, &sends[position], message);
                        node.recv(*channel, &mut receives[position]);
                    }
                    let ends = node.finish(2 * channels.len());
                    assert!(
                        ends.iter()
                            .all(|end| end.status == Status::OK && end.bytes == size as u64)
                    );
                    for ((peer, _), received) in channels.iter().zip(&receives) {
                        assert!(
                            *received == pattern(*peer, rank, message, size),
                            "{peer} to {rank}, {size}"
                        );
                    }
                }
                barrier.wait();
                assert_eq!(node.close(LIMIT), Status::OK);
            });
        }
    });
}

fn large_messages_both_ways_at_once(way: Way) {
    const SIZE: usize = 64 << 20;
    let (a, to_b, b, to_a) = pair(way, &[]);
    std::thread::scope(|scope| {
        for (mut node, channel, peer) in [(a, to_b, 1), (b, to_a, 0)] {
            scope.spawn(move || {
                let sent = pattern(node.rank, peer, 0, SIZE);
                let mut received = vec![0; SIZE];
                node.recv(channel, &mut received);
                node.send(channel, &sent, 0);
                let ends = node.finish(2);
                assert!(
                    ends.iter()
                        .all(|end| end.status == Status::OK && end.bytes == SIZE as u64)
                );
                assert!(received == pattern(peer, node.rank, 0, SIZE));
                assert_eq!(node.close(LIMIT), Status::OK);
            });
        }
    });
}

fn messages_wait_for_their_receives(way: Way) {
    let (mut a, to_b, mut b, to_a) = pair(way, &[]);
    // More than the kernel buffers, so that the sender has to wait, with small ones before and behind.
    let sizes = [10, 0, 70_000, 20 << 20, 5, 40_000];
    let sent: Vec<Vec<u8>> = sizes
        .iter()
        .zip(0..)
        .map(|(size, message)| pattern(0, 1, message, *size))
        .collect();
    for (bytes, message) in sent.iter().zip(0..) {
        a.send(to_b, bytes, message);
    }
    // Long enough for the bytes to pile up at the other end, where nothing asks for them.
    let mut seen = 0;
    for _ in 0..2000 {
        seen += a.poll().len();
        assert!(b.poll().is_empty());
    }
    assert!(seen < sizes.len(), "the sender is held back");
    let mut received: Vec<Vec<u8>> = sizes.iter().map(|size| vec![0; *size]).collect();
    for (position, bytes) in received.iter_mut().enumerate() {
        b.recv(to_a, bytes);
        let mut ends = Vec::new();
        drive(&[&a], || {
            ends.extend(b.poll());
            !ends.is_empty()
        });
        let (size, imm) = (sizes[position] as u64, position as u32);
        assert_eq!(
            (ends[0].status, ends[0].bytes, ends[0].imm),
            (Status::OK, size, imm)
        );
    }
    assert!(received == sent);
}

fn ten_thousand_small_messages_in_a_row(way: Way) {
    const COUNT: usize = 10_000;
    let (a, to_b, b, to_a) = pair(way, &[]);
    let size = |message: usize| message % 61;
    let sent: Vec<Vec<u8>> = (0..COUNT)
        .map(|message| pattern(0, 1, message as u32, size(message)))
        .collect();
    let mut received: Vec<Vec<u8>> = (0..COUNT).map(|message| vec![0; size(message)]).collect();
    let sends: Vec<_> = sent
        .iter()
        .zip(0..)
        .map(|(bytes, token)| {
            let mut send = request(
                WorkOp::SEND,
                to_b,
                bytes.as_ptr().cast_mut(),
                bytes.len(),
                token as u32,
            );
            send.token = token;
            send
        })
        .collect();
    let recvs: Vec<_> = received
        .iter_mut()
        .zip(0..)
        .map(|(bytes, token)| {
            let mut recv = request(WorkOp::RECV, to_a, bytes.as_mut_ptr(), bytes.len(), 0);
            recv.token = token;
            recv
        })
        .collect();
    let (mut posted, mut arrived, mut left) = ((0, 0), Vec::new(), Vec::new());
    let mut held_back = false;
    let deadline = Instant::now() + LIMIT / 2;
    while arrived.len() < COUNT || left.len() < COUNT {
        let (status, taken) = a.post(&sends[posted.0..]);
        assert_eq!(status, Status::OK);
        posted.0 += taken;
        held_back |= posted.0 < COUNT;
        let (status, taken) = b.post(&recvs[posted.1..]);
        assert_eq!(status, Status::OK);
        posted.1 += taken;
        left.extend(a.poll());
        arrived.extend(b.poll_at_most(7));
        assert!(
            Instant::now() < deadline,
            "{} left, {} arrived",
            left.len(),
            arrived.len()
        );
    }
    assert!(held_back, "a queue is not endless");
    for (token, end) in (0..).zip(&arrived) {
        assert_eq!(
            (end.token, end.imm, end.status),
            (token, token as u32, Status::OK),
            "in order"
        );
    }
    assert!(
        left.iter()
            .zip(0..)
            .all(|(end, token)| end.token == token && end.status == Status::OK)
    );
    assert!(received == sent);
}

fn empty_messages_carry_their_word(way: Way) {
    let (mut a, to_b, mut b, to_a) = pair(way, &[]);
    for imm in [0, 1, u32::MAX] {
        a.post_one(request(WorkOp::SEND, to_b, std::ptr::null_mut(), 0, imm));
        b.post_one(request(WorkOp::RECV, to_a, std::ptr::null_mut(), 0, 0));
    }
    let ends = drive_for(&[&a, &b], 6);
    let words: Vec<u32> = ends
        .iter()
        .filter(|(rank, _)| *rank == 1)
        .map(|(_, end)| end.imm)
        .collect();
    assert_eq!(words, [0, 1, u32::MAX]);
    assert!(
        ends.iter()
            .all(|(_, end)| end.status == Status::OK && end.bytes == 0)
    );
}

fn tiny_buffers_of_the_kernel(way: Way) {
    let (mut a, to_b, mut b, to_a) = pair(way, &[("sndbuf", "4096"), ("rcvbuf", "4096")]);
    let sizes = [1, 5000, 300_000, 17, 9000];
    let sent: Vec<(Vec<u8>, Vec<u8>)> = sizes
        .iter()
        .zip(0..)
        .map(|(size, message)| (pattern(0, 1, message, *size), pattern(1, 0, message, *size)))
        .collect();
    let mut received: Vec<(Vec<u8>, Vec<u8>)> = sizes
        .iter()
        .map(|size| (vec![0; *size], vec![0; *size]))
        .collect();
    for ((ab, ba), (at_b, at_a)) in sent.iter().zip(&mut received) {
        a.send(to_b, ab, 0);
        b.send(to_a, ba, 0);
        a.recv(to_b, at_a);
        b.recv(to_a, at_b);
    }
    let ends = drive_for(&[&a, &b], 4 * sizes.len());
    assert!(ends.iter().all(|(_, end)| end.status == Status::OK));
    assert!(received == sent);
}

fn work_before_the_connection_and_a_late_accept(way: Way) {
    let (mut a, mut b) = (Node::new(way, 0, &[]), Node::new(way, 1, &[]));
    let to_b = a.connect(&b, 5);
    assert_eq!(a.state(to_b).0, ChannelState::CONNECTING);
    let (sent, mut received) = (pattern(0, 1, 0, 30_000), vec![0; 30_000]);
    a.send(to_b, &sent, 9);
    // The connection proves itself before anybody here opens the channel.
    drive(&[&a, &b], || is_ready(&a, to_b));
    for _ in 0..200 {
        a.poll();
        b.poll();
    }
    let to_a = b.accept(&a, 5);
    b.recv(to_a, &mut received);
    let mut ends = Vec::new();
    drive(&[&a], || {
        ends.extend(b.poll());
        !ends.is_empty()
    });
    assert_eq!((ends[0].status, ends[0].imm), (Status::OK, 9));
    assert!(received == sent);
    assert!(is_ready(&b, to_a));
}

fn several_lanes_and_many_channels(way: Way) {
    const LANES: u32 = 20;
    let (mut a, mut b) = (Node::new(way, 0, &[]), Node::new(way, 1, &[]));
    let channels: Vec<(u64, u64)> = (0..LANES)
        .map(|lane| (a.connect(&b, lane), b.accept(&a, lane)))
        .collect();
    drive(&[&a, &b], || {
        channels
            .iter()
            .all(|(to_b, to_a)| is_ready(&a, *to_b) && is_ready(&b, *to_a))
    });
    for (round, size) in [3, 50_000, 1 << 20].into_iter().enumerate() {
        let sent: Vec<Vec<u8>> = (0..LANES)
            .map(|lane| pattern(0, 1, lane * 10 + round as u32, size))
            .collect();
        let mut received = vec![vec![0; size]; LANES as usize];
        for (lane, (to_b, to_a)) in channels.iter().enumerate() {
            a.send(*to_b, &sent[lane], lane as u32);
            b.recv(*to_a, &mut received[lane]);
        }
        let ends = drive_for(&[&a, &b], 2 * LANES as usize);
        assert!(ends.iter().all(|(_, end)| end.status == Status::OK));
        assert!(received == sent, "{size} bytes");
    }
}

fn ipv6_and_details(way: Way) {
    let rows = [("auth_key", KEY), ("addresses", "::1")];
    let (mut a, mut b) = (
        Node::open(way, 0, &rows).unwrap(),
        Node::open(way, 1, &rows).unwrap(),
    );
    let (to_b, to_a) = (a.connect(&b, 0), b.accept(&a, 0));
    drive(&[&a, &b], || is_ready(&a, to_b) && is_ready(&b, to_a));
    let (sent, mut received) = (pattern(0, 1, 0, 1000), vec![0; 1000]);
    a.send(to_b, &sent, 0);
    b.recv(to_a, &mut received);
    drive_for(&[&a, &b], 2);
    assert!(received == sent);
    let (detail_a, detail_b) = (a.state(to_b).1, b.state(to_a).1);
    let ends = |detail: &str| {
        let text = detail.strip_suffix(" (lo)").unwrap_or_else(|| panic!("{detail}"));
        let (local, peer) = text.split_once(" -> ").unwrap();
        (local.to_owned(), peer.to_owned())
    };
    let ((local_a, peer_a), (local_b, peer_b)) = (ends(&detail_a), ends(&detail_b));
    assert_eq!((&local_a, &peer_a), (&peer_b, &local_b));
    assert!(local_a.starts_with("[::1]:"), "{detail_a}");
    assert_eq!(a.close_channel(to_b, Duration::from_secs(5)), Status::OK);
}

fn many_ranks_meet_one_at_once(way: Way) {
    const RANKS: u32 = 48;
    let (root, addresses) = (
        Node::new(way, 0, &[]),
        [("addresses", "127.0.0.3"), ("auth_key", KEY)],
    );
    let mut others: Vec<Node> = (1..=RANKS)
        .map(|rank| Node::open(way, rank, &addresses).unwrap())
        .collect();
    let connecting: Vec<u64> = others.iter().map(|other| other.connect(&root, 0)).collect();
    let accepting: Vec<u64> = others.iter().map(|other| root.accept(other, 0)).collect();
    let sent: Vec<Vec<u8>> = (1..=RANKS).map(|rank| pattern(rank, 0, 0, 3000)).collect();
    let mut received = vec![vec![0; 3000]; RANKS as usize];
    let mut root = root;
    for (position, other) in others.iter_mut().enumerate() {
        other.send(connecting[position], &sent[position], other.rank);
        root.recv(accepting[position], &mut received[position]);
    }
    let mut nodes: Vec<&Node> = others.iter().collect();
    nodes.push(&root);
    let ends = drive_for(&nodes, 2 * RANKS as usize);
    assert!(ends.iter().all(|(_, end)| end.status == Status::OK));
    assert!(received == sent);
}
