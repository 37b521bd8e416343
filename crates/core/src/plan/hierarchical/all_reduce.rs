//! AllReduce: reduced inside to the carriers of the flows, combined between the islands, spread inside.

use super::{AHEAD, Alternating, View, cut, scaled};
use crate::algo::{Buffers, Group, Reduction};
use crate::call::{Collective, RedOp};
use crate::capability::Case;
use crate::plan::{costs, flat};
use crate::schedule::{Builder, Loc, VendorCall};
use infiniccl_plugin_api as abi;

/// A stretch of the buffer that goes through the phases together: `even` elements for each flow, one after the
/// other, then `rest` elements, fewer than there are flows, that flow 0 takes too.
#[derive(Debug, Clone, Copy)]
struct Fragment {
    first: u64,
    even: u64,
    rest: u64,
}

/// What a flow takes of a fragment: first element, and how many.
type Piece = (usize, u64, u64);

impl Fragment {
    fn pieces(self, flows: usize) -> impl Iterator<Item = Piece> {
        let each = (0..flows).map(move |flow| (flow, self.first + flow as u64 * self.even, self.even));
        let rest = (0, self.first + flows as u64 * self.even, self.rest);
        each.chain([rest]).filter(|(_, _, count)| *count > 0)
    }
}

impl View<'_> {
    /// AllReduce of `count` elements.
    pub(in crate::plan) fn all_reduce(
        &self,
        b: &mut Builder,
        buffers: Buffers,
        reduction: Reduction,
        count: u64,
    ) {
        let elem = reduction.dtype.size() as u64;
        let flows = self.flows as u64;
        let piece = costs::piece(count * elem, flows, self.tuning.chunk) / elem;
        let fragments: Vec<Fragment> = cut(count, piece)
            .map(|(first, length)| Fragment {
                first,
                even: length / flows,
                rest: length % flows,
            })
            .collect();
        let Some(longest) = fragments.first() else {
            return;
        };
        let between = self.between(longest.even.max(longest.rest) * elem);
        let carriers: Vec<Vec<u32>> = self.my_flows().map(|flow| self.carriers(flow)).collect();
        let whole = self.has_whole_calls(reduction, longest.even * elem);
        let mut memory = Alternating::new(b);
        for step in 0..fragments.len() + AHEAD {
            if let Some(fragment) = fragments.get(step) {
                self.reduce_inside(b, buffers, reduction, *fragment, whole);
            }
            let Some(fragment) = step.checked_sub(AHEAD).and_then(|i| fragments.get(i)) else {
                continue;
            };
            memory.next(b);
            for (ranks, flow) in carriers.iter().zip(self.my_flows()) {
                let group = Group { ranks, me: self.mine };
                for (_, first, count) in fragment.pieces(self.flows).filter(|piece| piece.0 == flow) {
                    let at = buffers.dst.plus(first * elem);
                    let both = Buffers { src: at, dst: at };
                    flat::allreduce(between, b, (group, self.tuning), both, scaled(reduction), count);
                }
            }
            self.spread_inside(b, buffers.dst, reduction, *fragment, whole);
        }
    }

    /// Whether one ReduceScatter and one AllGather serve for the calls to and from all carriers: every rank carries
    /// one flow, and the island's library has both.
    fn has_whole_calls(&self, reduction: Reduction, bytes: u64) -> bool {
        let op = match self.inner.scale_bits() {
            Some(scalar_bits) => RedOp::PreMulSum { scalar_bits },
            None => RedOp::Fixed(reduction.op),
        };
        let case = |collective, op| Case {
            collective,
            dtype: reduction.dtype,
            op,
            bytes,
            ranks: 0,
        };
        let least = reduction.dtype.size() as u64;
        let native = |case| {
            self.world
                .native_in(self.mine, case, least, bytes.max(least))
                .is_ok()
        };
        self.island().len() == self.flows
            && self.flows > 1
            && native(case(Collective::ReduceScatter, Some(op)))
            && native(case(Collective::AllGather, None))
    }

    /// The first phase: each piece of the fragment, reduced to its carrier's output.
    fn reduce_inside(
        &self,
        b: &mut Builder,
        buffers: Buffers,
        reduction: Reduction,
        fragment: Fragment,
        whole: bool,
    ) {
        let elem = reduction.dtype.size() as u64;
        let at = |element: u64| (buffers.src.plus(element * elem), buffers.dst.plus(element * elem));
        if self.alone() {
            let (src, dst) = at(fragment.first);
            let count = self.flows as u64 * fragment.even + fragment.rest;
            return self.take_alone(b, src, dst, reduction, count);
        }
        let mut calls = Vec::new();
        let mut pieces = fragment;
        if whole && fragment.even > 0 {
            let (src, _) = at(fragment.first);
            let (_, dst) = at(fragment.first + u64::from(self.place) * fragment.even);
            let collective = abi::Collective::REDUCE_SCATTER;
            calls.push(self.reducing(collective, reduction, 0, fragment.even, (src, dst)));
            pieces = fragment.without_even(self.flows);
        }
        calls.extend(pieces.pieces(self.flows).map(|(flow, first, count)| {
            self.reducing(
                abi::Collective::REDUCE,
                reduction,
                self.owner(flow),
                count,
                at(first),
            )
        }));
        self.vendor(b, &calls);
    }

    /// The last phase: each piece from its carrier to all.
    fn spread_inside(
        &self,
        b: &mut Builder,
        dst: Loc,
        reduction: Reduction,
        fragment: Fragment,
        whole: bool,
    ) {
        if self.alone() {
            return;
        }
        let elem = reduction.dtype.size() as u64;
        let mut calls = Vec::new();
        let mut pieces = fragment;
        if whole && fragment.even > 0 {
            let own = fragment.first + u64::from(self.place) * fragment.even;
            calls.push(VendorCall {
                send: dst.plus(own * elem),
                recv: dst.plus(fragment.first * elem),
                ..self.call(abi::Collective::ALL_GATHER, reduction.dtype, 0, fragment.even)
            });
            pieces = fragment.without_even(self.flows);
        }
        calls.extend(pieces.pieces(self.flows).map(|(flow, first, count)| {
            let at = dst.plus(first * elem);
            VendorCall {
                send: at,
                recv: at,
                ..self.call(
                    abi::Collective::BROADCAST,
                    reduction.dtype,
                    self.owner(flow),
                    count,
                )
            }
        }));
        self.vendor(b, &calls);
    }

    /// Island rank that carries a flow here.
    fn owner(&self, flow: usize) -> u32 {
        (flow % self.island().len()) as u32
    }
}

impl Fragment {
    /// What is left of it when the even parts are dealt with.
    fn without_even(self, flows: usize) -> Fragment {
        Fragment {
            first: self.first + flows as u64 * self.even,
            even: 0,
            rest: self.rest,
        }
    }
}
