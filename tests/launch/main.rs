//! Ranks under launchers of all kinds, on networks of all kinds: whether they meet, and what they say when not.

mod by_hand;
mod jobs;
mod mpi;
mod namespaces;
mod ports;
mod run;
mod shared_memory;
mod storms;
mod torchrun;

use std::path::PathBuf;
use std::time::Duration;

use infiniccl_tests::Written;

/// The program that every rank of these tests runs.
const RANK: &str = env!("CARGO_BIN_EXE_infiniccl-test-rank");

/// No job of these tests needs longer.
const LIMIT: Duration = Duration::from_secs(50);

/// The command, which another package builds into the same folder.
fn infiniccl() -> PathBuf {
    let path = PathBuf::from(RANK).with_file_name("infiniccl");
    assert!(
        path.exists(),
        "{} is missing: run `cargo build -p infiniccl-cli` first",
        path.display()
    );
    path
}

/// Asserts that a launcher ended well and that `ranks` ranks, each of them once, checked their results and ended.
#[track_caller]
fn all_ranks_summed(written: &Written, ranks: u64) {
    assert!(written.status.success(), "{written:#?}");
    let mut numbers: Vec<u64> = written
        .events("joined")
        .iter()
        .map(|joined| {
            assert_eq!(joined.number("size"), ranks, "{written:#?}");
            joined.number("rank")
        })
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..ranks).collect::<Vec<_>>(), "{written:#?}");
    assert_eq!(written.events("done").len() as u64, ranks, "{written:#?}");
}
