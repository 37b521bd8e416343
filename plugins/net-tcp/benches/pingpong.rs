//! Half a round trip, and the rate of both directions at once, between two threads over loopback, through the table.
//!
//! `cargo bench -p infiniccl-plugin-net-tcp`; each figure is the median of samples, each of which is the mean of many
//! messages. Both ends spin, so that they need a core each.

#[path = "../tests/ends/mod.rs"]
mod ends;

use ends::End;
use infiniccl_plugin_api::WorkOp;
use std::time::{Duration, Instant};

const SAMPLES: usize = 15;
const LATENCIES: [(usize, u32); 4] = [(8, 2000), (1 << 10, 2000), (64 << 10, 500), (1 << 20, 40)];
const RATES: [(usize, u32); 3] = [(64 << 10, 500), (1 << 20, 60), (16 << 20, 4)];

/// Mean time of a round trip.
fn ping_pong(end: &End, first: bool, rounds: u32, sent: &mut [u8], received: &mut [u8]) -> Duration {
    let started = Instant::now();
    for _ in 0..rounds {
        if first {
            end.post(&[
                end.request(WorkOp::RECV, received),
                end.request(WorkOp::SEND, sent),
            ]);
            end.wait_for(2);
        } else {
            end.post(&[end.request(WorkOp::RECV, received)]);
            end.wait_for(1);
            end.post(&[end.request(WorkOp::SEND, sent)]);
            end.wait_for(1);
        }
    }
    started.elapsed() / rounds
}

/// Mean time in which both ends send and receive a message.
fn both_ways(end: &End, rounds: u32, sent: &mut [u8], received: &mut [u8]) -> Duration {
    let started = Instant::now();
    for _ in 0..rounds {
        end.post(&[
            end.request(WorkOp::RECV, received),
            end.request(WorkOp::SEND, sent),
        ]);
        end.wait_for(2);
    }
    started.elapsed() / rounds
}

fn run(end: &End, first: bool) {
    for (size, rounds) in LATENCIES {
        let (mut sent, mut received) = (vec![1; size], vec![0; size]);
        let samples = (0..SAMPLES)
            .map(|_| ping_pong(end, first, rounds, &mut sent, &mut received))
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
            .map(|_| both_ways(end, rounds, &mut sent, &mut received))
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
    let [first, second] = End::pair();
    std::thread::scope(|scope| {
        scope.spawn(|| run(&second, false));
        run(&first, true);
    });
    first.close();
    second.close();
}
