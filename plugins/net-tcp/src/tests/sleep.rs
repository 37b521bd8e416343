//! Sleeping on the descriptor: it wakes for everything that poll can do, and for nothing else.

use super::{LIMIT, Node, Way, both_ways, drive, is_ready, pair, pattern};
use infiniccl_plugin_api::{ChannelState, Status};
use std::time::Duration;

both_ways! {
    sleepers_wake_for_data_room_and_connections
    a_sleeper_is_not_woken_again_and_again_by_what_it_does_not_ask_for
    time_limits_wake_the_sleeper
}

/// Polls, asleep in between, until so many completions came; returns how often it slept, and says so before.
fn finish_asleep(node: &Node, count: usize, before_sleep: impl Fn()) -> usize {
    let (mut seen, mut slept) = (0, 0);
    while seen < count {
        node.arm();
        let ends = node.poll();
        assert!(ends.iter().all(|end| end.status == Status::OK), "{ends:?}");
        seen += ends.len();
        if ends.is_empty() {
            slept += 1;
            before_sleep();
            assert!(
                node.sleep(LIMIT / 2),
                "rank {} was not woken; {seen} of {count}",
                node.rank
            );
        }
    }
    slept
}

fn sleepers_wake_for_data_room_and_connections(way: Way) {
    let (a, b) = (Node::new(way, 0, &[]), Node::new(way, 1, &[]));
    let (to_b, to_a) = (a.connect(&b, 0), b.accept(&a, 0));
    let (asleep, noticed) = std::sync::mpsc::channel();
    let converse = |mut node: Node, channel, peer, before_sleep: &dyn Fn()| {
        let mut slept = 0;
        for (message, size) in [1, 100_000, 30 << 20, 8, 9000].into_iter().enumerate() {
            let message = message as u32;
            let sent = pattern(node.rank, peer, message, size);
            let mut received = vec![0; size];
            node.recv(channel, &mut received);
            node.send(channel, &sent, 0);
            slept += finish_asleep(&node, 2, before_sleep);
            assert!(
                received == pattern(peer, node.rank, message, size),
                "{size} bytes"
            );
        }
        assert_eq!(node.close(LIMIT), Status::OK);
        slept
    };
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // The other end has nothing to do yet but to sleep.
            noticed.recv_timeout(LIMIT / 2).unwrap();
            converse(a, to_b, 1, &|| {});
        });
        // Nobody listens to the later words.
        let slept = converse(b, to_a, 0, &|| asleep.send(()).unwrap_or_default());
        assert!(slept > 0);
    });
}

fn a_sleeper_is_not_woken_again_and_again_by_what_it_does_not_ask_for(way: Way) {
    let (mut a, to_b, mut b, to_a) = pair(way, &[]);
    let sent = pattern(0, 1, 0, 200_000);
    a.send(to_b, &sent, 0);
    // As much as fits is here, and b does not ask for it.
    let mut woken = 0;
    for _ in 0..200 {
        a.poll();
        b.arm();
        assert!(b.poll().is_empty());
        woken += usize::from(b.sleep(Duration::from_millis(1)));
    }
    assert!(woken < 50, "woken {woken} times");
    b.arm();
    b.poll();
    assert!(!b.sleep(Duration::from_millis(50)), "nothing new came");
    // Now it asks, asleep.
    let mut received = vec![0; sent.len()];
    b.recv(to_a, &mut received);
    let mut done = false;
    drive(&[&a], || {
        b.arm();
        done |= !b.poll().is_empty();
        done || !b.sleep(Duration::from_millis(200)) && panic!("not woken")
    });
    assert!(received == sent);
}

fn time_limits_wake_the_sleeper(way: Way) {
    let (a, b) = (Node::new(way, 0, &[]), Node::new(way, 1, &[]));
    let accepting = b.accept_from(0, 0, Duration::from_millis(50)).unwrap();
    // Nobody listens any more where this leads.
    let address = a.address.clone();
    a.die();
    let connecting = b.connect_to(&address, 0, 1, Duration::from_millis(80)).unwrap();
    let over = |channel| b.state(channel).0 == ChannelState::FAILED;
    while !(over(accepting) && over(connecting)) {
        b.arm();
        b.poll();
        if !(over(accepting) && over(connecting)) {
            assert!(b.sleep(LIMIT / 2));
        }
    }
    let text = b.state(accepting).1;
    assert!(
        text.contains("rank 0 did not connect") && text.contains("127.0.0.2"),
        "{text}"
    );
    let text = b.state(connecting).1;
    assert!(
        text.contains("127.0.0.1:") && text.contains("refused") && text.contains("tries"),
        "{text}"
    );
    assert!(!is_ready(&b, accepting));
}
