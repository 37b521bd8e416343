//! What plans cost this rank: scratch memory, steps, and roundings.

use super::trace::Trace;
use super::worlds::{CHUNK, Layout, Random, poor, world};
use crate::call::{Collective, RedOp, Request};
use crate::plan::choose::choose;
use crate::plan::rounding::rounding_steps;
use crate::plan::{Algorithm, World, build};
use infiniccl_reduce::{DataType, ReduceOp};

fn ways(world: &World, request: &Request) -> Vec<Algorithm> {
    let choice = choose(world, request, None).unwrap();
    choice
        .candidates
        .iter()
        .filter(|c| c.cost.is_ok())
        .map(|c| c.algorithm)
        .collect()
}

fn ops() -> Vec<(DataType, RedOp)> {
    let avg = RedOp::Fixed(ReduceOp::Avg);
    vec![
        (DataType::Float32, RedOp::Fixed(ReduceOp::Sum)),
        (DataType::Float16, avg),
        (DataType::Int8, avg),
        (DataType::Int64, avg),
        (DataType::BFloat16, RedOp::PreMulSum { scalar_bits: 1 }),
    ]
}

#[test]
fn scratch_memory_stays_small_however_long_the_message_is() {
    let mut random = Random(3);
    for layout in [Layout::Even, Layout::Uneven, Layout::Apart, Layout::Lonely] {
        let world = world(layout.topology(8, &mut random), CHUNK);
        for collective in Collective::ALL.iter().filter(|c| !c.is_message()) {
            // A sum, and one of what must be brought into another form.
            let some = 1 + random.below(ops().len() - 1);
            for (dtype, op) in [ops()[0], ops()[some]] {
                if !collective.reduces() && dtype != DataType::Float32 {
                    continue;
                }
                let blocks = !matches!(
                    collective,
                    Collective::AllReduce | Collective::Broadcast | Collective::Reduce
                );
                let elements = (128 << 20) / dtype.size() as u64;
                let request = Request {
                    collective: *collective,
                    dtype,
                    op,
                    count: if blocks { elements / 8 } else { elements },
                    root: 2,
                };
                for way in ways(&world, &request) {
                    let schedule = build::build(&world, 2, &request, None, None, way);
                    let (scratch, steps) = (schedule.scratch_bytes, schedule.actions.len());
                    let what = format!("{way} of {collective} {} {dtype} on {layout:?}", op.name());
                    assert!(scratch <= 16 << 20, "{what}: {scratch} bytes");
                    assert!(steps <= 120_000, "{what}: {steps} steps");
                }
            }
        }
    }
}

#[test]
fn a_mean_of_a_terabyte_is_cut_into_a_bounded_number_of_segments() {
    let world = world(Layout::Apart.topology(3, &mut Random(0)), CHUNK);
    let request = Request {
        collective: Collective::AllReduce,
        dtype: DataType::Int8,
        op: RedOp::Fixed(ReduceOp::Avg),
        count: 1 << 40,
        root: 0,
    };
    let schedule = build::build(&world, 0, &request, None, None, Algorithm::Direct);
    assert!(
        schedule.actions.len() < 400_000,
        "{} steps",
        schedule.actions.len()
    );
}

#[test]
fn no_result_sees_more_roundings_than_its_plan_says() {
    let mut random = Random(7);
    let fixed = RedOp::Fixed;
    for layout in Layout::ALL {
        for ranks in [2usize, 3, 7, 12] {
            let mut world = world(
                layout.topology(ranks, &mut random),
                random.pick(&[64, 128, CHUNK]),
            );
            if random.below(2) == 0 && world.topology.islands[0].len() > 1 {
                poor(&mut world, 0);
            }
            for collective in [
                Collective::AllReduce,
                Collective::Reduce,
                Collective::ReduceScatter,
            ] {
                for dtype in [DataType::Float32, DataType::Float16] {
                    let avg = fixed(ReduceOp::Avg);
                    let scaled = RedOp::PreMulSum { scalar_bits: 1 };
                    for op in [fixed(ReduceOp::Sum), random.pick(&[avg, scaled])] {
                        let request = Request {
                            collective,
                            dtype,
                            op,
                            count: 3 * ranks as u64 + 1,
                            root: random.below(ranks) as u32,
                        };
                        for way in ways(&world, &request) {
                            let most = Trace::run(&world, &request, way).most_roundings();
                            let said = rounding_steps(&world, &request, way);
                            let what = format!(
                                "{way} of {collective} {} {dtype} on {layout:?} of {ranks}",
                                op.name()
                            );
                            assert!(most <= said, "{what}: {most} roundings, {said} are said");
                            // The bound is worth something: what was said does happen.
                            let loose = matches!(
                                way,
                                Algorithm::Hierarchical { .. } | Algorithm::DoubleTree | Algorithm::Vendor
                            );
                            let scaling = u32::from(op != fixed(ReduceOp::Sum));
                            assert!(loose || most + scaling >= said, "{what}: {most}, {said} are said");
                        }
                    }
                }
            }
        }
    }
}
