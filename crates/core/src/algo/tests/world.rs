//! A group of simulated ranks, the data they hold, and the comparison with what they should hold in the end.

use crate::algo::{Buffers, Group, Tuning};
use crate::schedule::{Base, Builder, InPlace, Loc, Schedule};
use crate::simulate::{Memory, Order, decode, encode, simulate};
use infiniccl_plugin_api::RedOp;
use infiniccl_reduce::{DataType, Factors, ReduceOp};

/// What fills outputs at first.
pub(super) const POISON: u8 = 0xA7;

/// A small generator, so that a failure is repeated by its seed.
#[derive(Debug, Clone)]
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// The ranks, and how messages are cut.
#[derive(Debug, Clone)]
pub(super) struct World {
    /// Ranks in ring order.
    pub(super) ranks: Vec<u32>,
    pub(super) tuning: Tuning,
    pub(super) seed: u64,
}

impl World {
    /// `p` ranks; `bytes` is about what a rank holds, so that the chunks are not too many to test.
    pub(super) fn sample(p: usize, bytes: u64, random: &mut Random) -> Self {
        let mut ranks: Vec<u32> = (0..p as u32).collect();
        match random.below(3) {
            0 => {}
            // As if ranks were dealt to nodes in turn.
            1 => ranks.sort_by_key(|r| (r % 3, *r)),
            _ => (1..p).for_each(|i| ranks.swap(i, random.below(i + 1))),
        }
        let least = if bytes > 2048 {
            (bytes / 16).next_multiple_of(64)
        } else {
            64
        };
        let chunk = random.pick(&[64, 64, 128, 1000, 1 << 40]).max(least);
        let slots = random.pick(&[1, 2, 3, 4]);
        World {
            ranks,
            tuning: Tuning { chunk, slots },
            seed: random.next(),
        }
    }

    pub(super) fn size(&self) -> usize {
        self.ranks.len()
    }

    pub(super) fn group(&self, rank: usize) -> Group<'_> {
        let me = self.ranks.iter().position(|r| *r as usize == rank).unwrap();
        Group {
            ranks: &self.ranks,
            me,
        }
    }
}

/// A collective to test. Closures are given a rank.
pub(super) struct Trial<'a> {
    pub(super) input: &'a dyn Fn(usize) -> Vec<u8>,
    /// Bytes of the output buffer.
    pub(super) output: &'a dyn Fn(usize) -> usize,
    pub(super) in_place: &'a dyn Fn(usize) -> Option<InPlace>,
    pub(super) build: &'a dyn Fn(&mut Builder, Group<'_>, Tuning, Buffers),
    /// What is written where in the output; all other bytes stay.
    pub(super) expected: &'a dyn Fn(usize) -> Vec<(u64, Vec<u8>)>,
    pub(super) values: Values,
}

impl Trial<'_> {
    pub(super) fn schedules(&self, world: &World) -> Vec<Schedule> {
        let one = |rank: usize| {
            let mut b = Builder::new((self.in_place)(rank), 1);
            b.set_factors(self.values.factors(world.size()));
            let buffers = Buffers {
                src: Loc::new(Base::Send, 0),
                dst: Loc::new(Base::Recv, 0),
            };
            (self.build)(&mut b, world.group(rank), world.tuning, buffers);
            b.finish()
        };
        (0..world.size()).map(one).collect()
    }

    /// Runs the collective in several orders and compares every byte of every rank's buffers.
    pub(super) fn check(&self, world: &World, what: &dyn Fn() -> String) {
        let schedules = self.schedules(world);
        let orders = match world.seed % 4 {
            0 => [Order::Rendezvous(world.seed), Order::Program],
            1 => [Order::Rendezvous(world.seed), Order::Buffered(world.seed)],
            _ => [Order::Rendezvous(world.seed); 2],
        };
        for order in &orders[..if world.seed % 4 < 2 { 2 } else { 1 }] {
            let context = || format!("{}\n{order:?} {world:?}", what());
            let mut memories: Vec<Memory> = (0..world.size()).map(|r| self.memory(r)).collect();
            if let Err(error) = simulate(&schedules, &mut memories, &[], *order) {
                panic!("{error}\n{}", context());
            }
            for (rank, memory) in memories.iter().enumerate() {
                self.compare(rank, memory, &context);
            }
        }
    }

    fn memory(&self, rank: usize) -> Memory {
        let (input, output) = ((self.input)(rank), (self.output)(rank));
        match (self.in_place)(rank) {
            None => Memory::apart(input, vec![POISON; output]),
            Some(shared) => {
                let (from, to) = (shared.send_offset as usize, shared.recv_offset as usize);
                let mut buffer = vec![POISON; (from + input.len()).max(to + output)];
                buffer[from..from + input.len()].copy_from_slice(&input);
                Memory::shared(buffer, shared)
            }
        }
    }

    fn compare(&self, rank: usize, memory: &Memory, context: &dyn Fn() -> String) {
        let in_place = (self.in_place)(rank);
        let before = self.memory(rank);
        if in_place.is_none() {
            assert!(
                memory.input() == before.input(),
                "rank {rank}: input changed\n{}",
                context()
            );
        }
        let mut expected = before.output().to_vec();
        let mut written = vec![false; expected.len()];
        let base = in_place.map_or(0, |i| i.recv_offset) as usize;
        for (offset, content) in (self.expected)(rank) {
            let range = base + offset as usize..base + offset as usize + content.len();
            expected[range.clone()].copy_from_slice(&content);
            written[range].fill(true);
        }
        let got = memory.output();
        if expected == got {
            return;
        }
        let size = self.values.dtype.size();
        for at in (0..expected.len()).step_by(size) {
            let end = (at + size).min(expected.len());
            let (want, have) = (&expected[at..end], &got[at..end]);
            assert!(
                want == have || (written[at] && self.values.close(want, have)),
                "rank {rank}, output byte {at}: {have:02x?} instead of {want:02x?}\n{}",
                context()
            );
        }
    }
}

