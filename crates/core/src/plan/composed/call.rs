//! A call of all ranks: its buffers, what they hold in the end, and the comparison.

use crate::call::{Collective, RedOp, Request};
use crate::plan::choose::Algorithm;
use crate::plan::{Vector, World, build};
use crate::schedule::{InPlace, Schedule};
use crate::simulate::{Memory, Order, Value, combine, decode, encode, simulate};
use infiniccl_reduce::DataType;

/// What fills outputs at first.
const POISON: u8 = 0xC3;

pub(super) fn is_v(collective: Collective) -> bool {
    matches!(
        collective,
        Collective::AllGatherV | Collective::ReduceScatterV | Collective::AllToAllV
    )
}

/// A generator whose seed repeats a failure.
pub(super) fn random(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// A call of all ranks.
pub(super) struct Call {
    pub(super) collective: Collective,
    pub(super) dtype: DataType,
    /// Of each rank: PREMUL_SUM has scalars of its own.
    pub(super) ops: Vec<RedOp>,
    pub(super) count: u64,
    pub(super) root: usize,
    /// Elements from each rank to each: AllToAllV; the first row is what ranks contribute or get otherwise.
    pub(super) lengths: Vec<Vec<u64>>,
    pub(super) in_place: bool,
}

impl Call {
    fn ranks(&self) -> usize {
        self.ops.len()
    }

    pub(super) fn request(&self, rank: usize) -> Request {
        let (collective, dtype, op) = (self.collective, self.dtype, self.ops[rank]);
        let count = if is_v(collective) { 0 } else { self.count };
        Request {
            collective,
            dtype,
            op,
            count,
            root: self.root as u32,
        }
    }

    fn vector(&self, rank: usize) -> Option<Vector> {
        let starts = |counts: &[u64]| {
            (0..counts.len())
                .map(|i| counts[..i].iter().sum())
                .collect::<Vec<u64>>()
        };
        let column = |rank: usize| self.lengths.iter().map(|row| row[rank]).collect::<Vec<u64>>();
        let shared = self.lengths[0].clone();
        let (send_counts, recv_counts) = match self.collective {
            Collective::AllToAllV => (self.lengths[rank].clone(), column(rank)),
            Collective::AllGatherV => (vec![], shared),
            Collective::ReduceScatterV => (shared, vec![]),
            _ => return None,
        };
        let (send_displs, recv_displs) = (starts(&send_counts), starts(&recv_counts));
        Some(Vector {
            send_counts,
            send_displs,
            recv_counts,
            recv_displs,
        })
    }

    /// Elements of a rank's input and output, and where they start in the one buffer of a call in place.
    fn shape(&self, rank: usize) -> (u64, u64, Option<InPlace>) {
        use Collective::*;
        let (p, n, root) = (self.ranks() as u64, self.count, rank == self.root);
        let before = |rank: usize| self.lengths[0][..rank].iter().sum::<u64>();
        let (mine, all) = (self.lengths[0][rank], before(self.ranks()));
        let at_root = |count: u64| if root { count } else { 0 };
        let block = rank as u64 * n;
        let (input, output, places) = match self.collective {
            AllReduce => (n, n, Some((0, 0))),
            Broadcast => (at_root(n), n, Some((0, 0))),
            Reduce => (n, at_root(n), root.then_some((0, 0))),
            AllGather => (n, n * p, Some((block, 0))),
            ReduceScatter => (n * p, n, Some((0, block))),
            Gather => (n, at_root(n * p), root.then_some((block, 0))),
            Scatter => (at_root(n * p), n, root.then_some((0, block))),
            AllToAll => (n * p, n * p, Some((0, 0))),
            AllToAllV => {
                let received = self.lengths.iter().map(|row| row[rank]).sum();
                (self.lengths[rank].iter().sum(), received, None)
            }
            AllGatherV => (mine, all, Some((before(rank), 0))),
            ReduceScatterV => (all, mine, Some((0, before(rank)))),
            Send | Recv | Barrier => (0, 0, None),
        };
        let bytes = self.dtype.size() as u64;
        let in_place = places.filter(|_| self.in_place);
        let in_place = in_place.map(|(s, r)| InPlace {
            send_offset: s * bytes,
            recv_offset: r * bytes,
        });
        (input, output, in_place)
    }

    fn input(&self, rank: usize) -> Vec<u8> {
        let mut next = random(rank as u64 * 977 + 13);
        let (count, ..) = self.shape(rank);
        let element = |_| {
            let bits = next();
            match self.dtype {
                DataType::Bool => vec![u8::from(bits.is_multiple_of(3))],
                dtype if dtype.is_float() => encode(dtype, Value::Float((bits % 17) as f64 - 8.0)),
                dtype => bits.to_le_bytes()[..dtype.size()].to_vec(),
            }
        };
        (0..count).flat_map(element).collect()
    }

    /// What a rank's output holds in the end.
    fn expected(&self, rank: usize) -> Vec<u8> {
        use Collective::*;
        let size = self.dtype.size();
        let inputs: Vec<Vec<u8>> = (0..self.ranks()).map(|r| self.input(r)).collect();
        let part = |from: &[u8], first: u64, count: u64| {
            from[first as usize * size..(first + count) as usize * size].to_vec()
        };
        let combined = || {
            let scalar = |op: &RedOp| match op {
                RedOp::PreMulSum { scalar_bits } => *scalar_bits,
                RedOp::Fixed(_) => 0,
            };
            let scalars: Vec<u64> = self.ops.iter().map(scalar).collect();
            let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
            combine(self.dtype, self.ops[0].abi(), &inputs, &scalars).unwrap()
        };
        let (n, at) = (self.count, rank as u64 * self.count);
        let before = |rank: usize| self.lengths[0][..rank].iter().sum::<u64>();
        match self.collective {
            AllReduce => combined(),
            Reduce if rank == self.root => combined(),
            ReduceScatter => part(&combined(), at, n),
            ReduceScatterV => part(&combined(), before(rank), self.lengths[0][rank]),
            Broadcast => inputs[self.root].clone(),
            AllGather | AllGatherV => inputs.concat(),
            Gather if rank == self.root => inputs.concat(),
            Scatter => part(&inputs[self.root], at, n),
            AllToAll => inputs.iter().flat_map(|from| part(from, at, n)).collect(),
            AllToAllV => {
                let from = |r: usize| {
                    let first = self.lengths[r][..rank].iter().sum();
                    part(&inputs[r], first, self.lengths[r][rank])
                };
                (0..self.ranks()).flat_map(from).collect()
            }
            Reduce | Gather | Send | Recv | Barrier => vec![],
        }
    }

    fn memory(&self, rank: usize) -> Memory {
        let (_, output, in_place) = self.shape(rank);
        let (input, output) = (self.input(rank), output as usize * self.dtype.size());
        match in_place {
            None => Memory::apart(input, vec![POISON; output]),
            Some(shared) => {
                let (from, to) = (shared.send_offset as usize, shared.recv_offset as usize);
                let mut buffer = vec![POISON; (from + input.len()).max(to + output)];
                buffer[from..from + input.len()].copy_from_slice(&input);
                Memory::shared(buffer, shared)
            }
        }
    }

    /// A mean of floats is rounded once more than the exact one.
    fn close(&self, want: &[u8], have: &[u8]) -> bool {
        let bits = match self.dtype {
            DataType::Float16 => 10,
            DataType::BFloat16 => 7,
            _ => 22,
        };
        match (decode(self.dtype, want), decode(self.dtype, have)) {
            (Value::Float(a), Value::Float(b)) => (a - b).abs() <= a.abs() * 2f64.powi(-bits),
            _ => false,
        }
    }

    /// Runs the call by `algorithm` on all ranks of `world`.
    pub(super) fn check(&self, world: &World, algorithm: Algorithm, seed: u64) {
        let context = || {
            format!(
                "{algorithm:?} for {} {} {:?} count {} root {} {:?} in place {} on islands {:?} seed {seed}",
                self.collective,
                self.dtype,
                self.ops[0],
                self.count,
                self.root,
                self.lengths,
                self.in_place,
                world.topology.islands
            )
        };
        let schedule = |rank: usize| {
            let (request, vector) = (self.request(rank), self.vector(rank));
            build::build(
                world,
                rank as u32,
                &request,
                vector.as_ref(),
                self.shape(rank).2,
                algorithm,
            )
        };
        let schedules: Vec<Schedule> = (0..self.ranks()).map(schedule).collect();
        let order = match seed % 4 {
            0 => Order::Program,
            1 => Order::Buffered(seed),
            _ => Order::Rendezvous(seed),
        };
        let mut memories: Vec<Memory> = (0..self.ranks()).map(|r| self.memory(r)).collect();
        if let Err(error) = simulate(&schedules, &mut memories, &world.topology.islands, order) {
            panic!("{error}\n{order:?} {}", context());
        }
        for (rank, memory) in memories.iter().enumerate() {
            let before = self.memory(rank);
            let mut expected = before.output().to_vec();
            let start = self.shape(rank).2.map_or(0, |i| i.recv_offset) as usize;
            let content = self.expected(rank);
            expected[start..start + content.len()].copy_from_slice(&content);
            let size = self.dtype.size();
            for (i, (want, have)) in expected
                .chunks(size)
                .zip(memory.output().chunks(size))
                .enumerate()
            {
                assert!(
                    want == have || self.close(want, have),
                    "rank {rank} element {i}: {have:02x?} instead of {want:02x?}\n{order:?} {}",
                    context()
                );
            }
        }
    }
}
