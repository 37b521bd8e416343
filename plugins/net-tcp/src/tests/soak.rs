//! Random traffic, asleep and awake, among signals; and what a fork leaves behind.

use super::{LIMIT, Node, Way, both_ways, drive, is_ready, pair, pattern};
use infiniccl_plugin_api::{ChannelState, Status};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

both_ways! {
    random_traffic_on_many_channels
    signals_interrupt_nothing
    forked_children_keep_nothing_alive
    two_threads_at_once_are_refused
}

/// A small generator; its seed is fixed, so that a failure repeats.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    fn size(&mut self) -> usize {
        let most = [1, 40, 3000, 20_000, 100_000, 900_000][self.below(6) as usize];
        self.below(most + 1) as usize
    }
}

/// What both ends know of a message before it is sent.
fn sizes(seed: u64, channels: usize, messages: usize) -> Vec<Vec<usize>> {
    let mut random = Random(seed);
    (0..channels)
        .map(|_| (0..messages).map(|_| random.size()).collect())
        .collect()
}

/// Sends and receives `messages` on each channel, a few at a time, in an order of its own, sleeping now and then.
fn converse(mut node: Node, channels: &[u64], peer: u32, messages: usize, seed: u64) {
    let rank = node.rank;
    let out = sizes(u64::from(rank) + seed, channels.len(), messages);
    let back = sizes(u64::from(peer) + seed, channels.len(), messages);
    let mut random = Random(seed * 31 + u64::from(rank) + 1);
    let mut sending: Vec<Vec<u8>> = vec![Vec::new(); channels.len()];
    let mut receiving = sending.clone();
    let (mut sent, mut received) = (vec![0; channels.len()], vec![0; channels.len()]);
    let (mut busy_out, mut busy_in) = (vec![false; channels.len()], vec![false; channels.len()]);
    let number = |lane: usize, message: usize| (lane * messages + message) as u32;
    let deadline = Instant::now() + LIMIT / 2;
    while sent.iter().chain(&received).any(|count| *count < messages) {
        for lane in 0..channels.len() {
            if !busy_out[lane] && sent[lane] < messages && random.below(3) > 0 {
                sending[lane] = pattern(rank, peer, number(lane, sent[lane]), out[lane][sent[lane]]);
                let bytes = std::mem::take(&mut sending[lane]);
                node.next_token = 2 * lane as u64;
                node.send(channels[lane], &bytes, sent[lane] as u32);
                sending[lane] = bytes;
                busy_out[lane] = true;
            }
            if !busy_in[lane] && received[lane] < messages && random.below(3) > 0 {
                receiving[lane] = vec![0; back[lane][received[lane]]];
                let mut bytes = std::mem::take(&mut receiving[lane]);
                node.next_token = 2 * lane as u64 + 1;
                node.recv(channels[lane], &mut bytes);
                receiving[lane] = bytes;
                busy_in[lane] = true;
            }
        }
        let asleep = random.below(4) == 0;
        if asleep {
            node.arm();
        }
        let ends = node.poll_at_most(1 + random.below(5) as usize);
        if asleep && ends.is_empty() && busy_out.iter().chain(&busy_in).any(|busy| *busy) {
            // The peer may be waiting for work that this end has not posted yet, so not for long.
            node.sleep(Duration::from_millis(20));
        }
        for end in ends {
            assert_eq!(end.status, Status::OK);
            let lane = end.token as usize / 2;
            if end.token % 2 == 0 {
                busy_out[lane] = false;
                sent[lane] += 1;
            } else {
                let message = received[lane];
                assert_eq!((end.bytes, end.imm), (back[lane][message] as u64, message as u32));
                let right = pattern(peer, rank, number(lane, message), back[lane][message]);
                assert!(
                    receiving[lane] == right,
                    "message {message} of lane {lane} to {rank}"
                );
                busy_in[lane] = false;
                received[lane] += 1;
            }
        }
        assert!(
            Instant::now() < deadline,
            "rank {rank}: sent {sent:?}, received {received:?}"
        );
    }
    assert_eq!(node.close(LIMIT / 2), Status::OK);
}

