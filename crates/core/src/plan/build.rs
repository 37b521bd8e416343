//! Builds the schedule of a request with the algorithm that was chosen.

use super::algorithm::Algorithm;
use super::eligible::{Inner, inner_reduction};
use super::hierarchical::View;
use super::lower::Lowering;
use super::world::World;
use super::{Vector, costs, flat};
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

/// How the messages of a request are cut: as all of it asks for, also where a part of it is dealt with at a time.
pub(super) fn tuning(world: &World, request: &Request, vector: Option<&Vector>) -> Tuning {
    let tuning = Tuning {
        chunk: world.settings.chunk,
        slots: SLOTS,
    };
    Tuning {
        chunk: tuning.chunk_for(costs::carried_bytes(world, request, vector)),
        ..tuning
    }
}

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
        tuning: tuning(world, request, vector),
        algorithm,
    };
    match algorithm {
        Algorithm::Vendor => plan.vendor(&mut b),
        Algorithm::Hierarchical { flows } => plan.hierarchical(&mut b, flows),
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
    /// Where in the group the root is.
    fn root(&self) -> usize {
        self.group
            .ranks
            .iter()
            .position(|r| *r == self.request.root)
            .unwrap_or(0)
    }

    /// Whether the result of a reduction of one buffer comes here.
    fn wanted(&self) -> bool {
        self.request.collective == Collective::AllReduce || self.rank == self.request.root
    }

    fn lowering(&self, inner: Inner) -> Lowering<'_> {
        Lowering {
            request: self.request,
            ranks: u64::from(self.world.size()),
            segment: self.tuning.chunk.saturating_mul(SLOTS.into()),
            scaled_before: inner.scaled_before(),
        }
    }

    fn vendor(&self, b: &mut Builder) {
        let request = self.request;
        let sized = !matches!(
            request.collective,
            Collective::Barrier | Collective::AllToAllV | Collective::AllGatherV | Collective::ReduceScatterV
        );
        if request.count == 0 && sized {
            return;
        }
        if let Some(v) = self.vector {
            let (counts, displs) = match request.collective {
                Collective::AllToAllV => (
                    [&v.send_counts[..], &v.recv_counts].concat(),
                    [&v.send_displs[..], &v.recv_displs].concat(),
                ),
                Collective::AllGatherV => (v.recv_counts.clone(), v.recv_displs.clone()),
                _ => (v.send_counts.clone(), Vec::new()),
            };
            b.set_vector(counts, displs);
        }
        let ranks = &self.world.topology.ranks;
        let rooted = request.collective.has_root();
        let call = VendorCall {
            collective: request.collective.abi(),
            dtype: request.dtype,
            op: request.op.abi(),
            root: if rooted {
                ranks[request.root as usize].island_rank
            } else {
                0
            },
            send: USER.src,
            recv: USER.dst,
            count: request.count,
            scale_bits: match request.op {
                RedOp::PreMulSum { scalar_bits } => scalar_bits,
                RedOp::Fixed(_) => 0,
            },
        };
        b.vendor(ranks[self.rank as usize].island_rank, &[call]);
    }

    fn hierarchical(&self, b: &mut Builder, flows: u32) {
        use Collective as C;
        let request = self.request;
        let inner = match request.collective.reduces() {
            true => inner_reduction(self.world, request).map_or(Inner::Plain, |(_, _, inner)| inner),
            false => Inner::Plain,
        };
        let view = View::new(self.world, self.rank, request, flows, self.tuning, inner);
        let (bytes, root) = (request.bytes(), request.root);
        match request.collective {
            C::AllReduce => self
                .lowering(inner)
                .whole(b, USER, true, |b, buffers, reduction, count| {
                    view.all_reduce(b, buffers, reduction, count);
                }),
            C::Reduce => {
                self.lowering(inner)
                    .whole(b, USER, self.wanted(), |b, buffers, reduction, count| {
                        view.reduce(b, buffers, reduction, count, root);
                    });
            }
            C::ReduceScatter => {
                let blocks: Vec<(u64, u64)> = (0..u64::from(self.world.size()))
                    .map(|r| (r * request.count, request.count))
                    .collect();
                let me = self.rank as usize;
                self.lowering(inner)
                    .blocks(b, USER, me, &blocks, |b, buffers, reduction, blocks| {
                        let (first, count) = (|rank: u32| blocks[rank as usize].0, blocks[me].1);
                        if flows == 1 {
                            view.reduce_scatter_staged(b, buffers, reduction, count, first);
                        } else {
                            view.reduce_scatter(b, buffers, reduction, count, first);
                        }
                    });
            }
            C::Broadcast => view.broadcast(b, USER, bytes, root),
            C::AllGather if flows == 1 => view.all_gather_staged(b, USER, bytes),
            C::AllGather => view.all_gather(b, USER, bytes),
            C::Gather => view.gather(b, USER, bytes, root),
            C::Scatter => view.scatter(b, USER, bytes, root),
            C::Barrier => view.barrier(b),
            C::AllToAll | C::AllToAllV | C::AllGatherV | C::ReduceScatterV | C::Send | C::Recv => {}
        }
    }

    fn flat(&self, b: &mut Builder) {
        use Collective as C;
        let (group, request, algorithm) = (self.group, self.request, self.algorithm);
        let (tuning, root) = (self.tuning, self.root());
        let how = (group, tuning);
        let bytes = request.bytes();
        let by_rank = Blocks::by_rank(group.ranks, bytes);
        match request.collective {
            C::AllReduce => {
                self.lowering(Inner::Plain)
                    .whole(b, USER, true, |b, buffers, reduction, count| {
                        flat::allreduce(algorithm, b, how, buffers, reduction, count);
                    });
            }
            C::Reduce => {
                self.lowering(Inner::Plain)
                    .whole(b, USER, self.wanted(), |b, buffers, reduction, count| {
                        flat::reduce(algorithm, b, how, buffers, reduction, count, root);
                    });
            }
            C::ReduceScatter | C::ReduceScatterV => self.flat_reduce_scatter(b),
            C::Broadcast => flat::broadcast(algorithm, b, how, USER, bytes, root),
            C::AllGather => flat::all_gather(algorithm, b, how, USER, &by_rank),
            C::AllGatherV => {
                let blocks = self.vector_blocks(|v| (&v.recv_counts, &v.recv_displs));
                flat::all_gather(algorithm, b, how, USER, &blocks);
            }
            C::Gather if algorithm == Algorithm::Binomial => {
                algo::gather::binomial(b, group, tuning, USER, &by_rank, root);
            }
            C::Gather => algo::gather::linear(b, group, tuning, USER, &by_rank, root),
            C::Scatter if algorithm == Algorithm::Binomial => {
                algo::scatter::binomial(b, group, tuning, USER, &by_rank, root);
            }
            C::Scatter => algo::scatter::linear(b, group, tuning, USER, &by_rank, root),
            C::AllToAll if algorithm == Algorithm::Bruck => {
                algo::all_to_all::bruck(b, group, tuning, USER, &by_rank);
            }
            C::AllToAll => algo::all_to_all::pairwise(b, group, tuning, USER, &by_rank, &by_rank, WINDOW),
            C::AllToAllV => {
                let send = self.vector_blocks(|v| (&v.send_counts, &v.send_displs));
                let recv = self.vector_blocks(|v| (&v.recv_counts, &v.recv_displs));
                algo::all_to_all::pairwise(b, group, tuning, USER, &send, &recv, WINDOW);
            }
            C::Barrier => algo::barrier::dissemination(b, group),
            C::Send => b.send(request.root, USER.src, bytes),
            C::Recv => b.recv(request.root, USER.dst, bytes),
        }
    }

    fn flat_reduce_scatter(&self, b: &mut Builder) {
        let how = (self.group, self.tuning);
        // Blocks in the order of the group, as (first element, elements).
        let blocks: Vec<(u64, u64)> = match self.vector {
            Some(v) => {
                let starts: Vec<u64> = v
                    .send_counts
                    .iter()
                    .scan(0, |next, count| {
                        *next += count;
                        Some(*next - count)
                    })
                    .collect();
                let block = |r: &u32| (starts[*r as usize], v.send_counts[*r as usize]);
                self.group.ranks.iter().map(block).collect()
            }
            None => {
                let count = self.request.count;
                self.group
                    .ranks
                    .iter()
                    .map(|r| (u64::from(*r) * count, count))
                    .collect()
            }
        };
        let run = |b: &mut Builder, buffers: Buffers, reduction: Reduction, blocks: &[(u64, u64)]| {
            let elem = reduction.dtype.size() as u64;
            let members: Vec<u32> = (0..blocks.len() as u32).collect();
            let blocks = Blocks::placed(&members, |member| {
                let (first, count) = blocks[member as usize];
                Span::new(first * elem, count * elem)
            });
            flat::reduce_scatter(self.algorithm, b, how, buffers, reduction, &blocks);
        };
        self.lowering(Inner::Plain)
            .blocks(b, USER, self.group.me, &blocks, run);
    }

    /// Blocks of a V collective in the order of the group.
    fn vector_blocks(&self, pick: impl for<'v> Fn(&'v Vector) -> (&'v Vec<u64>, &'v Vec<u64>)) -> Blocks {
        let elem = self.request.dtype.size() as u64;
        let none = Vector::default();
        let (counts, displs) = pick(self.vector.unwrap_or(&none));
        let at = |list: &[u64], rank: u32| list.get(rank as usize).copied().unwrap_or(0) * elem;
        Blocks::placed(self.group.ranks, |r| Span::new(at(displs, r), at(counts, r)))
    }
}
