//! Ranks that do right: sums and exchanges whose results they check themselves.

use std::path::PathBuf;

use infiniccl::{Communicator, ReduceOp, Result};
use infiniccl_tests::Event;

use crate::aftermath;
use crate::arguments::Arguments;

/// Element `index` of rank `rank`: differs by both, and sums do not wrap.
fn element(rank: u32, index: usize) -> u64 {
    u64::from(rank + 1) * 1_000_003 + (index as u64) * 7
}

/// Asserts that `got` is the sum of all ranks' elements.
fn check_sum(got: &[u64], size: u32) {
    let ranks = u64::from(size);
    let base = 1_000_003 * ranks * (ranks + 1) / 2;
    for (index, value) in got.iter().enumerate() {
        let want = base + ranks * 7 * index as u64;
        assert_eq!(*value, want, "element {index} of the sum over {size} ranks");
    }
}

/// Sums of several lengths, an exchange of all with all, a broadcast from each rank, then a good end.
pub(crate) fn sum(comm: Communicator) -> Result<()> {
    let (rank, size) = (comm.rank(), comm.size());
    for count in [1usize, 1000, 300_001] {
        let mut buffer: Vec<u64> = (0..count).map(|i| element(rank, i)).collect();
        comm.all_reduce_in_place(&mut buffer, ReduceOp::Sum)?;
        check_sum(&buffer, size);
    }
    let block = 501;
    let word = |from: u32, to: u32, i: usize| from * 100_000 + to * 1000 + i as u32;
    let send: Vec<u32> = (0..size)
        .flat_map(|to| (0..block).map(move |i| word(rank, to, i)))
        .collect();
    let mut recv = vec![0; send.len()];
    comm.all_to_all(&send, &mut recv)?;
    for (from, part) in (0..size).zip(recv.chunks_exact(block)) {
        let right = part.iter().enumerate().all(|(i, w)| *w == word(from, rank, i));
        assert!(right, "the block from rank {from} is wrong");
    }
    for root in 0..size {
        let mut buffer: Vec<u64> = (0..3000).map(|i| element(rank, i)).collect();
        comm.broadcast(&mut buffer, root)?;
        let right = buffer.iter().enumerate().all(|(i, v)| *v == element(root, i));
        assert!(right, "the broadcast from rank {root} is wrong");
    }
    comm.finalize()
}

/// Sums of `bytes` bytes, over and over: until an error comes, or until the file `until` exists.
pub(crate) fn repeat(comm: Communicator, arguments: &Arguments) -> Result<()> {
    let (rank, size) = (comm.rank(), comm.size());
    let count = arguments.get::<usize>("bytes") / size_of::<u64>();
    let until: Option<PathBuf> = arguments.path("until");
    let send: Vec<u64> = (0..count).map(|i| element(rank, i)).collect();
    let mut recv = vec![0u64; count];
    let mut calls = 0u64;
    // The test looks for the first few; a line for each call would be many.
    let announce = |calls: u64| {
        if calls < 5 {
            Event::now("call").with("n", calls).say();
        }
    };
    loop {
        announce(calls);
        if let Err(error) = comm.all_reduce(&send, &mut recv, ReduceOp::Sum) {
            Event::now("calls").with("n", calls).say();
            return Err(aftermath::examine(comm, error));
        }
        check_sum(&recv, size);
        calls += 1;
        let Some(path) = &until else { continue };
        // Ranks look at different times, but must stop after the same call.
        let mut stop = [u8::from(path.exists())];
        comm.all_reduce_in_place(&mut stop, ReduceOp::Max)?;
        if stop == [1] {
            Event::now("calls").with("n", calls).say();
            return comm.finalize();
        }
    }
}

/// Says over which path each peer is reached, after a sum.
pub(crate) fn paths(comm: Communicator) -> Result<()> {
    let mut buffer: Vec<u64> = (0..1000).map(|i| element(comm.rank(), i)).collect();
    comm.all_reduce_in_place(&mut buffer, ReduceOp::Sum)?;
    check_sum(&buffer, comm.size());
    let islands: Vec<String> = comm
        .placement()
        .islands
        .iter()
        .map(|ranks| ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(","))
        .collect();
    let event = Event::now("paths").with("islands", islands.join("|"));
    let links = comm.links();
    let event = links.iter().fold(event, |event, link| {
        event.with(
            &format!("peer{}", link.peer),
            format!("{}: {}", link.path, link.detail),
        )
    });
    event.say();
    comm.finalize()
}
