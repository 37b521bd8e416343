//! Follows every element through the schedules of all ranks, and counts the roundings that its parts have passed.

use crate::call::Request;
use crate::plan::{Algorithm, World, build};
use crate::schedule::{Action, Base, Loc, Schedule, VendorCall};
use infiniccl_plugin_api::{CapRow, Collective, RedOp as Op, cap_flags};
use infiniccl_reduce::{DataType, ReduceOp};
use std::collections::{HashMap, VecDeque};

/// Roundings that the element at a place has passed; an input has passed none.
type Memory = HashMap<(Base, u64), u32>;

pub(super) struct Trace<'a> {
    world: &'a World,
    request: &'a Request,
    schedules: Vec<Schedule>,
    memories: Vec<Memory>,
    /// Messages under way from one rank to another.
    channels: HashMap<(u32, u32), VecDeque<Vec<u32>>>,
    /// Steps done of each rank, and its vendor steps among them.
    next: Vec<usize>,
}

impl<'a> Trace<'a> {
    /// Runs the schedules of all ranks, each in program order.
    pub(super) fn run(world: &'a World, request: &'a Request, way: Algorithm) -> Self {
        let ranks = 0..world.size();
        let mut trace = Trace {
            world,
            request,
            schedules: ranks
                .clone()
                .map(|r| build::build(world, r, request, None, None, way))
                .collect(),
            memories: ranks.clone().map(|_| Memory::new()).collect(),
            channels: HashMap::new(),
            next: vec![0; ranks.len()],
        };
        let mut moved = true;
        while moved {
            moved = false;
            for rank in ranks.clone() {
                while trace.step(rank) {
                    moved = true;
                }
            }
            for island in 0..world.topology.islands.len() {
                moved |= trace.vendor(island);
            }
        }
        let done = |rank: &u32| trace.next[*rank as usize] == trace.schedules[*rank as usize].actions.len();
        assert!(ranks.clone().all(|r| done(&r)), "{way} ends on all ranks");
        trace
    }

    /// The most roundings that an element of any output has passed.
    pub(super) fn most_roundings(&self) -> u32 {
        let outputs = self
            .memories
            .iter()
            .flatten()
            .filter(|((base, _), _)| *base == Base::Recv);
        outputs.map(|(_, depth)| *depth).max().unwrap_or(0)
    }

    fn elem(&self) -> u64 {
        self.request.dtype.size() as u64
    }

    fn narrow(&self) -> bool {
        !matches!(self.request.dtype, DataType::Float32 | DataType::Float64)
    }

    fn get(&self, rank: u32, at: Loc, bytes: u64) -> Vec<u32> {
        let memory = &self.memories[rank as usize];
        let offsets = (0..bytes).step_by(self.elem() as usize);
        offsets
            .map(|i| memory.get(&(at.base, at.offset + i)).copied().unwrap_or(0))
            .collect()
    }

    fn put(&mut self, rank: u32, at: Loc, depths: &[u32]) {
        let elem = self.elem();
        for (i, depth) in (0u64..).zip(depths) {
            self.memories[rank as usize].insert((at.base, at.offset + i * elem), *depth);
        }
    }

    /// Runs the next step of a rank unless it must wait for another one.
    fn step(&mut self, rank: u32) -> bool {
        let schedule = &self.schedules[rank as usize];
        let Some(action) = schedule.actions.get(self.next[rank as usize]).copied() else {
            return false;
        };
        match action {
            Action::Send { peer, src, bytes } => {
                let content = self.get(rank, src, bytes);
                self.channels.entry((rank, peer)).or_default().push_back(content);
            }
            Action::Recv { peer, dst, .. } => {
                let Some(content) = self.channels.entry((peer, rank)).or_default().pop_front() else {
                    return false;
                };
                self.put(rank, dst, &content);
            }
            Action::Copy { dst, src, bytes } => {
                let content = self.get(rank, src, bytes);
                self.put(rank, dst, &content);
            }
            Action::Reduce {
                dst,
                first,
                len,
                count,
                op,
                ..
            } => {
                assert_eq!(op, ReduceOp::Sum);
                let operands = schedule.operands_of(first, len).to_vec();
                let inputs: Vec<Vec<u32>> = operands
                    .iter()
                    .map(|o| self.get(rank, o.at, count * self.elem()))
                    .collect();
                let result = self.combined(&inputs);
                self.put(rank, dst, &result);
            }
            Action::Premul { dst, src, count, .. } => {
                let scaled: Vec<u32> = self
                    .get(rank, src, count * self.elem())
                    .into_iter()
                    .map(|d| d + 1)
                    .collect();
                self.put(rank, dst, &scaled);
            }
            Action::Vendor { .. } => return false,
            Action::Widen { .. } | Action::NarrowMean { .. } => unreachable!("of integers only"),
        }
        self.next[rank as usize] += 1;
        true
    }

