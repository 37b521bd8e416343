//! The measuring loop: samples of several calls back to back on rank 0's clock, with the counts agreed by all ranks.
//!
//! An AllReduce or AllGather cannot end before every rank has entered, so no barrier stands between the calls, which
//! would be measured along. A sample is the mean of so many calls that it lasts about 200 us; from 1 MiB on, of one.

use std::time::Instant;

use infiniccl::{Communicator, ReduceOp};

use crate::AnyError;
use crate::operation::{Buffers, Operation};

const SAMPLE_US: f64 = 200.0;
const MOST_CALLS_IN_A_SAMPLE: u64 = 64;
const MOST_SAMPLES: u64 = 2000;

/// One line of the result.
#[derive(Debug)]
pub(crate) struct Line {
    /// Timed calls.
    pub(crate) calls: u64,
    pub(crate) min_us: f64,
    pub(crate) p50_us: f64,
    pub(crate) p95_us: f64,
    /// Whether all results of all ranks were right.
    pub(crate) right: bool,
}

/// Measures one operation at one size; all ranks call it.
pub(crate) fn line(
    comm: &Communicator,
    operation: Operation,
    bytes: usize,
    seconds: f64,
) -> Result<Line, AnyError> {
    let mut buffers = Buffers::new(operation, bytes, comm.rank(), comm.size());
    agree(comm, 1)?;
    buffers.call(comm)?;
    // Of a ping-pong, ranks other than the two have no part.
    let mut right = buffers.is_right();
    agree(comm, 1)?;

    let estimate = warm_up(comm, &mut buffers, bytes)?;
    let (calls, samples) = counts(bytes, estimate, seconds);
    let calls = agree(comm, calls)?;
    let samples = agree(comm, samples)?;

    buffers.spoil();
    let mut times = Vec::with_capacity(usize::try_from(samples)?);
    for _ in 0..samples {
        let began = Instant::now();
        for _ in 0..calls {
            buffers.call(comm)?;
        }
        times.push(
            microseconds(began)
                / calls as f64
                / if operation == Operation::PingPong {
                    2.0
                } else {
                    1.0
                },
        );
    }
    right &= buffers.is_right();
    // One rank's wrong result is everybody's.
    let mut wrong = [u64::from(!right)];
    comm.all_reduce_in_place(&mut wrong, ReduceOp::Max)?;

    times.sort_by(f64::total_cmp);
    Ok(Line {
        calls: samples * calls,
        min_us: times[0],
        p50_us: times[times.len() / 2],
        p95_us: times[times.len() * 95 / 100],
        right: wrong[0] == 0,
    })
}

/// Calls that are not timed; the best of up to five parts, so that one pre-emption does not set the counts.
fn warm_up(comm: &Communicator, buffers: &mut Buffers, bytes: usize) -> Result<f64, AnyError> {
    let total = match bytes {
        0..0x10_0000 => 30,
        0x10_0000..0x100_0000 => 4,
        _ => 1,
    };
    let part = (total / 5).max(1);
    let mut best = f64::INFINITY;
    for _ in 0..total / part {
        let began = Instant::now();
        for _ in 0..part {
            buffers.call(comm)?;
        }
        best = best.min(microseconds(began) / f64::from(part));
    }
    Ok(best)
}

/// Calls in a sample, and samples, for calls that last `estimate` microseconds.
fn counts(bytes: usize, estimate: f64, seconds: f64) -> (u64, u64) {
    let calls = if bytes >= 1 << 20 {
        1
    } else {
        ((SAMPLE_US / estimate).ceil() as u64).clamp(1, MOST_CALLS_IN_A_SAMPLE)
    };
    let samples = (seconds * 1e6 / (estimate * calls as f64)) as u64;
    let fewest = if estimate > 0.4e6 { 3 } else { 5 };
    (calls, samples.clamp(fewest, MOST_SAMPLES))
}

/// Rank 0's number, on every rank.
fn agree(comm: &Communicator, number: u64) -> Result<u64, AnyError> {
    let mut agreed = [if comm.rank() == 0 { number } else { 0 }];
    comm.all_reduce_in_place(&mut agreed, ReduceOp::Sum)?;
    Ok(agreed[0])
}

fn microseconds(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_long_enough_and_not_too_many() {
        assert_eq!(counts(8, 1.0, 1.0), (64, 2000));
        assert_eq!(counts(8, 50.0, 1.0), (4, 2000));
        assert_eq!(counts(65536, 1000.0, 1.0), (1, 1000));
        assert_eq!(counts(16 << 20, 4000.0, 1.0), (1, 250));
        assert_eq!(counts(128 << 20, 0.5e6, 1.0), (1, 3));
    }
}