fn conversation(way: Way, lanes: u32, messages: usize, seed: u64) {
    let (a, b) = (Node::new(way, 0, &[]), Node::new(way, 1, &[]));
    let (at_a, at_b): (Vec<u64>, Vec<u64>) = (0..lanes)
        .map(|lane| (a.connect(&b, lane), b.accept(&a, lane)))
        .unzip();
    drive(&[&a, &b], || {
        at_a.iter().all(|channel| is_ready(&a, *channel)) && at_b.iter().all(|channel| is_ready(&b, *channel))
    });
    std::thread::scope(|scope| {
        scope.spawn(|| converse(a, &at_a, 1, messages, seed));
        scope.spawn(|| converse(b, &at_b, 0, messages, seed));
    });
}

fn random_traffic_on_many_channels(way: Way) {
    conversation(way, 3, 40, 11);
    conversation(way, 14, 12, 12);
}

fn signals_interrupt_nothing(way: Way) {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: a handler that does nothing, for a signal that nobody else uses; without SA_RESTART.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as usize;
        libc::sigaction(libc::SIGUSR2, &raw const action, std::ptr::null_mut());
    }
    // SAFETY: no arguments.
    let target = unsafe { libc::pthread_self() };
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                // SAFETY: the thread lives as long as this scope.
                unsafe { libc::pthread_kill(target, libc::SIGUSR2) };
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        for _ in 0..5 {
            let (mut a, to_b, mut b, to_a) = pair(way, &[("sndbuf", "4096")]);
            let (sent, mut received) = (pattern(0, 1, 0, 300_000), vec![0; 300_000]);
            let mut left = 2;
            a.send(to_b, &sent, 0);
            b.recv(to_a, &mut received);
            while left > 0 {
                for node in [&a, &b] {
                    node.arm();
                    left -= node.poll().len();
                    if left > 0 {
                        node.sleep(Duration::from_micros(1500));
                    }
                }
            }
            assert!(received == sent);
            assert_eq!(a.close(LIMIT), Status::OK);
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// A child that holds every descriptor of this process until it is dropped.
struct Child(libc::pid_t);

impl Child {
    fn fork() -> Self {
        // SAFETY: the child only waits, which is allowed after a fork of a process with threads.
        match unsafe { libc::fork() } {
            0 => loop {
                // SAFETY: no arguments.
                unsafe { libc::pause() };
            },
            pid => {
                assert!(pid > 0);
                Self(pid)
            }
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: a child of this process that was not waited for yet.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, std::ptr::null_mut(), 0);
        }
    }
}

fn forked_children_keep_nothing_alive(way: Way) {
    let (mut a, to_b, b, to_a) = pair(way, &[]);
    let child = Child::fork();
    // The child holds both sockets; the ends are noticed all the same.
    a.recv_for_ever(to_b, 8);
    assert_eq!(b.close_channel(to_a, LIMIT), Status::OK);
    assert_eq!(a.finish(1)[0].status, Status::REMOTE);
    assert_eq!(a.state(to_b).0, ChannelState::CLOSED);
    drop(child);

    let (mut a, to_b, b, to_a) = pair(way, &[]);
    let child = Child::fork();
    a.recv_for_ever(to_b, 8);
    assert_eq!(b.abort(to_a), Status::OK);
    assert_eq!(a.finish(1)[0].status, Status::REMOTE);
    // Nor does what the child still holds wake anybody.
    b.arm();
    b.poll();
    assert!(!b.sleep(Duration::from_millis(30)));
    drop(child);

    // And the end of a child is not the end of the connection.
    let (mut a, to_b, mut b, to_a) = pair(way, &[]);
    drop(Child::fork());
    let (sent, mut received) = (pattern(0, 1, 0, 1000), vec![0; 1000]);
    a.send(to_b, &sent, 0);
    b.recv(to_a, &mut received);
    super::drive_for(&[&a, &b], 2);
    assert!(received == sent);
}

fn two_threads_at_once_are_refused(way: Way) {
    let (a, to_b, _b, _) = pair(way, &[]);
    let inside = crate::registry::with(a.handle, |_| {
        // While this call lasts, another thread comes with the same worker.
        Ok(std::thread::scope(|scope| {
            scope.spawn(|| (a.abort(to_b), a.close(LIMIT))).join().unwrap()
        }))
    });
    assert_eq!(inside.unwrap(), (Status::USAGE, Status::USAGE));
    assert!(is_ready(&a, to_b), "nothing was done");
}
