//! Peers that vanish, disagree or go in good order; handles that are none; work that makes no sense.

use super::{KEY, LIMIT, Node, Way, both_ways, drive, drive_for, is_ready, pair, pattern, request};
use infiniccl_plugin_api::{ChannelState, Status, WorkOp};
use std::time::{Duration, Instant};

both_ways! {
    a_peer_that_vanishes_ends_all_work
    a_peer_that_vanishes_in_the_middle_of_a_message
    what_a_peer_sent_before_it_vanished_is_received
    a_good_end_is_told_from_a_death
    lengths_that_differ_fail_both_ends
    abort_ends_work_at_once
    close_flushes_what_was_posted
    close_has_a_time_limit
    stale_handles_are_refused
    senseless_work_is_refused
    wrong_keys_do_not_meet
    workers_without_proofs_meet_each_other_only
    an_open_worker_names_what_is_wrong
}

fn a_peer_that_vanishes_ends_all_work(way: Way) {
    let (mut a, to_b, b, _) = pair(way, &[]);
    let mut bytes = [[0; 16], [0; 16]];
    let [first, second] = &mut bytes;
    let tokens = [a.recv(to_b, first), a.recv(to_b, second)];
    a.poll();
    b.die();
    let ends = a.finish(2);
    assert_eq!([ends[0].token, ends[1].token], tokens);
    assert!(
        ends.iter()
            .all(|end| end.status == Status::REMOTE && end.channel == to_b),
        "{ends:?}"
    );
    let (state, text) = a.state(to_b);
    assert_eq!(state, ChannelState::FAILED);
    for part in ["rank 1", "127.0.0.2:", " -> "] {
        assert!(text.contains(part), "{part} in {text}");
    }
    // Later work ends in the same way.
    a.send(to_b, &[1, 2, 3], 0);
    assert_eq!(a.finish(1)[0].status, Status::REMOTE);
}

fn a_peer_that_vanishes_in_the_middle_of_a_message(way: Way) {
    let (mut a, to_b, mut b, to_a) = pair(way, &[]);
    let sent = pattern(0, 1, 0, 30 << 20);
    let mut received = vec![0; sent.len()];
    a.send(to_b, &sent, 0);
    a.recv_for_ever(to_b, 4);
    b.recv(to_a, &mut received);
    for _ in 0..20 {
        assert!(a.poll().is_empty() && b.poll().is_empty());
    }
    b.die();
    let ends = a.finish(2);
    assert!(ends.iter().all(|end| end.status == Status::REMOTE), "{ends:?}");
    assert_eq!(a.state(to_b).0, ChannelState::FAILED);
}

fn what_a_peer_sent_before_it_vanished_is_received(way: Way) {
    let (mut a, to_b, mut b, to_a) = pair(way, &[]);
    let sent = pattern(0, 1, 0, 100);
    a.send(to_b, &sent, 7);
    drive_for(&[&a, &b], 1);
    a.die();
    let (mut received, mut none) = (vec![0; 100], [0; 1]);
    b.recv(to_a, &mut received);
    b.recv(to_a, &mut none);
    let ends = b.finish(2);
    assert_eq!((ends[0].status, ends[0].imm), (Status::OK, 7));
    assert!(received == sent);
    assert_eq!(ends[1].status, Status::REMOTE);
}

fn a_good_end_is_told_from_a_death(way: Way) {
    let (mut a, to_b, b, to_a) = pair(way, &[]);
    let mut bytes = [0; 8];
    a.recv(to_b, &mut bytes);
    assert_eq!(b.close_channel(to_a, Duration::from_secs(5)), Status::OK);
    assert_eq!(a.finish(1)[0].status, Status::REMOTE);
    let (state, text) = a.state(to_b);
    assert_eq!(state, ChannelState::CLOSED, "{text}");
    assert!(text.contains("rank 1 closed"), "{text}");
    // An idle end learns of it too.
    let (a, to_b, b, _) = pair(way, &[]);
    assert_eq!(b.close(LIMIT), Status::OK);
    drive(&[&a], || a.state(to_b).0 == ChannelState::CLOSED);
}

fn lengths_that_differ_fail_both_ends(way: Way) {
    for (sent, posted) in [
        (8, 4),
        (4, 8),
        (0, 1),
        (1, 0),
        (100_000, 70_000),
        (70_000, 100_000),
        (16, 90_000),
    ] {
        let (mut a, to_b, mut b, to_a) = pair(way, &[]);
        let message = pattern(0, 1, 0, sent);
        let mut received = vec![0; posted + 64];
        a.send(to_b, &message, 0);
        a.recv_for_ever(to_b, 0);
        let first = b.recv(to_a, &mut received[..posted]);
        let second = b.recv_for_ever(to_a, 0);
        let back = b.send(to_a, &[], 0);
        let mut ends = Vec::new();
        drive(&[&a], || {
            ends.extend(b.poll());
            ends.len() == 3
        });
        let of = |token| ends.iter().find(|end| end.token == token).unwrap();
        assert_eq!(
            (of(first).status, of(first).bytes),
            (Status::MISMATCH, sent as u64),
            "{sent} {posted}"
        );
        assert_eq!(of(second).status, Status::ABORTED);
        assert!([Status::OK, Status::ABORTED].contains(&of(back).status));
        assert!(
            received[posted..].iter().all(|byte| *byte == 0),
            "nothing beyond the posted memory"
        );
        let (state, text) = b.state(to_a);
        assert_eq!(state, ChannelState::FAILED);
        assert!(
            text.contains(&format!("{sent} bytes")) && text.contains(&posted.to_string()),
            "{text}"
        );
        drive(&[&a], || a.state(to_b).0 == ChannelState::FAILED);
        let text = a.state(to_b).1;
        assert!(
            text.contains("rank 1") && text.contains(&posted.to_string()),
            "{text}"
        );
    }
}

