//! Ten thousand ranks: one rank's plan takes bounded time, steps and memory.

use super::worlds::{CHUNK, Seat, topology, world};
use crate::call::{Collective, RedOp, Request};
use crate::plan::{Vector, World, plan};
use infiniccl_reduce::{DataType, ReduceOp};
use std::time::{Duration, Instant};

const RANKS: usize = 10_000;

fn check(world: &World, rank: u32) {
    for collective in Collective::ALL.iter().filter(|c| !c.is_message()) {
        for bytes in [8u64, 64 << 10] {
            let request = Request {
                collective: *collective,
                dtype: DataType::Float32,
                op: RedOp::Fixed(ReduceOp::Sum),
                count: bytes / 4,
                root: 4321,
            };
            let counts = vec![bytes / 4; RANKS];
            let displs: Vec<u64> = (0..RANKS as u64).map(|r| r * bytes / 4).collect();
            let vector = Vector {
                send_counts: counts.clone(),
                send_displs: displs.clone(),
                recv_counts: counts,
                recv_displs: displs,
            };
            let has_blocks = matches!(
                collective,
                Collective::AllToAllV | Collective::AllGatherV | Collective::ReduceScatterV
            );
            let vector = has_blocks.then_some(&vector);
            let begun = Instant::now();
            let planned = plan(world, rank, &request, vector, None).unwrap();
            let what = format!(
                "{} of {collective}, {bytes} bytes, on rank {rank}",
                planned.choice.algorithm
            );
            let steps = planned.schedule.actions.len() + planned.schedule.vendor_calls.len();
            let scratch = planned.schedule.scratch_bytes;
            // Some collectives meet every rank, or copy every rank's block, in a number of rounds.
            assert!(steps <= 20 * RANKS, "{what}: {steps} steps");
            assert!(scratch <= 64 << 20, "{what}: {scratch} bytes of scratch memory");
            assert!(
                begun.elapsed() < Duration::from_secs(30),
                "{what} took {:?}",
                begun.elapsed()
            );
        }
    }
}

#[test]
fn ten_thousand_ranks_on_nodes_of_eight() {
    let seats: Vec<Seat> = (0..RANKS).map(|rank| Seat::on(rank / 8)).collect();
    let world = world(topology(&seats), CHUNK);
    assert_eq!(world.topology.islands.len(), RANKS / 8);
    check(&world, 5000);
}

#[test]
fn ten_thousand_ranks_each_on_its_own() {
    let seats: Vec<Seat> = (0..RANKS).map(Seat::on).collect();
    let world = world(topology(&seats), CHUNK);
    check(&world, 77);
}
