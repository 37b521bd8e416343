//! ReduceScatter: through the first rank of each island for short blocks, on one flow for each rank for long ones.

use super::{Alternating, View, cut, scaled, staged};
use crate::algo::{Blocks, Buffers, Group, Reduction, Span};
use crate::plan::flat;
use crate::schedule::{Base, Builder, Loc, VendorCall};
use infiniccl_plugin_api as abi;
use infiniccl_reduce::DataType;

impl View<'_> {
    /// ReduceScatter of blocks of `count` elements: reduced to the first ranks, scattered between them, and inside.
    /// `block(r)` is the first element of rank r's block of the input.
    pub(in crate::plan) fn reduce_scatter_staged(
        &self,
        b: &mut Builder,
        buffers: Buffers,
        reduction: Reduction,
        count: u64,
        block: impl Fn(u32) -> u64,
    ) {
        if count == 0 {
            return;
        }
        let elem = reduction.dtype.size() as u64;
        let (bytes, ranks) = (count * elem, u64::from(self.world.size()));
        let starts = self.bundle_starts();
        let packed = self.packed_input(b, buffers.src, bytes, |rank| block(rank) * elem);
        let leaders: Vec<u32> = self.islands().iter().map(|ranks| ranks[0]).collect();
        let group = self.group(&leaders);
        let total = if group.is_some() { ranks * bytes } else { 0 };
        let reduced = b.alloc(total);
        let bundle = match self.alone() {
            true => buffers.dst,
            false => b.alloc(if group.is_some() {
                self.island().len() as u64 * bytes
            } else {
                0
            }),
        };
        if self.alone() {
            self.take_alone(b, packed, reduced, reduction, ranks * count);
        } else {
            let places = (packed, reduced);
            let call = self.reducing(abi::Collective::REDUCE, reduction, 0, ranks * count, places);
            self.vendor(b, &[call]);
        }
        if let Some(group) = group {
            let blocks = Blocks::placed(&leaders, |leader| {
                let island = self.seat(leader).0;
                Span::new(
                    starts[island] * bytes,
                    self.islands()[island].len() as u64 * bytes,
                )
            });
            let between = self.between(ranks * bytes);
            let outside = Buffers {
                src: reduced,
                dst: bundle,
            };
            flat::reduce_scatter(
                between,
                b,
                (group, self.tuning),
                outside,
                scaled(reduction),
                &blocks,
            );
        }
        if !self.alone() {
            let call = VendorCall {
                send: bundle,
                recv: buffers.dst,
                ..self.call(abi::Collective::SCATTER, DataType::Uint8, 0, bytes)
            };
            self.vendor(b, &[call]);
        }
    }

    /// The input's blocks one after the other in the order of the islands.
    fn packed_input(&self, b: &mut Builder, src: Loc, bytes: u64, offset: impl Fn(u32) -> u64) -> Loc {
        let ranks = || self.islands().iter().flatten().copied();
        let start = offset(0);
        if (0u64..)
            .zip(ranks())
            .all(|(index, rank)| offset(rank) == start + index * bytes)
        {
            return src.plus(start);
        }
        let packed = b.alloc(u64::from(self.world.size()) * bytes);
        for (index, rank) in (0u64..).zip(ranks()) {
            b.copy(packed.plus(index * bytes), src.plus(offset(rank)), bytes);
        }
        packed
    }

    /// ReduceScatter of blocks of `count` elements: every block reduced to the carrier of its rank's flow, and the
    /// islands' parts of it combined along that flow. `block(r)` is the first element of rank r's block of the
    /// input.
    pub(in crate::plan) fn reduce_scatter(
        &self,
        b: &mut Builder,
        buffers: Buffers,
        reduction: Reduction,
        count: u64,
        block: impl Fn(u32) -> u64,
    ) {
        let elem = reduction.dtype.size() as u64;
        let islands = self.islands();
        let smallest = islands.iter().map(Vec::len).min().unwrap_or(1);
        // Parts that a rank holds at most; each rank cuts alike.
        let parts = islands.len() * self.flows.div_ceil(smallest);
        let chunk = self.tuning.chunk;
        let length = staged(count * elem, parts as u64, elem).min(chunk) / elem;
        let between = self.between(length * elem * islands.len() as u64);
        let carriers: Vec<(usize, Vec<u32>)> = self.my_flows().map(|f| (f, self.carriers(f))).collect();
        let mut memory = Alternating::new(b);
        for (first, length) in cut(count, length) {
            memory.next(b);
            let bytes = length * elem;
            let held = b.alloc((carriers.len() * islands.len()) as u64 * bytes);
            let part = |flow: usize, island: usize| {
                held.plus(((flow / self.island().len()) * islands.len() + island) as u64 * bytes)
            };
            let input = |rank: u32| buffers.src.plus((block(rank) + first) * elem);
            // In the order in which a ring wants them.
            for step in 1..=islands.len() {
                let island = (self.mine + islands.len() - step) % islands.len();
                self.reduce_parts(b, reduction, island, length, input, part);
            }
            for (flow, ranks) in &carriers {
                let blocks = Blocks::placed(ranks, |carrier| {
                    let island = self.seat(carrier).0;
                    let has_block = *flow < islands[island].len();
                    Span::new(island as u64 * bytes, if has_block { bytes } else { 0 })
                });
                let outside = Buffers {
                    src: part(*flow, 0),
                    dst: buffers.dst.plus(first * elem),
                };
                let group = Group { ranks, me: self.mine };
                flat::reduce_scatter(
                    between,
                    b,
                    (group, self.tuning),
                    outside,
                    scaled(reduction),
                    &blocks,
                );
            }
        }
    }

    /// Reduces the blocks of an island's ranks to their carriers here.
    fn reduce_parts(
        &self,
        b: &mut Builder,
        reduction: Reduction,
        island: usize,
        length: u64,
        input: impl Fn(u32) -> Loc,
        part: impl Fn(usize, usize) -> Loc,
    ) {
        let members = self.island().len();
        let ranks = self.islands()[island].iter().enumerate();
        if self.alone() {
            for (flow, rank) in ranks {
                self.take_alone(b, input(*rank), part(flow, island), reduction, length);
            }
            return;
        }
        let calls: Vec<VendorCall> = ranks
            .map(|(flow, rank)| {
                let root = (flow % members) as u32;
                let into = match root == self.place {
                    true => part(flow, island),
                    false => Loc::new(Base::Scratch, 0),
                };
                self.reducing(
                    abi::Collective::REDUCE,
                    reduction,
                    root,
                    length,
                    (input(*rank), into),
                )
            })
            .collect();
        self.vendor(b, &calls);
    }
}
