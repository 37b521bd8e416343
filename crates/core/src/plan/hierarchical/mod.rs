//! Hierarchical collectives: the vendor's library inside the islands, flat algorithms between them.
//!
//! Between the islands there are one or more concurrent flows. Flow f is carried, in an island of k ranks, by island
//! rank f mod k; so islands of any size work together, and an island of one rank carries all flows and skips its
//! inner phases. No function here looks at what one rank alone knows, so all ranks of an island make the same calls.

mod all_gather;
mod all_reduce;
mod barrier;
mod bundles;
mod reduce_scatter;
mod rooted;

use super::costs;
use super::eligible::Inner;
use super::rounding::must_round_once;
use super::world::World;
use crate::algo::{Group, Reduction, Tuning};
use crate::call::{Collective, Request};
use crate::schedule::{Base, Builder, Loc, Operand, VendorCall};
use infiniccl_plugin_api as abi;
use infiniccl_reduce::DataType;

/// Fragments whose inner phases may run ahead of the network.
const AHEAD: usize = 2;

/// Bytes of blocks that are staged in scratch memory at once.
pub(super) const STAGE: u64 = 2 << 20;

/// Blocks up to this many bytes travel in one message with those of the same island.
pub(super) const SMALL_BLOCK: u64 = 4 << 10;

/// The fewest bytes of a block that are staged at once, so that the calls for them do not become too many.
const LEAST_STAGED: u64 = 4 << 10;

/// One block is staged in at most about this many pieces.
const MOST_STAGES: u64 = 64;

/// One rank's view of the islands.
pub(super) struct View<'a> {
    world: &'a World,
    rank: u32,
    tuning: Tuning,
    collective: Collective,
    /// Concurrent flows between the islands.
    flows: usize,
    /// This rank's island, and its place there.
    mine: usize,
    place: u32,
    /// How the islands' libraries reduce.
    inner: Inner,
    /// Between the islands, only what combines all inputs at once will do.
    once: bool,
}

impl<'a> View<'a> {
    pub(super) fn new(
        world: &'a World,
        rank: u32,
        request: &Request,
        flows: u32,
        tuning: Tuning,
        inner: Inner,
    ) -> Self {
        let info = &world.topology.ranks[rank as usize];
        // A rank that carries several flows has their chunks in flight at once. Alike on all ranks, since this decides
        // which message comes after which.
        let smallest = world
            .topology
            .islands
            .iter()
            .map(|r| r.len() as u32)
            .min()
            .unwrap_or(1);
        let tuning = Tuning {
            slots: (tuning.slots / flows.div_ceil(smallest)).max(1),
            ..tuning
        };
        View {
            world,
            rank,
            tuning,
            collective: request.collective,
            once: must_round_once(world, request),
            flows: flows as usize,
            mine: info.island as usize,
            place: info.island_rank,
            inner,
        }
    }

