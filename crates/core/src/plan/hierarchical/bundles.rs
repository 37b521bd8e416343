//! Gather and Scatter through one delegate per island, the root for its own.
//!
//! Short blocks of an island travel as one bundle, which the root packs or unpacks; long ones travel one by one, to
//! and from where they belong.

use super::{SMALL_BLOCK, View, cut, recv_cut, send_cut, staged};
use crate::algo::Buffers;
use crate::schedule::{Builder, Loc, VendorCall};
use infiniccl_plugin_api as abi;
use infiniccl_reduce::DataType;

/// What all ranks know of a Gather or Scatter.
struct Bundles {
    delegates: Vec<u32>,
    /// The root's island.
    home: usize,
    /// Island rank of this rank's delegate.
    inside: u32,
    bundled: bool,
    /// Bytes of a block that move at once, and of a message.
    piece: u64,
    chunk: u64,
    /// Where the blocks of each island start in the root's slot, in units of a block.
    starts: Vec<u64>,
    slots: [Loc; 2],
}

impl View<'_> {
    fn bundles(&self, b: &mut Builder, bytes: u64, root: u32) -> Bundles {
        let delegates = self.delegates(root);
        let (ranks, most) = (
            u64::from(self.world.size()),
            u64::from(self.world.largest_island()),
        );
        let chunk = self.tuning.chunk;
        let bundled = bytes <= SMALL_BLOCK;
        let piece = match bundled {
            true => staged(bytes, ranks, 1),
            false => staged(bytes.min(chunk), most, 1),
        };
        let own = self.island().len() as u64;
        let blocks = match (self.rank == root, bundled) {
            (true, true) => ranks,
            (_, _) if self.alone() || delegates[self.mine] != self.rank => 0,
            (_, _) => own,
        };
        Bundles {
            home: self.seat(root).0,
            inside: self.seat(delegates[self.mine]).1,
            delegates,
            bundled,
            piece,
            chunk,
            starts: self.bundle_starts(),
            slots: [
                b.alloc(blocks * piece),
                b.alloc(if piece < bytes { blocks * piece } else { 0 }),
            ],
        }
    }

    /// Gather of `bytes` bytes per rank to `root`.
    pub(in crate::plan) fn gather(&self, b: &mut Builder, buffers: Buffers, bytes: u64, root: u32) {
        let plan = self.bundles(b, bytes, root);
        let is_root = self.rank == root;
        for (round, (first, length)) in cut(bytes, plan.piece).enumerate() {
            let slot = plan.slots[round % 2];
            let start = if is_root && plan.bundled {
                plan.starts[plan.home] * length
            } else {
                0
            };
            let src = buffers.src.plus(first);
            let place = |rank: u32| buffers.dst.plus(u64::from(rank) * bytes + first);
            if !self.alone() {
                let call = VendorCall {
                    send: src,
                    recv: slot.plus(start),
                    ..self.call(abi::Collective::GATHER, DataType::Uint8, plan.inside, length)
                };
                self.vendor(b, &[call]);
            }
            if !is_root {
                if plan.delegates[self.mine] == self.rank {
                    let from = if self.alone() { src } else { slot };
                    self.send_blocks(b, root, from, length, &plan);
                }
                continue;
            }
            for (island, ranks) in self.islands().iter().enumerate() {
                let at = |index: u64| slot.plus(start + index * length);
                if island == plan.home && self.alone() {
                    b.copy(place(root), src, length);
                } else if island == plan.home {
                    (0u64..)
                        .zip(ranks)
                        .for_each(|(i, rank)| b.copy(place(*rank), at(i), length));
                } else if plan.bundled {
                    let bundle = slot.plus(plan.starts[island] * length);
                    let total = ranks.len() as u64 * length;
                    recv_cut(b, plan.delegates[island], bundle, total, plan.chunk);
                    for (i, rank) in (0u64..).zip(ranks) {
                        b.copy(place(*rank), bundle.plus(i * length), length);
                    }
                } else {
                    for rank in ranks {
                        recv_cut(b, plan.delegates[island], place(*rank), length, plan.chunk);
                    }
                }
            }
        }
    }

    /// Scatter of `bytes` bytes per rank from `root`.
    pub(in crate::plan) fn scatter(&self, b: &mut Builder, buffers: Buffers, bytes: u64, root: u32) {
        let plan = self.bundles(b, bytes, root);
        let is_root = self.rank == root;
        for (round, (first, length)) in cut(bytes, plan.piece).enumerate() {
            let slot = plan.slots[round % 2];
            let start = if is_root && plan.bundled {
                plan.starts[plan.home] * length
            } else {
                0
            };
            let dst = buffers.dst.plus(first);
            let place = |rank: u32| buffers.src.plus(u64::from(rank) * bytes + first);
            if is_root {
                for (island, ranks) in self.islands().iter().enumerate() {
                    let bundle = slot.plus(if plan.bundled {
                        plan.starts[island] * length
                    } else {
                        0
                    });
                    let stays = island == plan.home;
                    if (plan.bundled || stays) && !(stays && self.alone()) {
                        for (i, rank) in (0u64..).zip(ranks) {
                            b.copy(bundle.plus(i * length), place(*rank), length);
                        }
                    }
                    if stays {
                        continue;
                    }
                    let peer = plan.delegates[island];
                    if plan.bundled {
                        send_cut(b, peer, bundle, ranks.len() as u64 * length, plan.chunk);
                    } else {
                        ranks
                            .iter()
                            .for_each(|r| send_cut(b, peer, place(*r), length, plan.chunk));
                    }
                }
            } else if plan.delegates[self.mine] == self.rank {
                let into = if self.alone() { dst } else { slot };
                self.recv_blocks(b, root, into, length, &plan);
            }
            if !self.alone() {
                let call = VendorCall {
                    send: slot.plus(start),
                    recv: dst,
                    ..self.call(abi::Collective::SCATTER, DataType::Uint8, plan.inside, length)
                };
                self.vendor(b, &[call]);
            } else if is_root {
                b.copy(dst, place(root), length);
            }
        }
    }

    /// Sends the island's blocks, packed at `from`, to the root.
    fn send_blocks(&self, b: &mut Builder, root: u32, from: Loc, length: u64, plan: &Bundles) {
        let blocks = self.island().len() as u64;
        if plan.bundled {
            send_cut(b, root, from, blocks * length, plan.chunk);
        } else {
            (0..blocks).for_each(|i| send_cut(b, root, from.plus(i * length), length, plan.chunk));
        }
    }

    /// Receives the island's blocks from the root, to be packed at `into`.
    fn recv_blocks(&self, b: &mut Builder, root: u32, into: Loc, length: u64, plan: &Bundles) {
        let blocks = self.island().len() as u64;
        if plan.bundled {
            recv_cut(b, root, into, blocks * length, plan.chunk);
        } else {
            (0..blocks).for_each(|i| recv_cut(b, root, into.plus(i * length), length, plan.chunk));
        }
    }
}
