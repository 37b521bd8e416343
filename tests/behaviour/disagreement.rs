//! Ranks that do not mean the same call: every one gets an error that names the first that differs.

use crate::world::World;
use infiniccl::{Communicator, ErrorKind, ReduceOp, Result};
use std::time::{Duration, Instant};

/// Runs `odd` on rank 2 and `even` elsewhere, and returns the errors.
fn disagree(
    nodes: &[u32],
    even: impl Fn(&Communicator) -> Result<()> + Sync,
    odd: impl Fn(&Communicator) -> Result<()> + Sync,
) -> Vec<String> {
    let world = World::new(nodes);
    let begun = Instant::now();
    let errors = world.run(|comm| {
        let call = if comm.rank() == 2 { odd(comm) } else { even(comm) };
        // A rank whose own part could be done hears of it at its next call.
        let error = call
            .and_then(|()| comm.barrier())
            .expect_err("the ranks disagree");
        assert_eq!(error.kind(), ErrorKind::Remote, "{error}");
        let again = comm.barrier().expect_err("the communicator has ended");
        assert_eq!(again.kind(), ErrorKind::Remote, "{again}");
        error.to_string()
    });
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "it took {:?}",
        begun.elapsed()
    );
    errors
}

const LAYOUTS: [[u32; 4]; 3] = [[0, 0, 0, 0], [0, 0, 1, 1], [0, 1, 2, 3]];

fn sum(comm: &Communicator, count: usize) -> Result<()> {
    comm.all_reduce_in_place(&mut vec![1u32; count], ReduceOp::Sum)
}

#[test]
fn another_count() {
    for nodes in LAYOUTS {
        for (count, other) in [(10, 11), (1000, 1001), (100_000, 100_001), (100_000, 10)] {
            for error in disagree(&nodes, |comm| sum(comm, count), |comm| sum(comm, other)) {
                assert!(
                    error.contains("rank 2") && error.contains(&format!("count={other}")),
                    "{error}"
                );
            }
        }
    }
}

#[test]
fn another_operator_type_root_or_collective() {
    type Call = fn(&Communicator) -> Result<()>;
    let max: Call = |comm| comm.all_reduce_in_place(&mut [1u32; 100], ReduceOp::Max);
    let float: Call = |comm| comm.all_reduce_in_place(&mut [1f32; 100], ReduceOp::Sum);
    let broadcast: Call = |comm| comm.broadcast(&mut [1u32; 100], 0);
    let gather: Call = |comm| comm.all_gather(&[1u32; 100], &mut [0; 400]);
    let barrier: Call = Communicator::barrier;
    for nodes in LAYOUTS {
        for (odd, word) in [
            (max, "max"),
            (float, "float32"),
            (broadcast, "broadcast"),
            (gather, "all_gather"),
            (barrier, "barrier"),
        ] {
            for error in disagree(&nodes, |comm| sum(comm, 100), odd) {
                assert!(
                    error.contains("rank 2") && error.contains(word),
                    "{word}: {error}"
                );
            }
        }
        let root =
            |root| move |comm: &Communicator| comm.reduce_in_place(&mut [1u32; 100], ReduceOp::Sum, root);
        for error in disagree(&nodes, root(0), root(3)) {
            assert!(error.contains("rank 2") && error.contains("root=3"), "{error}");
        }
    }
}
