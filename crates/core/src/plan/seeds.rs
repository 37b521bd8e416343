//! Where the cost model starts from, before anything is calibrated: figures measured on one virtual machine with
//! two processors.

use super::world::LinkCost;

/// Between ranks of one island, through shared memory: a flag that another rank sees after 2.4 µs, and bytes that
/// are copied in and out again, out of cache, at 13 GB/s each time.
pub(crate) const NEAR: LinkCost = LinkCost {
    alpha_ns: 2_400,
    beta_ps: 150,
};

/// Between islands, by TCP: half of a round trip takes 6.4 to 7.4 µs up to 8 KB, and one stream carries 3.4 GB/s.
pub(crate) const FAR: LinkCost = LinkCost {
    alpha_ns: 7_000,
    beta_ps: 300,
};

/// Reducing a byte, in ps: adding float32 takes 31 in cache and 100 out of cache.
pub(crate) const GAMMA_PS: u64 = 50;

/// Time to post a message, which those to different peers do not share, in ns.
pub(super) const OVERHEAD_NS: u64 = 1_500;
