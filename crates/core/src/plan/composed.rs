//! The plans of all ranks, run together in the simulator: every algorithm that may be chosen gives the result that
//! the collective promises, on islands of all shapes.

mod call;

use super::choose::{Algorithm, choose};
use super::{LinkCost, Settings, World};
use crate::call::{Collective, RedOp};
use crate::capability::{Capabilities, Demands};
use crate::topology::{Placement, Topology};
use call::{Call, is_v, random};
use infiniccl_plugin_api::{CapRow, MemKind, Scope};
use infiniccl_reduce::{DataType, ReduceOp};

/// Where ranks live: each number is an island, and two islands share a node.
const PLACES: &[&[u32]] = &[
    &[0],
    &[0, 0],
    &[0, 1],
    &[0, 0, 0],
    &[0, 1, 0, 1],
    &[0, 0, 0, 1, 1],
    &[0, 1, 2, 3, 4],
    &[0, 1, 0, 2, 1, 0],
    &[0, 0, 1, 1, 2, 2, 3],
    &[0, 1, 1, 0, 2, 0, 1, 2],
    &[0, 0, 0, 0, 1, 0, 0, 0, 0],
    &[0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1],
];

/// Islands whose library does everything, or nothing.
fn world(places: &[u32], native: bool, chunk: u64) -> World {
    let place = |island: &u32| Placement {
        node: format!("node{}", island / 2),
        island: format!("island{island}"),
        numa: island % 3,
        device: 0,
        vendor: "mock".into(),
        host: format!("host{}", island / 2),
        arithmetic: "ieee".into(),
    };
    let topology = Topology::new(&places.iter().map(place).collect::<Vec<_>>());
    let row = |collective: &Collective| CapRow {
        collective: collective.abi(),
        scope: Scope::NODE,
        dtype_mask: u64::MAX,
        op_mask: u64::MAX,
        mem_mask: 1 << MemKind::HOST.0,
        min_ranks: 1,
        max_ranks: 0,
        min_bytes: 0,
        max_bytes: 0,
        flags: u64::MAX,
        alpha_ns: 0,
        beta_ps_per_byte: 0,
        reserved: [0; 2],
    };
    let whole = Collective::ALL
        .iter()
        .filter(|c| !c.is_message() && !is_v(**c) && **c != Collective::Barrier);
    let rows: Vec<CapRow> = if native { whole.map(row).collect() } else { vec![] };
    let island = Capabilities {
        rows,
        ..Capabilities::none("mock", vec![], Demands::default())
    };
    World {
        capabilities: vec![island; topology.islands.len()],
        topology,
        settings: Settings { rules: vec![], chunk },
        near: LinkCost {
            alpha_ns: 2_000,
            beta_ps: 100,
        },
        far: LinkCost {
            alpha_ns: 20_000,
            beta_ps: 300,
        },
        gamma_ps: 50,
    }
}

/// All algorithms that the planner would consider.
fn candidates(world: &World, call: &Call) -> Vec<Algorithm> {
    let choice = choose(world, &call.request(0)).unwrap();
    choice
        .candidates
        .iter()
        .filter(|c| c.cost.is_ok())
        .map(|c| c.algorithm)
        .collect()
}

fn operators(p: usize) -> Vec<(DataType, Vec<RedOp>)> {
    let same = |dtype, op| (dtype, vec![RedOp::Fixed(op); p]);
    let scalar = |rank: usize| u64::from(((rank % 3 + 1) as f32 * 0.5).to_bits());
    let scaled = (0..p)
        .map(|rank| RedOp::PreMulSum {
            scalar_bits: scalar(rank),
        })
        .collect();
    vec![
        same(DataType::Int64, ReduceOp::Sum),
        same(DataType::Uint8, ReduceOp::Max),
        same(DataType::Bool, ReduceOp::Sum),
        same(DataType::Float16, ReduceOp::Sum),
        same(DataType::Float32, ReduceOp::Avg),
        same(DataType::Float16, ReduceOp::Avg),
        same(DataType::Int8, ReduceOp::Avg),
        same(DataType::Int32, ReduceOp::Avg),
        same(DataType::Uint64, ReduceOp::Avg),
        (DataType::Float32, scaled),
    ]
}

fn check(collectives: &[Collective]) {
    let mut next = random(collectives.len() as u64);
    let mut vendor_plans = 0;
    for (native, places) in [true, false]
        .into_iter()
        .flat_map(|n| PLACES.iter().map(move |p| (n, p)))
    {
        let p = places.len();
        for collective in collectives {
            let mut kinds = vec![(DataType::Int16, vec![RedOp::Fixed(ReduceOp::Sum); p])];
            if collective.reduces() {
                kinds = operators(p);
            }
            for (dtype, ops) in kinds {
                for count in [[0, 1, 9][next() as usize % 3], 40 + next() % 100] {
                    let mut length = || {
                        if next().is_multiple_of(4) {
                            0
                        } else {
                            next() % (count + 1)
                        }
                    };
                    let mut row = |_| (0..p).map(|_| length()).collect();
                    let lengths = (0..p).map(&mut row).collect();
                    let (root, in_place) = (next() as usize % p, next().is_multiple_of(2));
                    let ops = ops.clone();
                    let call = Call {
                        collective: *collective,
                        dtype,
                        ops,
                        count,
                        root,
                        lengths,
                        in_place,
                    };
                    let world = world(places, native, [64, 256, 1 << 20][next() as usize % 3]);
                    // Half of them here, the others with the next data type or count.
                    for algorithm in candidates(&world, &call) {
                        if next().is_multiple_of(2) {
                            continue;
                        }
                        let vendor = matches!(algorithm, Algorithm::Vendor | Algorithm::Hierarchical { .. });
                        vendor_plans += usize::from(vendor);
                        // Flat plans are the same whatever the islands can do.
                        if vendor || !native {
                            call.check(&world, algorithm, next());
                        }
                    }
                }
            }
        }
    }
    let expects_vendor = collectives.iter().any(|c| !is_v(*c));
    assert_eq!(vendor_plans > 0, expects_vendor);
}

#[test]
fn all_reduce() {
    check(&[Collective::AllReduce]);
}

#[test]
fn reduce() {
    check(&[Collective::Reduce]);
}

#[test]
fn reduce_scatter() {
    check(&[Collective::ReduceScatter]);
}

#[test]
fn reduce_scatter_v() {
    check(&[Collective::ReduceScatterV]);
}

#[test]
fn broadcast_and_all_gather() {
    check(&[Collective::Broadcast, Collective::AllGather]);
}

#[test]
fn gather_and_scatter() {
    check(&[Collective::Gather, Collective::Scatter]);
}

#[test]
fn all_to_all() {
    check(&[Collective::AllToAll]);
}

#[test]
fn vectors() {
    check(&[Collective::AllGatherV, Collective::AllToAllV]);
}

#[test]
fn means_of_more_elements_than_are_widened_at_once() {
    let mut next = random(1);
    let places = [0, 0, 1];
    let (p, world) = (places.len(), world(&places, true, 1 << 18));
    for collective in [
        Collective::AllReduce,
        Collective::Reduce,
        Collective::ReduceScatter,
    ] {
        let count = (128 << 10) + 5;
        let (dtype, ops) = (DataType::Uint8, vec![RedOp::Fixed(ReduceOp::Avg); p]);
        let lengths = vec![vec![0; p]];
        let call = Call {
            collective,
            dtype,
            ops,
            count,
            root: 1,
            lengths,
            in_place: true,
        };
        let candidates = candidates(&world, &call);
        call.check(&world, candidates[next() as usize % candidates.len()], next());
    }
}