/// What the elements are, and what is done with them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Values {
    pub(super) dtype: DataType,
    /// AVG here means the sum with factors, and the mean as what is expected.
    pub(super) op: ReduceOp,
}

impl Values {
    pub(super) const BYTES: Values = Values {
        dtype: DataType::Uint8,
        op: ReduceOp::Sum,
    };

    /// Types and ops for reductions: mostly sums of random 64-bit integers, where whatever is lost or counted twice
    /// shows.
    pub(super) fn sample(random: &mut Random) -> Self {
        let (dtype, op) = random.pick(&[
            (DataType::Int64, ReduceOp::Sum),
            (DataType::Uint64, ReduceOp::Sum),
            (DataType::Int64, ReduceOp::Sum),
            (DataType::Uint8, ReduceOp::Sum),
            (DataType::Int16, ReduceOp::Prod),
            (DataType::Int32, ReduceOp::Max),
            (DataType::Float32, ReduceOp::Sum),
            (DataType::Float32, ReduceOp::Prod),
            (DataType::Float64, ReduceOp::Min),
            (DataType::Bool, ReduceOp::Sum),
            (DataType::Float32, ReduceOp::Avg),
            (DataType::Float16, ReduceOp::Avg),
            (DataType::BFloat16, ReduceOp::Avg),
        ]);
        Values { dtype, op }
    }

    pub(super) fn factors(&self, ranks: usize) -> Factors {
        if self.op == ReduceOp::Avg {
            infiniccl_reduce::avg_factors(ranks as u64)
        } else {
            Factors::NONE
        }
    }

    pub(super) fn red_op(&self) -> RedOp {
        RedOp(self.op.code())
    }

    /// The elements of `rank`: random integers, or floats whose sums and products are exact in any order.
    pub(super) fn input(&self, rank: usize, count: u64) -> Vec<u8> {
        use crate::simulate::Value;
        let mut random = Random((rank as u64) << 32 ^ 0x5eed);
        if self.dtype.is_integer() {
            let mut bytes: Vec<u8> = Vec::new();
            let length = count as usize * self.dtype.size();
            (0..length.div_ceil(8)).for_each(|_| bytes.extend(random.next().to_le_bytes()));
            bytes.truncate(length);
            return bytes;
        }
        let element = |_| {
            let bits = random.next();
            if self.dtype == DataType::Bool {
                return vec![u8::from(bits.is_multiple_of(5)) * 3];
            }
            let value = match self.op {
                ReduceOp::Prod => [1.0, -1.0, 2.0, -2.0][(bits % 4) as usize],
                _ => (bits % 17) as f64 - 8.0,
            };
            encode(self.dtype, Value::Float(value))
        };
        (0..count).flat_map(element).collect()
    }

    /// A mean is rounded once more than the exact one: by the factor on the result.
    fn close(&self, want: &[u8], have: &[u8]) -> bool {
        use crate::simulate::Value::Float;
        let bits = match self.dtype {
            DataType::Float16 => 10,
            DataType::BFloat16 => 7,
            _ => 22,
        };
        match (decode(self.dtype, want), decode(self.dtype, have)) {
            (Float(want), Float(have)) if self.op == ReduceOp::Avg => {
                (want - have).abs() <= want.abs() * 2f64.powi(-bits)
            }
            _ => false,
        }
    }
}

/// The element counts to test with `p` ranks.
pub(super) fn counts(p: usize, random: &mut Random) -> Vec<u64> {
    let p = p as u64;
    let mut counts = vec![0, 1, 2, 3, p - 1, p, p + 1, 7, 64, 1000, 1025];
    counts.sort_unstable();
    counts.dedup();
    if p > 6 {
        counts.retain(|_| random.below(5) < 1);
    }
    counts
}

/// The members to test as root.
pub(super) fn roots(p: usize, random: &mut Random) -> Vec<usize> {
    if p <= 4 {
        (0..p).collect()
    } else {
        vec![random.below(p), random.below(p)]
    }
}

/// Input and output are the same memory from the start.
pub(super) const SAME: Option<InPlace> = Some(InPlace {
    send_offset: 0,
    recv_offset: 0,
});
