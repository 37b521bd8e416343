//! Builds the schedule of a request with the algorithm that was chosen.

use super::Vector;
use super::choose::{Algorithm, inner_reduction};
use super::hierarchical::View;
use super::lower::{self, Mode};
use super::world::World;
use crate::algo::{self, Blocks, Buffers, Group, Reduction, Span, Tuning};
use crate::call::{Collective, RedOp, Request};
use crate::schedule::{Base, Builder, InPlace, Loc, Schedule, VendorCall};

/// Chunks in flight per step.
const SLOTS: u32 = 4;
/// Messages in flight of an AllToAll.
pub(super) const WINDOW: usize = 8;

const USER: Buffers = Buffers {
    src: Loc::new(Base::Send, 0),
    dst: Loc::new(Base::Recv, 0),
};

/// The schedule of `rank`.
pub(super) fn build(
    world: &World,
    rank: u32,
    request: &Request,
    vector: Option<&Vector>,
    in_place: Option<InPlace>,
    algorithm: Algorithm,
) -> Schedule {
    let island = world.topology.island_of(rank).len() as u32;
    let mut b = Builder::new(in_place, island);
    let order = &world.topology.order;
    let me = order.iter().position(|r| *r == rank).unwrap_or(0);
    let plan = Planned {
        world,
        rank,
        request,
        vector,
        group: Group { ranks: order, me },
        tuning: Tuning {
            chunk: world.settings.chunk,
            slots: SLOTS,
        },
        algorithm,
    };
    match algorithm {
        Algorithm::Vendor => plan.vendor(&mut b),
        Algorithm::Hierarchical { owners } => plan.hierarchical(&mut b, owners),
        _ => plan.flat(&mut b),
    }
    b.finish()
}

/// A request on its way to a schedule.
struct Planned<'a> {
    world: &'a World,
    rank: u32,
    request: &'a Request,
    vector: Option<&'a Vector>,
    group: Group<'a>,
    tuning: Tuning,
    algorithm: Algorithm,
}

