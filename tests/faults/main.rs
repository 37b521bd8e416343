//! Ranks that are killed, stopped, late, absent, in disagreement or gone, as processes: what the others get.

mod abort;
mod disagreement;
mod joining;
mod killed;
mod left;
mod silent;
mod strangers;
mod survivors;

/// The program that every rank of these tests runs.
const RANK: &str = env!("CARGO_BIN_EXE_infiniccl-test-rank");