fn abort_ends_work_at_once(way: Way) {
    let (mut a, to_b, mut b, to_a) = pair(way, &[]);
    let large = vec![1; 30 << 20];
    let tokens = [a.send(to_b, &large, 0), a.recv_for_ever(to_b, 8)];
    let at_b = b.recv_for_ever(to_a, 1);
    let started = Instant::now();
    assert_eq!(a.abort(to_b), Status::OK);
    let ends = a.finish(2);
    assert!(started.elapsed() < Duration::from_secs(1));
    assert!(
        ends.iter()
            .all(|end| end.status == Status::ABORTED && tokens.contains(&end.token))
    );
    assert_eq!(a.state(to_b).0, ChannelState::FAILED);
    let end = b.finish(1)[0];
    assert_eq!(end.token, at_b);
    assert!(
        [Status::REMOTE, Status::MISMATCH].contains(&end.status),
        "{end:?}"
    );
    assert_eq!(b.state(to_a).0, ChannelState::FAILED);
    // Twice is no harm; a channel that never was ready can be aborted too.
    assert_eq!(a.abort(to_b), Status::OK);
    let lonely = a.accept_from(7, 0, LIMIT).unwrap();
    let waiting = a.recv_for_ever(lonely, 8);
    assert_eq!(a.abort(lonely), Status::OK);
    let end = a.finish(1)[0];
    assert_eq!((end.token, end.status), (waiting, Status::ABORTED));
}

fn close_flushes_what_was_posted(way: Way) {
    let (mut a, to_b, mut b, to_a) = pair(way, &[]);
    let sent = pattern(0, 1, 0, 20 << 20);
    let mut received = vec![0; sent.len()];
    let token = a.send(to_b, &sent, 0);
    let waiting = a.recv_for_ever(to_b, 8);
    b.recv(to_a, &mut received);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(b.finish(1)[0].status, Status::OK);
            drive(&[&b], || b.state(to_a).0 == ChannelState::CLOSED);
        });
        assert_eq!(a.close_channel(to_b, LIMIT / 2), Status::OK);
    });
    assert!(received == sent);
    let ends = a.finish(2);
    let of = |token| ends.iter().find(|end| end.token == token).unwrap().status;
    assert_eq!((of(token), of(waiting)), (Status::OK, Status::ABORTED));
    // The handle is gone.
    let (status, taken) = a.post(&[request(WorkOp::SEND, to_b, std::ptr::null_mut(), 0, 0)]);
    assert_eq!((status, taken), (Status::USAGE, 0));
}

fn close_has_a_time_limit(way: Way) {
    let (mut a, to_b, b, to_a) = pair(way, &[]);
    let large = vec![1; 30 << 20];
    a.send(to_b, &large, 0);
    let started = Instant::now();
    assert_eq!(a.close_channel(to_b, Duration::from_millis(100)), Status::TIMEOUT);
    assert!(started.elapsed() < Duration::from_secs(5));
    assert_eq!(a.finish(1)[0].status, Status::ABORTED);
    // The same for a whole worker, whose other channels still say goodbye.
    let (mut c, d) = (Node::new(way, 2, &[]), Node::new(way, 3, &[]));
    let pairs = [
        (c.connect(&b, 0), b.accept(&c, 0)),
        (c.connect(&d, 0), d.accept(&c, 0)),
    ];
    drive(&[&b, &c, &d], || {
        is_ready(&c, pairs[0].0) && is_ready(&c, pairs[1].0) && is_ready(&d, pairs[1].1)
    });
    c.send(pairs[0].0, &large, 0);
    assert_eq!(c.close(Duration::from_millis(100)), Status::TIMEOUT);
    drive(&[&d], || d.state(pairs[1].1).0 == ChannelState::CLOSED);
    drop((b, to_a));
}