impl Planned<'_> {
    fn elem(&self) -> u64 {
        self.request.dtype.size() as u64
    }

    fn ranks(&self) -> u64 {
        u64::from(self.world.size())
    }

    /// Where in the group the root is.
    fn root(&self) -> usize {
        self.group
            .ranks
            .iter()
            .position(|r| *r == self.request.root)
            .unwrap_or(0)
    }

    fn is_root(&self) -> bool {
        self.rank == self.request.root
    }

    fn vendor(&self, b: &mut Builder) {
        let scale_bits = match self.request.op {
            RedOp::PreMulSum { scalar_bits } => scalar_bits,
            RedOp::Fixed(_) => 0,
        };
        let call = VendorCall {
            collective: self.request.collective.abi(),
            dtype: self.request.dtype,
            op: self.request.op.abi(),
            root: self.world.topology.ranks[self.request.root as usize].island_rank,
            send: USER.src,
            recv: USER.dst,
            count: self.request.count,
            scale_bits,
        };
        if let Some(v) = self.vector {
            let (counts, displs) = match self.request.collective {
                Collective::AllToAllV => (
                    [&v.send_counts[..], &v.recv_counts].concat(),
                    [&v.send_displs[..], &v.recv_displs].concat(),
                ),
                Collective::AllGatherV => (v.recv_counts.clone(), v.recv_displs.clone()),
                _ => (v.send_counts.clone(), Vec::new()),
            };
            b.set_vector(counts, displs);
        }
        b.vendor(self.world.topology.ranks[self.rank as usize].island_rank, &[call]);
    }

    fn hierarchical(&self, b: &mut Builder, owners: u32) {
        let view = View {
            world: self.world,
            rank: self.rank,
            owners: owners as usize,
            tuning: self.tuning,
        };
        let request = self.request;
        let scale_bits = match (
            Mode::of(request, self.ranks()),
            inner_reduction(self.world, request),
        ) {
            (Mode::AvgFloat, Some((_, RedOp::PreMulSum { scalar_bits }))) => Some(scalar_bits),
            _ => None,
        };
        match request.collective {
            Collective::AllReduce => {
                lower::reduce_whole(
                    b,
                    request,
                    self.ranks(),
                    USER,
                    true,
                    |b, buffers, reduction, count| {
                        view.allreduce(b, buffers, reduction, count, scale_bits);
                    },
                );
            }
            Collective::Reduce => {
                let wanted = self.is_root();
                lower::reduce_whole(
                    b,
                    request,
                    self.ranks(),
                    USER,
                    wanted,
                    |b, buffers, reduction, count| {
                        view.reduce(b, buffers, reduction, count, request.root, scale_bits);
                    },
                );
            }
            Collective::Broadcast => view.broadcast(b, USER, request.bytes(), request.root),
            _ => view.all_gather(b, USER, request.bytes()),
        }
    }

    fn flat(&self, b: &mut Builder) {
        use Algorithm as A;
        use Collective as C;
        let (group, tuning, request) = (self.group, self.tuning, self.request);
        let root = self.root();
        let bytes = request.bytes();
        let by_rank = Blocks::by_rank(group.ranks, bytes);
        match (request.collective, self.algorithm) {
            (C::AllReduce | C::Reduce, algorithm) => self.flat_reduction(b, algorithm),
            (C::ReduceScatter | C::ReduceScatterV, algorithm) => self.flat_reduce_scatter(b, algorithm),
            (C::Broadcast, A::ScatterAllgather) => {
                algo::broadcast::scatter_allgather(b, group, tuning, USER, bytes, root);
            }
            (C::Broadcast, A::Chain) => algo::broadcast::chain(b, group, tuning, USER, bytes, root),
            (C::Broadcast, _) => algo::broadcast::binomial(b, group, tuning, USER, bytes, root),
            (C::AllGather, A::Bruck) => algo::all_gather::bruck(b, group, tuning, USER, &by_rank),
            (C::AllGather, A::Direct) => algo::all_gather::direct(b, group, tuning, USER, &by_rank),
            (C::AllGather, _) => algo::all_gather::ring(b, group, tuning, USER, &by_rank),
            (C::AllGatherV, algorithm) => {
                let blocks = self.blocks(|v| (&v.recv_counts, &v.recv_displs));
                if algorithm == A::Direct {
                    algo::all_gather::direct(b, group, tuning, USER, &blocks);
                } else {
                    algo::all_gather::ring(b, group, tuning, USER, &blocks);
                }
            }
            (C::Gather, A::Binomial) => algo::gather::binomial(b, group, tuning, USER, &by_rank, root),
            (C::Gather, _) => algo::gather::linear(b, group, tuning, USER, &by_rank, root),
            (C::Scatter, A::Binomial) => algo::scatter::binomial(b, group, tuning, USER, &by_rank, root),
            (C::Scatter, _) => algo::scatter::linear(b, group, tuning, USER, &by_rank, root),
            (C::AllToAll, A::Bruck) => algo::all_to_all::bruck(b, group, tuning, USER, &by_rank),
            (C::AllToAll, _) => {
                algo::all_to_all::pairwise(b, group, tuning, USER, &by_rank, &by_rank, WINDOW);
            }
            (C::AllToAllV, _) => {
                let send = self.blocks(|v| (&v.send_counts, &v.send_displs));
                let recv = self.blocks(|v| (&v.recv_counts, &v.recv_displs));
                algo::all_to_all::pairwise(b, group, tuning, USER, &send, &recv, WINDOW);
            }
            (C::Barrier, _) => algo::barrier::dissemination(b, group),
            (C::Send, _) => b.send(request.root, USER.src, bytes),
            (C::Recv, _) => b.recv(request.root, USER.dst, bytes),
        }
    }

    fn flat_reduction(&self, b: &mut Builder, algorithm: Algorithm) {
        use Algorithm as A;
        let (group, tuning, root) = (self.group, self.tuning, self.root());
        let all = self.request.collective == Collective::AllReduce;
        let wanted = all || self.is_root();
        let run = |b: &mut Builder, buffers: Buffers, reduction: Reduction, count: u64| match (all, algorithm)
        {
            (true, A::RecursiveDoubling) => {
                algo::allreduce::recursive_doubling(b, group, tuning, buffers, reduction, count);
            }
            (true, A::Rabenseifner) => {
                algo::allreduce::rabenseifner(b, group, tuning, buffers, reduction, count);
            }
            (true, A::DoubleTree) => {
                algo::allreduce::double_tree(b, group, tuning, buffers, reduction, count);
            }
            (true, A::Direct) => algo::allreduce::direct(b, group, tuning, buffers, reduction, count),
            (true, _) => algo::allreduce::ring(b, group, tuning, buffers, reduction, count),
            (false, A::ScatterGather) => {
                algo::reduce::scatter_gather(b, group, tuning, buffers, reduction, count, root);
            }
            (false, A::Chain) => algo::reduce::chain(b, group, tuning, buffers, reduction, count, root),
            (false, A::Direct) => algo::reduce::direct(b, group, tuning, buffers, reduction, count, root),
            (false, _) => algo::reduce::binomial(b, group, tuning, buffers, reduction, count, root),
        };
        lower::reduce_whole(b, self.request, self.ranks(), USER, wanted, run);
    }

    fn flat_reduce_scatter(&self, b: &mut Builder, algorithm: Algorithm) {
        let (group, tuning) = (self.group, self.tuning);
        // Blocks in the order of the group, as (first element, elements).
        let blocks: Vec<(u64, u64)> = match self.vector {
            Some(v) => {
                let start = |r: u32| v.send_counts[..r as usize].iter().sum::<u64>();
                group
                    .ranks
                    .iter()
                    .map(|r| (start(*r), v.send_counts[*r as usize]))
                    .collect()
            }
            None => group
                .ranks
                .iter()
                .map(|r| (u64::from(*r) * self.request.count, self.request.count))
                .collect(),
        };
        let run = |b: &mut Builder, buffers: Buffers, reduction: Reduction, blocks: &[(u64, u64)]| {
            let elem = reduction.dtype.size() as u64;
            let place = |rank: u32| {
                let index = group.ranks.iter().position(|r| *r == rank).unwrap_or(0);
                Span::new(blocks[index].0 * elem, blocks[index].1 * elem)
            };
            let blocks = Blocks::placed(group.ranks, place);
            match algorithm {
                Algorithm::RecursiveHalving => {
                    algo::reduce_scatter::recursive_halving(b, group, tuning, buffers, reduction, &blocks);
                }
                Algorithm::Direct => {
                    algo::reduce_scatter::direct(b, group, tuning, buffers, reduction, &blocks);
                }
                _ => algo::reduce_scatter::ring(b, group, tuning, buffers, reduction, &blocks),
            }
        };
        lower::reduce_blocks(b, self.request, self.ranks(), group.me, USER, &blocks, run);
    }

    /// Blocks of a V collective in the order of the group.
    fn blocks(&self, pick: impl for<'v> Fn(&'v Vector) -> (&'v Vec<u64>, &'v Vec<u64>)) -> Blocks {
        let elem = self.elem();
        let none = Vector::default();
        let (counts, displs) = pick(self.vector.unwrap_or(&none));
        let at = |list: &[u64], rank: u32| list.get(rank as usize).copied().unwrap_or(0) * elem;
        Blocks::placed(self.group.ranks, |r| Span::new(at(displs, r), at(counts, r)))
    }
}
