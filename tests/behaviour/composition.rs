//! Communicators out of communicators, their life, and what they tell of themselves.

use crate::world::{World, layouts};
use infiniccl::{Collective, DataType, ErrorKind, RawCall, ReduceOp};
use std::time::{Duration, Instant};

#[test]
fn split_groups_by_color_and_orders_by_key() {
    for (what, nodes) in layouts(5) {
        let world = World::new(&nodes);
        world.run(|comm| {
            let rank = comm.rank();
            let color = (rank != 4).then_some(rank % 2);
            // the key turns the order around
            let part = comm.split(color, -(rank as i32)).expect("split works");
            let Some(part) = part else {
                assert_eq!(rank, 4);
                return;
            };
            assert_eq!((part.size(), part.rank()), (2, 1 - rank / 2), "{what}");
            let mut all = [0u32; 2];
            part.all_gather(&[rank], &mut all).expect("it works");
            assert_eq!(all, [2 + rank % 2, rank % 2], "{what}");
            let double = part.duplicate().expect("duplicate works");
            let mut sum = [rank];
            double
                .all_reduce_in_place(&mut sum, ReduceOp::Sum)
                .expect("it works");
            assert_eq!(sum, [2 + 2 * (rank % 2)], "{what}");
        });
        world.run(|comm| comm.barrier().expect("the first communicator still works"));
    }
}

#[test]
fn one_rank_is_a_communicator() {
    let world = World::new(&[0]);
    world.run(|comm| {
        let mut gathered = [0i16; 3];
        comm.all_gather(&[1i16, 2, 3], &mut gathered).expect("it works");
        assert_eq!(gathered, [1, 2, 3]);
        comm.barrier().expect("it works");
        let alone = comm.split(Some(0), 0).expect("it works").expect("one rank stays");
        assert_eq!(alone.size(), 1);
    });
}

#[test]
fn communicators_come_and_go_without_leaving_anything() {
    // Other tests of this process hold descriptors of their own, so that this one counts in a process of its own.
    if std::env::var_os(ALONE).is_none() {
        let name = "composition::communicators_come_and_go_without_leaving_anything";
        let test = std::env::current_exe().expect("the test's own path");
        let outcome = std::process::Command::new(test)
            .args(["--exact", name])
            .env(ALONE, "1")
            .output();
        let output = outcome.expect("the test starts again");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stdout)
        );
        return;
    }
    let left = || {
        let count = |folder: &str| std::fs::read_dir(folder).map_or(0, Iterator::count);
        let maps = std::fs::read_to_string("/proc/self/maps").map_or(0, |maps| maps.lines().count());
        (count("/proc/self/fd"), count("/proc/self/task"), maps)
    };
    let mut before = None;
    for round in 0..40 {
        let world = World::new(&[0, 0, 1]);
        world.run(|comm| {
            let mut buffer = [1u8; 100];
            comm.all_reduce_in_place(&mut buffer, ReduceOp::Sum)
                .expect("it works");
            assert_eq!(buffer, [3; 100]);
        });
        drop(world);
        if round == 10 {
            before = Some(left());
        }
    }
    let (fds, threads, maps) = before.expect("round 10 came");
    // What is left of the last round goes in the background.
    let limit = Instant::now() + Duration::from_secs(10);
    let after = loop {
        let after = left();
        if after.0 <= fds && after.1 <= threads {
            break after;
        }
        assert!(
            Instant::now() < limit,
            "descriptors, threads: {fds}, {threads} became {after:?}"
        );
        std::thread::sleep(Duration::from_millis(5));
    };
    assert!(after.2 <= maps + 8, "mappings grew from {maps} to {}", after.2);
}

const ALONE: &str = "INFINICCL_TEST_ALONE";

#[test]
fn bytes_that_are_no_bool_arrive_as_true() {
    let world = World::new(&[0, 0, 1]);
    world.run(|comm| {
        let mut flags = [false; 40];
        if comm.rank() == 1 {
            let bytes: Vec<u8> = (0..40).map(|i| i * 5).collect();
            let mut kept = bytes.clone();
            let call = RawCall::broadcast(bytes.as_ptr(), kept.as_mut_ptr(), 40, DataType::Bool, 1);
            // SAFETY: both buffers are 40 bytes long, and no `bool` is made of them.
            unsafe { comm.run_raw(call) }.expect("it works");
        } else {
            comm.broadcast(&mut flags, 1).expect("it works");
            assert!(flags.iter().enumerate().all(|(i, flag)| *flag == (i > 0)));
            let byte = |flag: &bool| *flag as u8;
            assert!(flags.iter().map(byte).all(|b| b <= 1));
        }
    });
}

#[test]
fn abort_needs_no_peer_and_reaches_all() {
    for nodes in [[0, 0, 0], [0, 1, 2]] {
        let world = World::new(&nodes);
        let begun = std::time::Instant::now();
        let errors = world.run(|comm| {
            if comm.rank() == 1 {
                std::thread::sleep(std::time::Duration::from_millis(200));
                comm.abort();
                return comm.barrier().expect_err("it was aborted here");
            }
            let mut buffer = vec![0f64; 100_000];
            comm.all_reduce_in_place(&mut buffer, ReduceOp::Sum)
                .expect_err("rank 1 aborted")
        });
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::Aborted, "{error}");
        }
        assert!(begun.elapsed().as_secs() < 10);
        assert!(world.comms.iter().all(|comm| comm.async_error().is_some()));
    }
}

#[test]
fn reports_agree_with_the_layout() {
    let world = World::new(&[0, 1, 0, 1]);
    let reports = world.run(|comm| {
        comm.barrier().expect("it works");
        let plan = comm
            .explain(
                Collective::AllReduce,
                DataType::Float32,
                ReduceOp::Avg,
                1 << 20,
                0,
            )
            .expect("a plan");
        assert!(
            plan.candidates
                .iter()
                .any(|c| c.algorithm == plan.algorithm && c.cost_ns.is_ok()),
            "{plan:?}"
        );
        assert!(
            plan.lowering.is_some(),
            "AVG over two nodes is rewritten: {plan:?}"
        );
        let links = comm.links();
        let local = links
            .iter()
            .find(|l| l.peer == (comm.rank() + 2) % 4)
            .expect("a link to each peer");
        assert_eq!((local.path.as_str(), local.state), ("host", "ready"));
        let matrix = comm.matrix();
        let avg = |dtype| {
            let found = matrix.iter().find(|r| {
                r.collective == Collective::AllReduce && r.dtype == dtype && r.op == Some(ReduceOp::Avg)
            });
            found.map(|r| r.effective)
        };
        assert_eq!(
            (avg(DataType::Float16), avg(DataType::Bool)),
            (Some("native"), Some("refused"))
        );
        (comm.placement(), plan.algorithm)
    });
    assert!(reports.iter().all(|r| *r == reports[0]), "all ranks plan alike");
    assert_eq!(reports[0].0.islands, [vec![0, 2], vec![1, 3]]);
}
