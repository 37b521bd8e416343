//! The behaviour suite: what every call means, on real communicators, against the oracle.
//!
//! Ranks are threads of this process; node labels make them nodes. Every call that does not end within its limit
//! fails with an error of its own, so that nothing here can hang.
//!
//! `INFINICCL_TEST_FULL=1` runs the whole product of cases instead of a covering sample, and
//! `INFINICCL_TEST_SEED=N` another sample.

mod arguments;
mod codes;
mod composition;
mod counts;
mod covering;
mod disagreement;
mod numerics;
mod ordering;
mod overrides;
mod placements;
mod rooted;
mod world;
