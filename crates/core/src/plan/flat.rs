//! Runs one of the flat algorithms of a collective, by its name.

use super::algorithm::Algorithm;
use crate::algo::{self, Blocks, Buffers, Group, Reduction, Tuning};
use crate::schedule::Builder;

/// AllReduce of `count` elements.
pub(super) fn allreduce(
    algorithm: Algorithm,
    b: &mut Builder,
    (group, tuning): (Group<'_>, Tuning),
    buffers: Buffers,
    reduction: Reduction,
    count: u64,
) {
    use algo::allreduce as by;
    match algorithm {
        Algorithm::RecursiveDoubling => by::recursive_doubling(b, group, tuning, buffers, reduction, count),
        Algorithm::Rabenseifner => by::rabenseifner(b, group, tuning, buffers, reduction, count),
        Algorithm::DoubleTree => by::double_tree(b, group, tuning, buffers, reduction, count),
        Algorithm::Direct => by::direct(b, group, tuning, buffers, reduction, count),
        _ => by::ring(b, group, tuning, buffers, reduction, count),
    }
}

/// Reduce of `count` elements to the member `root`.
pub(super) fn reduce(
    algorithm: Algorithm,
    b: &mut Builder,
    (group, tuning): (Group<'_>, Tuning),
    buffers: Buffers,
    reduction: Reduction,
    count: u64,
    root: usize,
) {
    use algo::reduce as by;
    match algorithm {
        Algorithm::ScatterGather => by::scatter_gather(b, group, tuning, buffers, reduction, count, root),
        Algorithm::Chain => by::chain(b, group, tuning, buffers, reduction, count, root),
        Algorithm::Direct => by::direct(b, group, tuning, buffers, reduction, count, root),
        _ => by::binomial(b, group, tuning, buffers, reduction, count, root),
    }
}

/// ReduceScatter of `blocks`.
pub(super) fn reduce_scatter(
    algorithm: Algorithm,
    b: &mut Builder,
    (group, tuning): (Group<'_>, Tuning),
    buffers: Buffers,
    reduction: Reduction,
    blocks: &Blocks,
) {
    use algo::reduce_scatter as by;
    match algorithm {
        Algorithm::RecursiveHalving => by::recursive_halving(b, group, tuning, buffers, reduction, blocks),
        Algorithm::Direct => by::direct(b, group, tuning, buffers, reduction, blocks),
        _ => by::ring(b, group, tuning, buffers, reduction, blocks),
    }
}

/// AllGather of `blocks`.
pub(super) fn all_gather(
    algorithm: Algorithm,
    b: &mut Builder,
    (group, tuning): (Group<'_>, Tuning),
    buffers: Buffers,
    blocks: &Blocks,
) {
    use algo::all_gather as by;
    match algorithm {
        Algorithm::Bruck => by::bruck(b, group, tuning, buffers, blocks),
        Algorithm::Direct => by::direct(b, group, tuning, buffers, blocks),
        _ => by::ring(b, group, tuning, buffers, blocks),
    }
}

/// Broadcast of `bytes` bytes from the member `root`.
pub(super) fn broadcast(
    algorithm: Algorithm,
    b: &mut Builder,
    (group, tuning): (Group<'_>, Tuning),
    buffers: Buffers,
    bytes: u64,
    root: usize,
) {
    use algo::broadcast as by;
    match algorithm {
        Algorithm::ScatterAllgather => by::scatter_allgather(b, group, tuning, buffers, bytes, root),
        Algorithm::Chain => by::chain(b, group, tuning, buffers, bytes, root),
        _ => by::binomial(b, group, tuning, buffers, bytes, root),
    }
}
