//! Ranks that average their gradients and pass a token around: start them with any launcher.
//!
//! ```text
//! infiniccl run -n 4 -- app
//! mpirun -np 4 app
//! torchrun --nproc-per-node 4 --no-python app
//! ```

use infiniccl::{Communicator, Context, Group, ReduceOp};

fn main() -> infiniccl::Result<()> {
    // The configuration is searched for, and the launcher's variables say which rank this is.
    let context = Context::load()?;
    let comm = Communicator::from_environment(&context)?;
    let (rank, size) = (comm.rank(), comm.size());

    // Every rank has its own gradients; the mean of rank + 1 over all ranks is (size + 1) / 2.
    let mut gradients = vec![(rank + 1) as f32; 1000];
    comm.all_reduce_in_place(&mut gradients, ReduceOp::Avg)?;
    let mean = (size + 1) as f32 / 2.0;
    assert!(
        gradients.iter().all(|&g| (g - mean).abs() <= mean * 1e-6),
        "rank {rank}: {} is not {mean}",
        gradients[0]
    );

    // A message to the next rank and one from the previous, together, so that nobody waits for another.
    let token = [u64::from(rank)];
    let mut received = [u64::MAX];
    let mut group = Group::new();
    group.send(&comm, &token, (rank + 1) % size);
    group.recv(&comm, &mut received, (rank + size - 1) % size);
    group.end()?;
    assert_eq!(received[0], u64::from((rank + size - 1) % size));

    // All ranks' numbers, in order.
    let mut all = vec![0; size as usize];
    comm.all_gather(&[rank], &mut all)?;
    assert!(all.iter().copied().eq(0..size), "rank {rank}: {all:?}");

    println!(
        "rank {rank} of {size}: mean {}, token from {}",
        gradients[0], received[0]
    );
    comm.finalize()
}
