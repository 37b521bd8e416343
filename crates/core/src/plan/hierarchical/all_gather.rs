//! AllGather: through the first rank of each island for short blocks, on one flow for each rank for long ones.

use super::{View, cut};
use crate::algo::{Blocks, Buffers, Span};
use crate::call::Collective;
use crate::capability::Case;
use crate::plan::flat;
use crate::schedule::{Builder, VendorCall};
use infiniccl_plugin_api as abi;
use infiniccl_reduce::DataType;

impl View<'_> {
    /// AllGather of `bytes` bytes per rank: gathered inside, exchanged between the first ranks, broadcast inside.
    pub(in crate::plan) fn all_gather_staged(&self, b: &mut Builder, buffers: Buffers, bytes: u64) {
        let total = u64::from(self.world.size()) * bytes;
        let starts = self.bundle_starts();
        // Where the order of the islands is that of the ranks, the output serves as the stage.
        let stage = if self.in_order() {
            buffers.dst
        } else {
            b.alloc(total)
        };
        let bundle = stage.plus(starts[self.mine] * bytes);
        if self.alone() {
            b.copy(bundle, buffers.src, bytes);
        } else {
            let call = VendorCall {
                send: buffers.src,
                recv: bundle,
                ..self.call(abi::Collective::GATHER, DataType::Uint8, 0, bytes)
            };
            self.vendor(b, &[call]);
        }
        let leaders: Vec<u32> = self.islands().iter().map(|ranks| ranks[0]).collect();
        if let Some(group) = self.group(&leaders) {
            let blocks = Blocks::placed(&leaders, |leader| {
                let island = self.seat(leader).0;
                Span::new(
                    starts[island] * bytes,
                    self.islands()[island].len() as u64 * bytes,
                )
            });
            let both = Buffers {
                src: bundle,
                dst: stage,
            };
            flat::all_gather(self.between(total), b, (group, self.tuning), both, &blocks);
        }
        if !self.alone() {
            let call = VendorCall {
                send: stage,
                recv: stage,
                ..self.call(abi::Collective::BROADCAST, DataType::Uint8, 0, total)
            };
            self.vendor(b, &[call]);
        }
        let packed = self.islands().iter().flatten();
        for (index, rank) in (0u64..).zip(packed) {
            b.copy(
                buffers.dst.plus(u64::from(*rank) * bytes),
                stage.plus(index * bytes),
                bytes,
            );
        }
    }

    /// AllGather of `bytes` bytes per rank: blocks go from island to island around a ring, each on the flow of its
    /// rank's place, and every island spreads what has come. Nothing is staged.
    pub(in crate::plan) fn all_gather(&self, b: &mut Builder, buffers: Buffers, bytes: u64) {
        let islands = self.islands().len();
        let chunk = self.tuning.chunk;
        let (next, prev) = ((self.mine + 1) % islands, (self.mine + islands - 1) % islands);
        let whole = bytes <= chunk && self.has_all_gather(bytes);
        for (first, length) in cut(bytes, chunk) {
            for step in 0..islands {
                let island = (self.mine + islands - step) % islands;
                let ranks = &self.islands()[island];
                let flows = || self.my_flows().take_while(|flow| *flow < ranks.len());
                let place = |rank: u32| buffers.dst.plus(u64::from(rank) * bytes + first);
                let source = |rank: u32| match rank == self.rank {
                    true => buffers.src.plus(first),
                    false => place(rank),
                };
                if step > 0 {
                    flows().for_each(|flow| b.recv(self.carrier(prev, flow), place(ranks[flow]), length));
                }
                if step + 1 < islands {
                    flows().for_each(|flow| b.send(self.carrier(next, flow), source(ranks[flow]), length));
                }
                if self.alone() {
                    if step == 0 {
                        b.copy(place(self.rank), source(self.rank), length);
                    }
                } else if whole && ranks.len() == self.island().len() && consecutive(ranks) {
                    let call = VendorCall {
                        send: source(ranks[self.place as usize]),
                        recv: place(ranks[0]),
                        ..self.call(abi::Collective::ALL_GATHER, DataType::Uint8, 0, length)
                    };
                    self.vendor(b, &[call]);
                } else {
                    let members = self.island().len();
                    let calls: Vec<VendorCall> = (0..)
                        .zip(ranks)
                        .map(|(flow, rank): (usize, _)| {
                            let root = (flow % members) as u32;
                            VendorCall {
                                send: source(*rank),
                                recv: place(*rank),
                                ..self.call(abi::Collective::BROADCAST, DataType::Uint8, root, length)
                            }
                        })
                        .collect();
                    self.vendor(b, &calls);
                }
            }
        }
    }

    fn has_all_gather(&self, bytes: u64) -> bool {
        let case = Case {
            collective: Collective::AllGather,
            dtype: DataType::Uint8,
            op: None,
            bytes,
            ranks: 0,
        };
        self.world.native_in(self.mine, case, bytes, bytes).is_ok()
    }
}

/// Whether the ranks follow each other, so that their blocks do.
fn consecutive(ranks: &[u32]) -> bool {
    ranks.windows(2).all(|pair| pair[0] + 1 == pair[1])
}
