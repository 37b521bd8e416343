//! Hierarchical collectives: the vendor's library inside the islands, flat algorithms between them.
//!
//! The buffer is cut into fragments, and each fragment into `owners` blocks. Block b is owned, in the island with
//! k ranks, by island rank b mod k. Inside each island the block is reduced to its owner; the owners of a block
//! combine their parts over the network; inside each island the owner broadcasts. The phases of neighbouring
//! fragments overlap.

use super::world::World;
use crate::algo::{self, Buffers, Group, Reduction, Tuning};
use crate::schedule::{Base, Builder, Loc, Operand, VendorCall};
use infiniccl_plugin_api as abi;
use infiniccl_reduce::DataType;

/// Fragments whose inner phases may run ahead of the network.
const AHEAD: usize = 2;

/// One rank's view of the islands.
pub(super) struct View<'a> {
    pub(super) world: &'a World,
    pub(super) rank: u32,
    /// Blocks of a fragment, and with it concurrent flows between islands.
    pub(super) owners: usize,
    pub(super) tuning: Tuning,
}

/// A block of a fragment.
#[derive(Clone, Copy)]
struct Piece {
    block: usize,
    /// First element and number of elements.
    first: u64,
    count: u64,
}

impl View<'_> {
    fn island(&self) -> &[u32] {
        self.world.topology.island_of(self.rank)
    }

    fn island_rank(&self) -> u32 {
        self.world.topology.ranks[self.rank as usize].island_rank
    }

    /// Island rank that owns a block here.
    fn owner(&self, block: usize) -> u32 {
        (block % self.island().len()) as u32
    }

    /// The owners of a block, one per island.
    fn owners_of(&self, block: usize) -> Vec<u32> {
        self.world
            .topology
            .islands
            .iter()
            .map(|ranks| ranks[block % ranks.len()])
            .collect()
    }

    /// One rank per island that stands for it: `root` for its own, the first rank elsewhere.
    fn delegates(&self, root: u32) -> Vec<u32> {
        let home = self.world.topology.ranks[root as usize].island as usize;
        let islands = self.world.topology.islands.iter().enumerate();
        islands
            .map(|(i, ranks)| if i == home { root } else { ranks[0] })
            .collect()
    }

    fn group<'g>(&self, ranks: &'g [u32]) -> Option<Group<'g>> {
        ranks
            .iter()
            .position(|r| *r == self.rank)
            .map(|me| Group { ranks, me })
    }

    /// Fragments of `count` elements, each cut into blocks.
    fn fragments(&self, dtype: DataType, count: u64) -> Vec<Vec<Piece>> {
        let owners = self.owners as u64;
        let elements =
            (self.tuning.chunk_for(count * dtype.size() as u64) / dtype.size() as u64).max(1) * owners;
        let mut fragments = Vec::new();
        let mut first = 0;
        while first < count {
            let length = elements.min(count - first);
            let cut = |i: u64| first + length * i / owners;
            fragments.push(
                (0..owners)
                    .map(|i| Piece {
                        block: i as usize,
                        first: cut(i),
                        count: cut(i + 1) - cut(i),
                    })
                    .filter(|p| p.count > 0)
                    .collect(),
            );
            first += length;
        }
        fragments
    }

    fn call(&self, collective: abi::Collective, dtype: DataType, root: u32) -> VendorCall {
        let nowhere = Loc::new(Base::Scratch, 0);
        VendorCall {
            collective,
            dtype,
            op: abi::RedOp::SUM,
            root,
            send: nowhere,
            recv: nowhere,
            count: 0,
            scale_bits: 0,
        }
    }

    fn vendor(&self, b: &mut Builder, calls: &[VendorCall]) {
        if !calls.is_empty() {
            b.vendor(self.island_rank(), calls);
        }
    }

    /// AllReduce; `scale_bits`: the island's library multiplies its inputs by this factor (PREMUL_SUM).
    pub(super) fn allreduce(
        &self,
        b: &mut Builder,
        buffers: Buffers,
        reduction: Reduction,
        count: u64,
        scale_bits: Option<u64>,
    ) {
        let elem = reduction.dtype.size() as u64;
        let alone = self.island().len() == 1;
        let fragments = self.fragments(reduction.dtype, count);
        let mark = b.mark();
        for step in 0..fragments.len() + AHEAD {
            b.rewind(mark);
            if let Some(pieces) = fragments.get(step) {
                self.reduce_inside(b, buffers, reduction, pieces, scale_bits);
            }
            let Some(pieces) = step.checked_sub(AHEAD).and_then(|i| fragments.get(i)) else {
                continue;
            };
            for piece in pieces {
                let owners = self.owners_of(piece.block);
                let Some(group) = self.group(&owners) else {
                    continue;
                };
                let at = buffers.dst.plus(piece.first * elem);
                let both = Buffers { src: at, dst: at };
                // What came out of the islands is scaled already.
                let between = Reduction {
                    raw: false,
                    ..reduction
                };
                self.between(b, group, both, between, piece.count);
            }
            if !alone {
                let calls: Vec<VendorCall> = pieces
                    .iter()
                    .map(|piece| {
                        let at = buffers.dst.plus(piece.first * elem);
                        VendorCall {
                            send: at,
                            recv: at,
                            count: piece.count,
                            ..self.call(
                                abi::Collective::BROADCAST,
                                reduction.dtype,
                                self.owner(piece.block),
                            )
                        }
                    })
                    .collect();
                self.vendor(b, &calls);
            }
        }
    }

    /// The first phase: each block of the fragment, reduced to its owner's output.
    fn reduce_inside(
        &self,
        b: &mut Builder,
        buffers: Buffers,
        reduction: Reduction,
        pieces: &[Piece],
        scale_bits: Option<u64>,
    ) {
        let elem = reduction.dtype.size() as u64;
        if self.island().len() == 1 {
            for piece in pieces {
                let at = piece.first * elem;
                self.take_alone(
                    b,
                    buffers.src.plus(at),
                    buffers.dst.plus(at),
                    reduction,
                    piece.count,
                );
            }
            return;
        }
        let op = match scale_bits {
            Some(_) => abi::RedOp::PREMUL_SUM,
            None => abi::RedOp(reduction.op.code()),
        };
        let calls: Vec<VendorCall> = pieces
            .iter()
            .map(|piece| VendorCall {
                op,
                send: buffers.src.plus(piece.first * elem),
                recv: buffers.dst.plus(piece.first * elem),
                count: piece.count,
                scale_bits: scale_bits.unwrap_or(0),
                ..self.call(abi::Collective::REDUCE, reduction.dtype, self.owner(piece.block))
            })
            .collect();
        self.vendor(b, &calls);
    }

    /// What the first phase is on an island of one rank: the input, scaled if the others' were.
    fn take_alone(&self, b: &mut Builder, src: Loc, dst: Loc, reduction: Reduction, count: u64) {
        if reduction.raw {
            let input = [Operand { at: src, pre: true }];
            b.reduce((reduction.dtype, reduction.op), dst, &input, count, false);
        } else {
            b.copy(dst, src, count * reduction.dtype.size() as u64);
        }
    }

    /// AllReduce among one rank per island.
    fn between(&self, b: &mut Builder, group: Group<'_>, buffers: Buffers, reduction: Reduction, count: u64) {
        let bytes = count * reduction.dtype.size() as u64;
        // Recursive doubling computes on every rank, so it needs ranks that compute alike.
        if bytes <= SMALL_BETWEEN && self.world.topology.one_arithmetic() {
            algo::allreduce::recursive_doubling(b, group, self.tuning, buffers, reduction, count);
        } else {
            algo::allreduce::ring(b, group, self.tuning, buffers, reduction, count);
        }
    }

    /// Broadcast of `bytes` bytes from `root`.
    pub(super) fn broadcast(&self, b: &mut Builder, buffers: Buffers, bytes: u64, root: u32) {
        let delegates = self.delegates(root);
        let me = self.group(&delegates);
        let home = self.world.topology.ranks[root as usize].island as usize;
        let mine = self.world.topology.ranks[self.rank as usize].island as usize;
        let inside = self
            .island()
            .iter()
            .position(|r| *r == delegates[mine])
            .unwrap_or(0) as u32;
        let several = self.island().len() > 1;
        let chunk = self.tuning.chunk_for(bytes);
        let mark = b.mark();
        let mut first = 0;
        while first < bytes {
            b.rewind(mark);
            let length = chunk.min(bytes - first);
            let here = Buffers {
                src: buffers.src.plus(first),
                dst: buffers.dst.plus(first),
            };
            let from = if self.rank == root { here.src } else { here.dst };
            if let Some(group) = me {
                // The vendor's broadcast will fill the root's output, if it runs.
                let dst = if several { from } else { here.dst };
                let between = Buffers { src: here.src, dst };
                algo::broadcast::binomial(b, group, self.tuning, between, length, home);
            }
            if several {
                let call = VendorCall {
                    send: from,
                    recv: here.dst,
                    count: length,
                    ..self.call(abi::Collective::BROADCAST, DataType::Uint8, inside)
                };
                self.vendor(b, &[call]);
            }
            first += length;
        }
    }

    /// Reduce to `root`.
    pub(super) fn reduce(
        &self,
        b: &mut Builder,
        buffers: Buffers,
        reduction: Reduction,
        count: u64,
        root: u32,
        scale_bits: Option<u64>,
    ) {
        let elem = reduction.dtype.size() as u64;
        let delegates = self.delegates(root);
        let group = self.group(&delegates);
        let home = self.world.topology.ranks[root as usize].island as usize;
        let mine = self.world.topology.ranks[self.rank as usize].island as usize;
        let inside = self
            .island()
            .iter()
            .position(|r| *r == delegates[mine])
            .unwrap_or(0) as u32;
        let chunk = self.tuning.chunk_for(count * elem) / elem;
        let slots: Vec<Loc> = (0..=AHEAD).map(|_| b.alloc(chunk * elem)).collect();
        let fragments: Vec<(u64, u64)> = (0..count.div_ceil(chunk))
            .map(|i| (i * chunk, chunk.min(count - i * chunk)))
            .collect();
        let mark = b.mark();
        for step in 0..fragments.len() + AHEAD {
            b.rewind(mark);
            if let Some((first, length)) = fragments.get(step).copied() {
                let (src, part) = (buffers.src.plus(first * elem), slots[step % slots.len()]);
                if self.island().len() == 1 {
                    self.take_alone(b, src, part, reduction, length);
                } else {
                    let op = match scale_bits {
                        Some(_) => abi::RedOp::PREMUL_SUM,
                        None => abi::RedOp(reduction.op.code()),
                    };
                    let call = VendorCall {
                        op,
                        send: src,
                        recv: part,
                        count: length,
                        scale_bits: scale_bits.unwrap_or(0),
                        ..self.call(abi::Collective::REDUCE, reduction.dtype, inside)
                    };
                    self.vendor(b, &[call]);
                }
            }
            let Some(done) = step.checked_sub(AHEAD) else {
                continue;
            };
            let (Some((first, length)), Some(group)) = (fragments.get(done).copied(), group) else {
                continue;
            };
            let here = Buffers {
                src: slots[done % slots.len()],
                dst: buffers.dst.plus(first * elem),
            };
            let between = Reduction {
                raw: false,
                ..reduction
            };
            algo::reduce::binomial(b, group, self.tuning, here, between, length, home);
        }
    }

    /// AllGather of `bytes` bytes per rank: gathered inside, exchanged between the islands' first ranks, and
    /// broadcast inside.
    pub(super) fn all_gather(&self, b: &mut Builder, buffers: Buffers, bytes: u64) {
        let islands = &self.world.topology.islands;
        let leaders: Vec<u32> = islands.iter().map(|ranks| ranks[0]).collect();
        let most = islands.iter().map(|ranks| ranks.len() as u64).max().unwrap_or(1);
        let ranks: u64 = islands.iter().map(|r| r.len() as u64).sum();
        // A round takes the same stretch of every rank's part, such that scratch memory stays small.
        let stretch = (self.tuning.chunk_for(bytes) / most).max(1).min(bytes.max(1));
        let slots = [b.alloc(stretch * ranks), b.alloc(stretch * ranks)];
        let leader = self.group(&leaders);
        let alone = self.island().len() == 1;
        let mark = b.mark();
        for (round, first) in (0..bytes)
            .step_by(usize::try_from(stretch).unwrap_or(usize::MAX))
            .enumerate()
        {
            b.rewind(mark);
            let length = stretch.min(bytes - first);
            let all = slots[round % slots.len()];
            let starts: Vec<u64> = islands
                .iter()
                .scan(0u64, |at, ranks| {
                    let start = *at;
                    *at += ranks.len() as u64 * length;
                    Some(start)
                })
                .collect();
            let mine = self.world.topology.ranks[self.rank as usize].island as usize;
            let src = buffers.src.plus(first);
            if alone {
                b.copy(all.plus(starts[mine]), src, length);
            } else {
                let call = VendorCall {
                    send: src,
                    recv: all.plus(starts[mine]),
                    count: length,
                    ..self.call(abi::Collective::GATHER, DataType::Uint8, 0)
                };
                self.vendor(b, &[call]);
            }
            if let Some(group) = leader {
                let blocks = algo::Blocks::placed(&leaders, |leader| {
                    let island = self.world.topology.ranks[leader as usize].island as usize;
                    algo::Span::new(starts[island], islands[island].len() as u64 * length)
                });
                let both = Buffers {
                    src: all.plus(starts[mine]),
                    dst: all,
                };
                algo::all_gather::ring(b, group, self.tuning, both, &blocks);
            }
            if !alone {
                let call = VendorCall {
                    send: all,
                    recv: all,
                    count: ranks * length,
                    ..self.call(abi::Collective::BROADCAST, DataType::Uint8, 0)
                };
                self.vendor(b, &[call]);
            }
            for (ranks, start) in islands.iter().zip(&starts) {
                for (place, rank) in (0u64..).zip(ranks) {
                    let dst = buffers.dst.plus(u64::from(*rank) * bytes + first);
                    b.copy(dst, all.plus(start + place * length), length);
                }
            }
        }
    }
}

/// Up to this many bytes, all ranks between the islands compute at once.
const SMALL_BETWEEN: u64 = 64 << 10;