fn stale_handles_are_refused(way: Way) {
    let (mut a, to_b, b, to_a) = pair(way, &[]);
    let refused = request(WorkOp::RECV, 0, std::ptr::null_mut(), 0, 0);
    for channel in [0, to_b + 1, to_b ^ 1 << 32, u64::MAX] {
        let mut wrong = refused;
        wrong.channel = channel;
        let mut right = refused;
        right.channel = to_b;
        assert_eq!(a.post(&[right, wrong, right]), (Status::USAGE, 1), "{channel:#x}");
        assert_eq!(a.abort(channel), Status::USAGE);
        assert_eq!(a.close_channel(channel, LIMIT), Status::USAGE);
    }
    // One channel takes the place of another, and the old handle does not follow.
    assert_eq!(a.close_channel(to_b, LIMIT), Status::OK);
    let next = a.accept_from(9, 0, LIMIT).unwrap();
    assert_ne!(next, to_b);
    assert_eq!(a.abort(to_b), Status::USAGE);
    assert_eq!(a.state(next).0, ChannelState::CONNECTING);
    // The same for workers.
    let old = b.handle;
    assert_eq!(b.close(LIMIT), Status::OK);
    assert_eq!(b.close(LIMIT), Status::USAGE);
    let other = Node::new(way, 1, &[]);
    assert_ne!(other.handle, old);
    assert_eq!(b.abort(to_a), Status::USAGE);
    assert_eq!(a.recv_for_ever(next, 1), a.next_token - 1);
}

fn senseless_work_is_refused(way: Way) {
    let (a, to_b, _b, _) = pair(way, &[]);
    let mut bytes = [0_u8; 8];
    let good = request(WorkOp::RECV, to_b, bytes.as_mut_ptr(), 8, 0);
    for (status, wrong) in [
        (
            Status::UNSUPPORTED,
            request(WorkOp::PUT, to_b, bytes.as_mut_ptr(), 8, 0),
        ),
        (
            Status::UNSUPPORTED,
            request(WorkOp(99), to_b, bytes.as_mut_ptr(), 8, 0),
        ),
        (
            Status::USAGE,
            request(WorkOp::SEND, to_b, std::ptr::null_mut(), 8, 0),
        ),
        (
            Status::USAGE,
            request(WorkOp::SEND, to_b, bytes.as_mut_ptr(), (1 << 40) + 1, 0),
        ),
    ] {
        assert_eq!(a.post(&[good, wrong]), (status, 1));
    }
    assert_eq!(a.abort(to_b), Status::OK);
    assert_eq!(a.finish(4).len(), 4);
}

fn wrong_keys_do_not_meet(way: Way) {
    let other = KEY.replace("00", "01");
    let a = Node::new(way, 0, &[]);
    let b = Node::open(way, 1, &[("auth_key", &other), ("addresses", "127.0.0.2")]).unwrap();
    let (to_b, to_a) = (
        a.connect(&b, 0),
        b.accept_from(0, 0, Duration::from_millis(700)).unwrap(),
    );
    drive(&[&a, &b], || {
        a.state(to_b).0 == ChannelState::FAILED && b.state(to_a).0 == ChannelState::FAILED
    });
    let text = a.state(to_b).1;
    assert!(text.contains("secret") && text.contains("127.0.0.2:"), "{text}");
    let text = b.state(to_a).1;
    assert!(text.contains("turned away"), "{text}");
    assert!(!text.contains(&KEY[..8]) && !text.contains(&other[..8]), "{text}");
}

fn workers_without_proofs_meet_each_other_only(way: Way) {
    let open =
        |rank: u32, auth: (&str, &str)| Node::open(way, rank, &[auth, ("addresses", "127.0.0.1")]).unwrap();
    let (a, b) = (open(0, ("auth", "none")), open(1, ("auth", "none")));
    let (to_b, to_a) = (a.connect(&b, 0), b.accept(&a, 0));
    drive(&[&a, &b], || is_ready(&a, to_b) && is_ready(&b, to_a));
    let c = open(2, ("auth_key", KEY));
    let to_c = a.connect(&c, 0);
    drive(&[&a, &c], || a.state(to_c).0 == ChannelState::FAILED);
    let text = a.state(to_c).1;
    assert!(text.contains("auth = \"none\""), "{text}");
}

fn an_open_worker_names_what_is_wrong(way: Way) {
    let error = |rows: &[(&str, &str)]| Node::open(way, 0, rows).err().unwrap();
    let (status, text) = error(&[("auth", "none"), ("sndbuff", "1")]);
    assert!(status == Status::USAGE && text.contains("`sndbuf`"), "{text}");
    let (status, text) = error(&[("addresses", "127.0.0.1")]);
    assert!(status == Status::USAGE && text.contains("auth_key"), "{text}");
    let (status, text) = error(&[("auth", "none"), ("addresses", "203.0.113.1")]);
    assert!(status == Status::SYSTEM && text.contains("203.0.113.1"), "{text}");
    let node = Node::new(way, 0, &[]);
    let (status, text) = node.connect_to(b"nonsense", 1, 0, LIMIT).unwrap_err();
    assert!(status == Status::USAGE && text.contains("address"), "{text}");
    let first = node.accept_from(1, 0, LIMIT);
    assert!(first.is_ok());
    assert_eq!(node.accept_from(1, 0, LIMIT).unwrap_err().0, Status::USAGE);
}