    /// One after the other for wide types, all at once and rounded once for narrow ones.
    fn combined(&self, inputs: &[Vec<u32>]) -> Vec<u32> {
        let one = |i: usize| {
            let mut depths = inputs.iter().map(|input| input[i]);
            let first = depths.next().unwrap_or(0);
            match (self.narrow(), inputs.len()) {
                (_, 1) => first,
                (false, _) => depths.fold(first, |a, b| a.max(b) + 1),
                (true, _) => depths.fold(first, u32::max) + 1,
            }
        };
        (0..inputs[0].len()).map(one).collect()
    }

    /// Runs the next group of calls of an island, if all of its ranks have come to it.
    fn vendor(&mut self, island: usize) -> bool {
        let members = self.world.topology.islands[island].clone();
        let mut groups: Vec<Vec<VendorCall>> = Vec::new();
        for rank in &members {
            let schedule = &self.schedules[*rank as usize];
            match schedule.actions.get(self.next[*rank as usize]) {
                Some(Action::Vendor { first, len }) => groups.push(schedule.calls_of(*first, *len).to_vec()),
                _ => return false,
            }
        }
        for index in 0..groups[0].len() {
            let calls: Vec<VendorCall> = groups.iter().map(|g| g[index]).collect();
            self.call(island, &members, &calls);
        }
        members.iter().for_each(|rank| self.next[*rank as usize] += 1);
        true
    }

    fn call(&mut self, island: usize, members: &[u32], calls: &[VendorCall]) {
        let (call, size) = (calls[0], members.len());
        let bytes = call.count * call.dtype.size() as u64;
        let root = call.root as usize;
        let all = |trace: &Self, count: u64| -> Vec<Vec<u32>> {
            let inputs = members.iter().zip(calls);
            inputs
                .map(|(rank, call)| trace.get(*rank, call.send, count * bytes))
                .collect()
        };
        // A library that does not promise to round once may round at every hop.
        let promised = |row: &CapRow| row.flags & cap_flags::ACCUMULATES_FP32 != 0;
        let once = self.narrow() && self.world.capabilities[island].rows.iter().all(promised);
        let hops = if once { 1 } else { size as u32 - 1 };
        let reduced = |trace: &Self, count: u64| -> Vec<u32> {
            let inputs = all(trace, count);
            let scaled = u32::from(call.op == Op::PREMUL_SUM);
            let most = |i: usize| inputs.iter().map(|input| input[i]).max().unwrap_or(0);
            (0..inputs[0].len()).map(|i| most(i) + hops + scaled).collect()
        };
        let to = |trace: &mut Self, member: usize, content: &[u32]| {
            trace.put(members[member], calls[member].recv, content);
        };
        match call.collective {
            Collective::ALL_REDUCE => {
                let result = reduced(self, 1);
                (0..size).for_each(|m| to(self, m, &result));
            }
            Collective::REDUCE => {
                let result = reduced(self, 1);
                to(self, root, &result);
            }
            Collective::REDUCE_SCATTER => {
                let result = reduced(self, size as u64);
                let block = result.len() / size;
                result
                    .chunks(block)
                    .enumerate()
                    .for_each(|(m, part)| to(self, m, part));
            }
            Collective::BROADCAST => {
                let content = self.get(members[root], calls[root].send, bytes);
                (0..size).for_each(|m| to(self, m, &content));
            }
            Collective::ALL_GATHER => {
                let content = all(self, 1).concat();
                (0..size).for_each(|m| to(self, m, &content));
            }
            Collective::SCATTER => {
                let content = self.get(members[root], calls[root].send, bytes * size as u64);
                let block = content.len() / size;
                content
                    .chunks(block)
                    .enumerate()
                    .for_each(|(m, part)| to(self, m, part));
            }
            other => unreachable!("{other:?} in a reduction"),
        }
    }
}
