//! Broadcast and Reduce: one delegate per island, the root for its own.

use super::{AHEAD, Alternating, View, cut, scaled};
use crate::algo::{Buffers, Reduction};
use crate::plan::{costs, flat};
use crate::schedule::{Builder, Loc, VendorCall};
use infiniccl_plugin_api as abi;
use infiniccl_reduce::DataType;

impl View<'_> {
    /// Broadcast of `bytes` bytes from `root`.
    pub(in crate::plan) fn broadcast(&self, b: &mut Builder, buffers: Buffers, bytes: u64, root: u32) {
        let delegates = self.delegates(root);
        let group = self.group(&delegates);
        let home = self.seat(root).0;
        let inside = self.seat(delegates[self.mine]).1;
        let chunk = costs::piece(bytes, 1, self.tuning.chunk);
        let between = self.between(chunk.min(bytes));
        for (first, length) in cut(bytes, chunk) {
            let here = Buffers {
                src: buffers.src.plus(first),
                dst: buffers.dst.plus(first),
            };
            let from = if self.rank == root { here.src } else { here.dst };
            if let Some(group) = group {
                // The library's broadcast fills the root's output, if there is one.
                let dst = if self.alone() { here.dst } else { from };
                let outside = Buffers { src: here.src, dst };
                flat::broadcast(between, b, (group, self.tuning), outside, length, home);
            }
            if !self.alone() {
                let call = VendorCall {
                    send: from,
                    recv: here.dst,
                    ..self.call(abi::Collective::BROADCAST, DataType::Uint8, inside, length)
                };
                self.vendor(b, &[call]);
            }
        }
    }

    /// Reduce of `count` elements to `root`.
    pub(in crate::plan) fn reduce(
        &self,
        b: &mut Builder,
        buffers: Buffers,
        reduction: Reduction,
        count: u64,
        root: u32,
    ) {
        let elem = reduction.dtype.size() as u64;
        let delegates = self.delegates(root);
        let group = self.group(&delegates);
        let home = self.seat(root).0;
        let inside = self.seat(delegates[self.mine]).1;
        let chunk = costs::piece(count * elem, 1, self.tuning.chunk) / elem;
        let between = self.between(chunk.min(count) * elem);
        // An island of one rank gives its input as it is, unless it must be scaled.
        let staged = group.is_some() && (!self.alone() || reduction.raw);
        let slot_bytes = if staged { chunk.min(count) * elem } else { 0 };
        let slots: Vec<Loc> = (0..=AHEAD).map(|_| b.alloc(slot_bytes)).collect();
        let fragments: Vec<(u64, u64)> = cut(count, chunk).collect();
        let mut memory = Alternating::new(b);
        for step in 0..fragments.len() + AHEAD {
            if let Some((first, length)) = fragments.get(step).copied() {
                let (src, part) = (buffers.src.plus(first * elem), slots[step % slots.len()]);
                if !self.alone() {
                    let places = (src, part);
                    let call = self.reducing(abi::Collective::REDUCE, reduction, inside, length, places);
                    self.vendor(b, &[call]);
                } else if staged {
                    self.take_alone(b, src, part, reduction, length);
                }
            }
            let Some(done) = step.checked_sub(AHEAD) else {
                continue;
            };
            let (Some((first, length)), Some(group)) = (fragments.get(done).copied(), group) else {
                continue;
            };
            memory.next(b);
            let here = Buffers {
                src: if staged {
                    slots[done % slots.len()]
                } else {
                    buffers.src.plus(first * elem)
                },
                dst: buffers.dst.plus(first * elem),
            };
            flat::reduce(
                between,
                b,
                (group, self.tuning),
                here,
                scaled(reduction),
                length,
                home,
            );
        }
    }
}
