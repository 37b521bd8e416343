//! Half a round trip, and the rate of both directions at once, between two threads over loopback, through the table.
//!
//! `cargo bench -p infiniccl-plugin-net-tcp`; each figure is the median of samples, each of which is the mean of many
//! messages. Both ends spin, so that they need a core each.

use infiniccl_plugin_api::{
    Buffer, ChannelParams, ChannelState, Completion, NetTableRef, Property, Status, WorkOp, WorkRequest,
    last_error_text,
};
use infiniccl_plugin_net_tcp::plugin_root;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

const SAMPLES: usize = 15;
const LATENCIES: [(usize, u32); 4] = [(8, 2000), (1 << 10, 2000), (64 << 10, 500), (1 << 20, 40)];
const RATES: [(usize, u32); 3] = [(64 << 10, 500), (1 << 20, 60), (16 << 20, 4)];

struct End {
    table: NetTableRef,
    worker: u64,
    channel: u64,
}

impl End {
    fn open(rank: u32, to_peer: &Sender<Vec<u8>>, from_peer: &Receiver<Vec<u8>>) -> Self {
        let table = plugin_root().net().into_option().expect("net-tcp has a table");
        let rows = [
            Property::new("auth", "none"),
            Property::new("addresses", "127.0.0.1"),
        ];
        let mut end = End {
            table,
            worker: 0,
            channel: 0,
        };
        let count = rows.len() as u64;
        check(table.worker_open()(
            0,
            std::ptr::null(),
            rows.as_ptr(),
            count,
            &mut end.worker,
        ));
        let (mut address, mut len) = ([0; 256], 0);
        check(table.listen()(end.worker, Buffer::over(&mut address, &mut len)));
        to_peer
            .send(address[..len as usize].to_vec())
            .expect("the peer listens");
        let peer = from_peer.recv().expect("the peer answers");
        let params = ChannelParams {
            local_rank: rank,
            remote_rank: 1 - rank,
            lane: 0,
            flags: 0,
            timeout_ns: 10_000_000_000,
            reserved: [0; 2],
        };
        check(match rank {
            0 => table.connect()(
                end.worker,
                peer.as_ptr(),
                peer.len() as u64,
                &params,
                &mut end.channel,
            ),
            _ => table.accept()(end.worker, &params, &mut end.channel),
        });
        end.wait_until_ready();
        end
    }

    fn wait_until_ready(&self) {
        let started = Instant::now();
        loop {
            self.poll();
            let (mut state, mut text, mut len) = (ChannelState::FAILED, [0; 512], 0);
            check(self.table.channel_state()(
                self.worker,
                self.channel,
                &mut state,
                Buffer::over(&mut text, &mut len),
            ));
            match state {
                ChannelState::READY => return,
                ChannelState::CONNECTING if started.elapsed() < Duration::from_secs(10) => {}
                _ => panic!("{}", String::from_utf8_lossy(&text[..len as usize])),
            }
        }
    }

    fn request(&self, op: WorkOp, bytes: &mut [u8]) -> WorkRequest {
        WorkRequest {
            op,
            imm: 0,
            channel: self.channel,
            addr: bytes.as_mut_ptr(),
            len: bytes.len() as u64,
            key: 0,
            token: 0,
            remote_addr: 0,
            remote_key: 0,
            flags: 0,
            reserved: [0; 2],
        }
    }

    fn post(&self, requests: &[WorkRequest]) {
        let mut accepted = 0;
        check(self.table.post()(
            self.worker,
            requests.as_ptr(),
            requests.len() as u64,
            &mut accepted,
        ));
        assert_eq!(accepted, requests.len() as u64);
    }

    fn poll(&self) -> u64 {
        let mut ends = [const { std::mem::MaybeUninit::<Completion>::uninit() }; 8];
        let mut count = 0;
        check(self.table.poll()(
            self.worker,
            ends.as_mut_ptr().cast(),
            8,
            &mut count,
        ));
        for end in &ends[..count as usize] {
            // SAFETY: the first `count` were written.
            check(unsafe { end.assume_init_ref() }.status);
        }
        count
    }

    fn wait_for(&self, count: u64) {
        let mut seen = 0;
        while seen < count {
            seen += self.poll();
        }
    }

    /// Mean time of a round trip.
    fn ping_pong(&self, first: bool, rounds: u32, sent: &mut [u8], received: &mut [u8]) -> Duration {
        let started = Instant::now();
        for _ in 0..rounds {
            if first {
                self.post(&[
                    self.request(WorkOp::RECV, received),
                    self.request(WorkOp::SEND, sent),
                ]);
                self.wait_for(2);
            } else {
                self.post(&[self.request(WorkOp::RECV, received)]);
                self.wait_for(1);
                self.post(&[self.request(WorkOp::SEND, sent)]);
                self.wait_for(1);
            }
        }
        started.elapsed() / rounds
    }

    /// Mean time in which both ends send and receive a message.
    fn both_ways(&self, rounds: u32, sent: &mut [u8], received: &mut [u8]) -> Duration {
        let started = Instant::now();
        for _ in 0..rounds {
            self.post(&[
                self.request(WorkOp::RECV, received),
                self.request(WorkOp::SEND, sent),
            ]);
            self.wait_for(2);
        }
        started.elapsed() / rounds
    }
}

fn check(status: Status) {
    assert!(status.is_ok(), "{}: {}", status.name(), last_error_text());
}

fn run(end: &End, first: bool) {
    for (size, rounds) in LATENCIES {
        let (mut sent, mut received) = (vec![1; size], vec![0; size]);
        let samples = (0..SAMPLES)
            .map(|_| end.ping_pong(first, rounds, &mut sent, &mut received))
            .collect();
        if first {
            let (least, median) = least_and_median(samples);
            println!(
                "half round trip {size:>9} B: {:>9.2} us median, {:>9.2} us least",
                median.as_secs_f64() * 5e5,
                least.as_secs_f64() * 5e5
            );
        }
    }
    for (size, rounds) in RATES {
        let (mut sent, mut received) = (vec![1; size], vec![0; size]);
        let samples = (0..SAMPLES)
            .map(|_| end.both_ways(rounds, &mut sent, &mut received))
            .collect();
        if first {
            let (least, median) = least_and_median(samples);
            let rate = |time: Duration| size as f64 / time.as_secs_f64() / 1e9;
            println!(
                "both ways       {size:>9} B: {:>9.2} us median, {:>9.2} us least; {:.2} GB/s each way, {:.2} most",
                median.as_secs_f64() * 1e6,
                least.as_secs_f64() * 1e6,
                rate(median),
                rate(least)
            );
        }
    }
}

fn least_and_median(mut samples: Vec<Duration>) -> (Duration, Duration) {
    samples.sort_unstable();
    (samples[0], samples[samples.len() / 2])
}

fn main() {
    let ((to_second, from_first), (to_first, from_second)) = (channel(), channel());
    let second = std::thread::spawn(move || {
        let end = End::open(1, &to_first, &from_first);
        run(&end, false);
        check(end.table.worker_close()(end.worker, 1_000_000_000));
    });
    let end = End::open(0, &to_second, &from_second);
    run(&end, true);
    check(end.table.worker_close()(end.worker, 1_000_000_000));
    second.join().expect("the other end is done");
}