    fn islands(&self) -> &'a [Vec<u32>] {
        &self.world.topology.islands
    }

    fn island(&self) -> &'a [u32] {
        &self.islands()[self.mine]
    }

    fn alone(&self) -> bool {
        self.island().len() == 1
    }

    /// Where a rank is: its island, and its place there.
    fn seat(&self, rank: u32) -> (usize, u32) {
        let info = &self.world.topology.ranks[rank as usize];
        (info.island as usize, info.island_rank)
    }

    /// The rank that carries a flow in an island.
    fn carrier(&self, island: usize, flow: usize) -> u32 {
        let ranks = &self.islands()[island];
        ranks[flow % ranks.len()]
    }

    /// The carriers of a flow, by island; this rank's place among them is that of its island.
    fn carriers(&self, flow: usize) -> Vec<u32> {
        (0..self.islands().len()).map(|i| self.carrier(i, flow)).collect()
    }

    /// The flows that this rank carries.
    fn my_flows(&self) -> impl Iterator<Item = usize> + use<> {
        (self.place as usize..self.flows).step_by(self.island().len())
    }

    /// One rank per island that stands for it: `root` for its own, the first rank elsewhere.
    fn delegates(&self, root: u32) -> Vec<u32> {
        let home = self.seat(root).0;
        let islands = self.islands().iter().enumerate();
        islands
            .map(|(i, ranks)| if i == home { root } else { ranks[0] })
            .collect()
    }

    /// The group of one rank per island, if this rank is one of them.
    fn group<'g>(&self, ranks: &'g [u32]) -> Option<Group<'g>> {
        (ranks[self.mine] == self.rank).then_some(Group { ranks, me: self.mine })
    }

    /// The algorithm between the islands for pieces of `bytes` bytes.
    fn between(&self, bytes: u64) -> super::Algorithm {
        costs::between(self.world, self.collective, bytes, self.flows as u64, self.once).0
    }

    /// A call without buffers.
    fn call(&self, collective: abi::Collective, dtype: DataType, root: u32, count: u64) -> VendorCall {
        let nowhere = Loc::new(Base::Scratch, 0);
        VendorCall {
            collective,
            dtype,
            op: abi::RedOp::SUM,
            root,
            send: nowhere,
            recv: nowhere,
            count,
            scale_bits: 0,
        }
    }

    /// A reducing call from `send`; `recv` is of meaning where a result arrives.
    fn reducing(
        &self,
        collective: abi::Collective,
        reduction: Reduction,
        root: u32,
        count: u64,
        (send, recv): (Loc, Loc),
    ) -> VendorCall {
        let (op, scale_bits) = match self.inner.scale_bits() {
            Some(bits) => (abi::RedOp::PREMUL_SUM, bits),
            None => (abi::RedOp(reduction.op.code()), 0),
        };
        VendorCall {
            op,
            scale_bits,
            send,
            recv,
            ..self.call(collective, reduction.dtype, root, count)
        }
    }

    fn vendor(&self, b: &mut Builder, calls: &[VendorCall]) {
        if !calls.is_empty() {
            b.vendor(self.place, calls);
        }
    }

    /// What the inner reduction is in an island of one rank: the input, scaled if the others' were.
    fn take_alone(&self, b: &mut Builder, src: Loc, dst: Loc, reduction: Reduction, count: u64) {
        if reduction.raw {
            let input = [Operand { at: src, pre: true }];
            b.reduce((reduction.dtype, reduction.op), dst, &input, count, false);
        } else {
            b.copy(dst, src, count * reduction.dtype.size() as u64);
        }
    }

    /// Where the blocks of each island start, packed in the order of the islands, in units of a block.
    fn bundle_starts(&self) -> Vec<u64> {
        let mut next = 0;
        let islands = self.islands().iter();
        islands
            .map(|ranks| {
                next += ranks.len() as u64;
                next - ranks.len() as u64
            })
            .collect()
    }

    /// Whether the ranks, in the order of the islands, are in their own order.
    fn in_order(&self) -> bool {
        self.islands().iter().flatten().copied().eq(0..self.world.size())
    }
}

/// What came out of the islands is scaled already.
fn scaled(reduction: Reduction) -> Reduction {
    Reduction {
        raw: false,
        ..reduction
    }
}

/// Bytes of each of `blocks` blocks of `bytes` bytes that are staged at once, in whole elements.
pub(super) fn staged(bytes: u64, blocks: u64, elem: u64) -> u64 {
    let room = (STAGE / blocks.max(1)).max(LEAST_STAGED).max(bytes / MOST_STAGES);
    (room / elem * elem).min(bytes).max(elem)
}

/// Cuts `length` into pieces of `piece`, the last one shorter.
fn cut(length: u64, piece: u64) -> impl Iterator<Item = (u64, u64)> {
    let piece = piece.max(1);
    (0..length.div_ceil(piece)).map(move |i| (i * piece, piece.min(length - i * piece)))
}

/// Two stretches of scratch memory that neighbouring fragments use in turn, so that one need not wait for the other.
struct Alternating {
    starts: [u64; 2],
    round: usize,
}

impl Alternating {
    fn new(b: &Builder) -> Self {
        Alternating {
            starts: [b.mark(); 2],
            round: 0,
        }
    }

    /// Begins the next fragment.
    fn next(&mut self, b: &mut Builder) {
        if self.round == 1 {
            // Where the first fragment's memory ends.
            self.starts[1] = b.mark();
        } else {
            b.rewind(self.starts[self.round % 2]);
        }
        self.round += 1;
    }
}

/// Sends `bytes` bytes in chunks.
fn send_cut(b: &mut Builder, peer: u32, src: Loc, bytes: u64, chunk: u64) {
    cut(bytes, chunk).for_each(|(at, len)| b.send(peer, src.plus(at), len));
}

/// Receives what [`send_cut`] sends.
fn recv_cut(b: &mut Builder, peer: u32, dst: Loc, bytes: u64, chunk: u64) {
    cut(bytes, chunk).for_each(|(at, len)| b.recv(peer, dst.plus(at), len));
}
