//! Every algorithm that works on `n` bytes, and what is said of it.

use crate::algo::cost::{self, LinkCost};
use crate::algo::{
    Blocks, Buffers, Group, Reduction, Tuning, all_gather, all_to_all, allreduce, broadcast, gather, reduce,
    reduce_scatter, scatter,
};
use crate::schedule::{Base, Builder, Loc, Schedule};
use infiniccl_reduce::{DataType, ReduceOp};

/// One rank's part of a collective on `n` bytes: those of the whole buffer that holds all blocks.
type Build = fn(&mut Builder, Group<'_>, Tuning, Buffers, u64);

/// An algorithm and its limits, given p, ⌈log2 p⌉, and the values named.
pub(super) struct Algorithm {
    pub(super) name: &'static str,
    build: Build,
    /// The most bytes that a rank sends, of n.
    pub(super) sent: fn(p: u64, levels: u64, n: u64) -> u64,
    /// The most chunks of scratch memory, of that many slots.
    pub(super) chunks: fn(p: u64, levels: u64, slots: u64) -> u64,
    /// What the cost model says.
    pub(super) cost: fn(p: u64, n: u64, chunk: u64, &LinkCost) -> u64,
}

const SUM: Reduction = Reduction {
    dtype: DataType::Uint32,
    op: ReduceOp::Sum,
    raw: false,
    last: false,
};

fn even(group: Group<'_>, n: u64) -> Blocks {
    Blocks::by_rank(group.ranks, n / group.ranks.len() as u64)
}

pub(super) const ALGORITHMS: &[Algorithm] = &[
    Algorithm {
        name: "allreduce recursive doubling",
        build: |b, g, t, io, n| allreduce::recursive_doubling(b, g, t, io, SUM, n / 4),
        sent: |_, levels, n| (levels + 1) * n,
        chunks: |_, _, slots| slots,
        cost: |p, n, _, link| cost::allreduce_recursive_doubling(p, n, link),
    },
    Algorithm {
        name: "allreduce rabenseifner",
        build: |b, g, t, io, n| allreduce::rabenseifner(b, g, t, io, SUM, n / 4),
        sent: |p, _, n| {
            if p.is_power_of_two() {
                2 * n * (p - 1) / p
            } else {
                3 * n
            }
        },
        chunks: |_, _, slots| slots,
        cost: |p, n, _, link| cost::allreduce_rabenseifner(p, n, link),
    },
    Algorithm {
        name: "allreduce ring",
        build: |b, g, t, io, n| allreduce::ring(b, g, t, io, SUM, n / 4),
        sent: |p, _, n| 2 * n * (p - 1) / p,
        chunks: |_, _, slots| slots,
        cost: |p, n, chunk, link| cost::allreduce_ring(p, n, chunk, link),
    },
    Algorithm {
        name: "allreduce direct",
        build: |b, g, t, io, n| allreduce::direct(b, g, t, io, SUM, n / 4),
        sent: |p, _, n| 2 * n * (p - 1) / p,
        chunks: |p, _, _| 2 * (p - 1),
        cost: |p, n, _, link| cost::allreduce_direct(p, n, link),
    },
    Algorithm {
        name: "allreduce double tree",
        build: |b, g, t, io, n| allreduce::double_tree(b, g, t, io, SUM, n / 4),
        sent: |_, _, n| 2 * n,
        chunks: |_, _, slots| 2 * slots,
        cost: |p, n, chunk, link| cost::allreduce_double_tree(p, n, chunk, link),
    },
    Algorithm {
        name: "reduce-scatter ring",
        build: |b, g, t, io, n| reduce_scatter::ring(b, g, t, io, SUM, &even(g, n)),
        sent: |p, _, n| n * (p - 1) / p,
        chunks: |_, _, slots| 2 * slots,
        cost: |p, n, chunk, link| cost::reduce_scatter_ring(p, n, chunk, link),
    },
    Algorithm {
        name: "reduce-scatter direct",
        build: |b, g, t, io, n| reduce_scatter::direct(b, g, t, io, SUM, &even(g, n)),
        sent: |p, _, n| n * (p - 1) / p,
        chunks: |p, _, _| 2 * (p - 1),
        cost: |p, n, _, link| cost::reduce_scatter_direct(p, n, link),
    },
    Algorithm {
        name: "reduce-scatter recursive halving",
        build: |b, g, t, io, n| reduce_scatter::recursive_halving(b, g, t, io, SUM, &even(g, n)),
        sent: |p, _, n| {
            if p.is_power_of_two() {
                n * (p - 1) / p
            } else {
                n + n / p
            }
        },
        chunks: |p, _, slots| 2 * slots.max(p),
        cost: |p, n, _, link| cost::reduce_scatter_recursive_halving(p, n, link),
    },
    Algorithm {
        name: "all-gather ring",
        build: |b, g, t, io, n| all_gather::ring(b, g, t, io, &even(g, n)),
        sent: |p, _, n| n * (p - 1) / p,
        chunks: |_, _, _| 0,
        cost: |p, n, _, link| cost::all_gather_ring(p, n, link),
    },
    Algorithm {
        name: "all-gather bruck",
        build: |b, g, t, io, n| all_gather::bruck(b, g, t, io, &even(g, n)),
        sent: |p, _, n| n * (p - 1) / p,
        chunks: |p, _, slots| slots.max(p),
        cost: |p, n, _, link| cost::all_gather_bruck(p, n, link),
    },
    Algorithm {
        name: "all-gather direct",
        build: |b, g, t, io, n| all_gather::direct(b, g, t, io, &even(g, n)),
        sent: |p, _, n| n * (p - 1) / p,
        chunks: |_, _, _| 0,
        cost: |p, n, _, link| cost::all_gather_direct(p, n, link),
    },
    Algorithm {
        name: "broadcast binomial",
        build: |b, g, t, io, n| broadcast::binomial(b, g, t, io, n, 0),
        sent: |_, levels, n| levels * n,
        chunks: |_, _, _| 0,
        cost: |p, n, _, link| cost::broadcast_binomial(p, n, link),
    },
    Algorithm {
        name: "broadcast chain",
        build: |b, g, t, io, n| broadcast::chain(b, g, t, io, n, 0),
        sent: |_, _, n| n,
        chunks: |_, _, _| 0,
        cost: |p, n, chunk, link| cost::broadcast_chain(p, n, chunk, link),
    },
    Algorithm {
        name: "broadcast scatter-allgather",
        build: |b, g, t, io, n| broadcast::scatter_allgather(b, g, t, io, n, 0),
        sent: |p, _, n| 2 * n * (p - 1) / p,
        chunks: |_, _, _| 0,
        cost: |p, n, _, link| cost::broadcast_scatter_allgather(p, n, link),
    },
    Algorithm {
        name: "reduce binomial",
        build: |b, g, t, io, n| reduce::binomial(b, g, t, io, SUM, n / 4, 0),
        sent: |_, _, n| n,
        chunks: |_, levels, _| 2 * levels + 2,
        cost: |p, n, _, link| cost::reduce_binomial(p, n, link),
    },
    Algorithm {
        name: "reduce chain",
        build: |b, g, t, io, n| reduce::chain(b, g, t, io, SUM, n / 4, 0),
        sent: |_, _, n| n,
        chunks: |_, _, slots| slots,
        cost: |p, n, chunk, link| cost::reduce_chain(p, n, chunk, link),
    },
    Algorithm {
        name: "reduce direct",
        build: |b, g, t, io, n| reduce::direct(b, g, t, io, SUM, n / 4, 0),
        sent: |_, _, n| n,
        chunks: |p, _, _| 2 * (p - 1),
        cost: |p, n, _, link| cost::reduce_direct(p, n, link),
    },
    Algorithm {
        name: "reduce scatter-gather",
        build: |b, g, t, io, n| reduce::scatter_gather(b, g, t, io, SUM, n / 4, 0),
        sent: |_, _, n| n,
        chunks: |_, _, slots| 2 * slots,
        cost: |p, n, chunk, link| cost::reduce_scatter_gather(p, n, chunk, link),
    },
    Algorithm {
        name: "gather linear",
        build: |b, g, t, io, n| gather::linear(b, g, t, io, &even(g, n), 0),
        sent: |p, _, n| n / p,
        chunks: |_, _, _| 0,
        cost: |p, n, _, link| cost::gather_linear(p, n, link),
    },
    Algorithm {
        name: "gather binomial",
        build: |b, g, t, io, n| gather::binomial(b, g, t, io, &even(g, n), 0),
        sent: |_, _, n| n.div_ceil(2),
        chunks: |p, _, slots| slots.max(p),
        cost: |p, n, _, link| cost::gather_binomial(p, n, link),
    },
    Algorithm {
        name: "scatter linear",
        build: |b, g, t, io, n| scatter::linear(b, g, t, io, &even(g, n), 0),
        sent: |p, _, n| n * (p - 1) / p,
        chunks: |_, _, _| 0,
        cost: |p, n, _, link| cost::scatter_linear(p, n, link),
    },
    Algorithm {
        name: "scatter binomial",
        build: |b, g, t, io, n| scatter::binomial(b, g, t, io, &even(g, n), 0),
        sent: |p, _, n| n * (p - 1) / p,
        chunks: |p, _, slots| slots.max(p),
        cost: |p, n, _, link| cost::scatter_binomial(p, n, link),
    },
    Algorithm {
        name: "all-to-all pairwise",
        build: |b, g, t, io, n| all_to_all::pairwise(b, g, t, io, &even(g, n), &even(g, n), 4),
        sent: |p, _, n| n * (p - 1) / p,
        chunks: |_, _, _| 1,
        cost: |p, n, _, link| cost::all_to_all_pairwise(p, n, 4, link),
    },
    Algorithm {
        name: "all-to-all bruck",
        build: |b, g, t, io, n| all_to_all::bruck(b, g, t, io, &even(g, n)),
        sent: |p, levels, n| levels * (n / p) * p.div_ceil(2),
        chunks: |p, _, slots| 2 * slots.max(p) + 2,
        cost: |p, n, _, link| cost::all_to_all_bruck(p, n, link),
    },
];

/// One rank's schedule on `n` bytes.
pub(super) fn build(algorithm: &Algorithm, group: Group<'_>, tuning: Tuning, n: u64) -> Schedule {
    let mut b = Builder::new(None, 1);
    let buffers = Buffers {
        src: Loc::new(Base::Send, 0),
        dst: Loc::new(Base::Recv, 0),
    };
    (algorithm.build)(&mut b, group, tuning, buffers, n);
    b.finish()
}
