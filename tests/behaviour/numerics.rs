//! Results that the contract fixes to the bit.

use crate::world::{World, layouts};
use infiniccl::{Element, F8E4M3, F8E5M2, ReduceOp};
use std::fmt::Debug;

/// Layouts of three and five ranks: one island, several, uneven, interleaved.
fn worlds(ranks: u32) -> Vec<World> {
    layouts(ranks)
        .into_iter()
        .map(|(_, nodes)| World::new(&nodes))
        .collect()
}

fn average<T: Element + PartialEq + Debug>(world: &World, values: &[T], want: T) {
    let results = world.run(|comm| {
        let mine = values[comm.rank() as usize];
        let mut all = [mine; 5];
        comm.all_reduce_in_place(&mut all, ReduceOp::Avg)
            .expect("avg works everywhere");
        let mut reduced = [mine; 3];
        comm.reduce_in_place(&mut reduced, ReduceOp::Avg, 1)
            .expect("avg works everywhere");
        let mut part = [mine; 2];
        let send = vec![mine; 2 * comm.size() as usize];
        comm.reduce_scatter(&send, &mut part, ReduceOp::Avg)
            .expect("avg works everywhere");
        (all, reduced, part)
    });
    for (rank, (all, reduced, part)) in results.into_iter().enumerate() {
        assert_eq!(all, [want; 5], "all_reduce on rank {rank}");
        assert_eq!(part, [want; 2], "reduce_scatter on rank {rank}");
        let expected = if rank == 1 { want } else { values[rank] };
        assert_eq!(reduced, [expected; 3], "reduce on rank {rank}");
    }
}

#[test]
fn the_mean_of_2_4_6_is_4_in_every_type() {
    for world in worlds(3) {
        average(&world, &[2i8, 4, 6], 4);
        average(&world, &[2i16, 4, 6], 4);
        average(&world, &[2i32, 4, 6], 4);
        average(&world, &[2i64, 4, 6], 4);
        average(&world, &[2u8, 4, 6], 4);
        average(&world, &[2u16, 4, 6], 4);
        average(&world, &[2u32, 4, 6], 4);
        average(&world, &[2u64, 4, 6], 4);
        average(&world, &[2f32, 4.0, 6.0], 4.0);
        average(&world, &[2f64, 4.0, 6.0], 4.0);
        average(
            &world,
            &[2.0, 4.0, 6.0].map(half::f16::from_f32),
            half::f16::from_f32(4.0),
        );
        average(
            &world,
            &[2.0, 4.0, 6.0].map(half::bf16::from_f32),
            half::bf16::from_f32(4.0),
        );
        average(
            &world,
            &[2.0, 4.0, 6.0].map(F8E4M3::from_f32),
            F8E4M3::from_f32(4.0),
        );
        average(
            &world,
            &[2.0, 4.0, 6.0].map(F8E5M2::from_f32),
            F8E5M2::from_f32(4.0),
        );
    }
}

#[test]
fn integer_means_do_not_wrap_and_truncate_toward_zero() {
    for world in worlds(3) {
        average(&world, &[120i8, 121, 122], 121);
        average(&world, &[-120i8, -121, -123], -121);
        average(&world, &[-1i32, 0, -1], 0);
        average(&world, &[1i32, 0, 1], 0);
        average(&world, &[i32::MAX, i32::MAX, i32::MAX - 3], i32::MAX - 1);
        average(&world, &[i64::MIN, i64::MIN, i64::MIN], i64::MIN);
        average(&world, &[u64::MAX, u64::MAX - 3, u64::MAX - 3], u64::MAX - 2);
        // a path through f64 would round these
        average(
            &world,
            &[(1u64 << 53) + 1, (1 << 53) + 3, (1 << 53) + 5],
            (1 << 53) + 3,
        );
    }
}

#[test]
fn sixteen_times_60000_averages_to_60000_in_float16() {
    for nodes in [
        vec![0; 16],
        (0..16).map(|r| r / 8).collect(),
        (0..16).map(|r| r % 3).collect::<Vec<u32>>(),
    ] {
        let world = World::new(&nodes);
        let large = half::f16::from_f32(60000.0);
        average(&world, &[large; 16], large);
    }
}

#[test]
fn all_ranks_end_with_the_same_bytes() {
    for (what, nodes) in layouts(5) {
        let world = World::new(&nodes);
        for count in [1usize, 33, 5000, 300_001] {
            for op in ReduceOp::ALL {
                let results = world.run(|comm| {
                    let rank = comm.rank() as usize;
                    // values that round differently in every order
                    let value = |i: usize| ((i * 31 + rank * 17) % 1013) as f32 / 7.0 + 0.1;
                    let mut floats: Vec<f32> = (0..count).map(value).collect();
                    comm.all_reduce_in_place(&mut floats, *op).expect("it works");
                    let mut halves: Vec<half::bf16> =
                        (0..count).map(|i| half::bf16::from_f32(value(i))).collect();
                    comm.all_reduce_in_place(&mut halves, *op).expect("it works");
                    let bits = |f: &f32| f.to_bits();
                    (
                        floats.iter().map(bits).collect::<Vec<_>>(),
                        halves.iter().map(|h| h.to_bits()).collect::<Vec<_>>(),
                    )
                });
                assert!(
                    results.iter().all(|r| *r == results[0]),
                    "{op} of {count} on {what}"
                );
            }
        }
    }
}

#[test]
fn each_rank_scales_its_own_input_in_premul_sum() {
    for world in worlds(5) {
        for count in [1usize, 1000, 200_003] {
            let results = world.run(|comm| {
                let rank = comm.rank();
                let op = comm.premul_sum(rank as f32 + 1.0);
                let mut buffer: Vec<f32> = (0..count).map(|i| (i % 7) as f32).collect();
                comm.all_reduce_in_place(&mut buffer, op).expect("it works");
                let op = comm.premul_sum(i64::from(rank) - 2);
                let send: Vec<i64> = (0..count as i64).collect();
                let mut recv = vec![-9i64; count];
                comm.reduce(&send, (rank == 2).then_some(&mut recv[..]), op, 2)
                    .expect("it works");
                (buffer, recv)
            });
            for (rank, (floats, longs)) in results.into_iter().enumerate() {
                // 1 + 2 + 3 + 4 + 5 and -2 - 1 + 0 + 1 + 2
                assert!(
                    floats
                        .iter()
                        .enumerate()
                        .all(|(i, v)| *v == 15.0 * (i % 7) as f32),
                    "rank {rank}"
                );
                assert!(
                    longs.iter().all(|v| *v == if rank == 2 { 0 } else { -9 }),
                    "rank {rank}"
                );
            }
        }
    }
}
