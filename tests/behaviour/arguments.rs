//! Calls that are refused before anything moves, and what becomes of the communicator.

use crate::world::World;
use infiniccl::{DataType, ErrorKind, RawCall, ReduceOp};

#[test]
fn a_call_that_all_ranks_refuse_leaves_the_communicator_usable() {
    for nodes in [[0, 0, 0], [0, 1, 1]] {
        let world = World::new(&nodes);
        let results = world.run(|comm| {
            let mut buffer = [comm.rank() as i32; 4];
            let error = comm.broadcast(&mut buffer, 7).expect_err("7 is no rank");
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert_eq!(error.get("argument"), Some("root"), "{error}");
            let error = comm
                .all_reduce(&buffer, &mut [0i32; 3], ReduceOp::Sum)
                .expect_err("lengths differ");
            assert_eq!(error.get("argument"), Some("recv"), "{error}");
            comm.all_reduce_in_place(&mut [true; 2], ReduceOp::Avg)
                .expect_err("no mean of bool");
            assert_eq!(buffer, [comm.rank() as i32; 4], "a refused call moves nothing");
            comm.all_reduce_in_place(&mut buffer, ReduceOp::Sum)
                .map(|()| buffer)
        });
        results
            .into_iter()
            .for_each(|r| assert_eq!(r.expect("the communicator still works"), [3; 4]));
    }
}

#[test]
fn one_rank_that_refuses_ends_the_call_everywhere_with_its_name() {
    for nodes in [[0, 0, 0], [0, 1, 2]] {
        let world = World::new(&nodes);
        let results = world.run(|comm| {
            let mut buffer = vec![1.5f32; 1000];
            if comm.rank() == 1 {
                let null = RawCall::all_reduce(
                    std::ptr::null(),
                    std::ptr::null_mut(),
                    1000,
                    DataType::Float32,
                    ReduceOp::Sum,
                );
                // SAFETY: the call is refused before it reads or writes anything.
                let error = unsafe { comm.run_raw(null) }.expect_err("null is refused");
                assert_eq!(
                    (error.kind(), error.get("argument")),
                    (ErrorKind::InvalidArgument, Some("send"))
                );
                // the rank goes on, and learns what became of the others
            }
            comm.all_reduce_in_place(&mut buffer, ReduceOp::Sum)
                .map_err(|e| e.to_string())
        });
        for (rank, result) in results.into_iter().enumerate() {
            let error = result.expect_err("the ranks disagree");
            assert!(
                error.contains("rank 1") && error.contains("send"),
                "rank {rank}: {error}"
            );
        }
    }
}

#[test]
fn zero_elements_need_no_memory_and_keep_the_order() {
    let world = World::new(&[0, 1, 0]);
    world.run(|comm| {
        for round in 0..20i64 {
            let nothing = RawCall::all_gather(std::ptr::null(), std::ptr::null_mut(), 0, DataType::Int64);
            // SAFETY: zero elements are neither read nor written.
            unsafe { comm.run_raw(nothing) }.expect("nothing is a valid call");
            let mut buffer = [round * i64::from(comm.rank())];
            comm.all_reduce_in_place(&mut buffer, ReduceOp::Max)
                .expect("it works");
            assert_eq!(buffer, [round * 2]);
            comm.send::<u8>(&[], (comm.rank() + 1) % 3)
                .expect("nothing is a valid message");
            comm.recv::<u8>(&mut [], (comm.rank() + 2) % 3)
                .expect("nothing is a valid message");
        }
    });
}
