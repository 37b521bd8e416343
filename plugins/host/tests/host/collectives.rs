//! Every collective, against the oracle.

use crate::cluster::{MODES, Mode, Rank, desc, ranks, ranks_with};
use crate::memory::{Guarded, POISON};
use crate::oracle::{self, OPS, TYPES, Value, assert_equal};
use infiniccl_plugin_api::{CollDesc, Collective, DType, RedOp};

/// One call, as all ranks make it.
#[derive(Debug, Clone, Copy)]
struct Case {
    collective: Collective,
    dtype: DType,
    op: RedOp,
    count: usize,
    root: usize,
    in_place: bool,
    mode: Mode,
}

const REDUCING: [Collective; 4] = [
    Collective::ALL_REDUCE,
    Collective::REDUCE,
    Collective::REDUCE_SCATTER,
    Collective::REDUCE_SCATTER_V,
];

const MOVING: [Collective; 8] = [
    Collective::BROADCAST,
    Collective::ALL_GATHER,
    Collective::ALL_GATHER_V,
    Collective::GATHER,
    Collective::SCATTER,
    Collective::ALL_TO_ALL,
    Collective::ALL_TO_ALL_V,
    Collective::BARRIER,
];

impl Case {
    /// Elements of a V collective's block: different by rank, some empty.
    fn uneven(&self, rank: usize) -> usize {
        if rank % 3 == 1 { 0 } else { self.count + rank }
    }

    fn pair(&self, from: usize, to: usize) -> usize {
        if (from + 2 * to) % 4 == 3 {
            0
        } else {
            self.count + from + 3 * to
        }
    }

    /// Where an element of the result comes from: ranks to combine, or one rank, and the index in its input.
    fn expected(&self, rank: usize, size: usize) -> Vec<Expect> {
        use Collective as C;
        let (n, root) = (self.count, self.root);
        let all = |index| Expect::All(index);
        let one = |rank, index| Expect::One(rank, index);
        let start = |rank: usize| (0..rank).map(|rank| self.uneven(rank)).sum::<usize>();
        match self.collective {
            C::ALL_REDUCE => (0..n).map(all).collect(),
            C::REDUCE if rank == root => (0..n).map(all).collect(),
            C::REDUCE_SCATTER => (rank * n..(rank + 1) * n).map(all).collect(),
            C::REDUCE_SCATTER_V => (start(rank)..start(rank) + self.uneven(rank)).map(all).collect(),
            C::BROADCAST => (0..n).map(|i| one(root, i)).collect(),
            C::GATHER if rank == root => (0..size * n).map(|i| one(i / n, i % n)).collect(),
            C::ALL_GATHER => (0..size * n).map(|i| one(i / n, i % n)).collect(),
            C::ALL_GATHER_V => (0..size)
                .flat_map(|from| (0..self.uneven(from)).map(move |i| one(from, i)))
                .collect(),
            C::SCATTER => (rank * n..(rank + 1) * n).map(|i| one(root, i)).collect(),
            C::ALL_TO_ALL => (0..size * n).map(|i| one(i / n, rank * n + i % n)).collect(),
            C::ALL_TO_ALL_V => {
                let before = |from: usize| (0..rank).map(|to| self.pair(from, to)).sum::<usize>();
                (0..size)
                    .flat_map(|from| (0..self.pair(from, rank)).map(move |i| one(from, before(from) + i)))
                    .collect()
            }
            _ => Vec::new(),
        }
    }

    /// Elements of a rank's input.
    fn input(&self, rank: usize, size: usize) -> usize {
        use Collective as C;
        match self.collective {
            C::ALL_REDUCE | C::REDUCE | C::ALL_GATHER | C::GATHER => self.count,
            C::BROADCAST if rank == self.root => self.count,
            C::SCATTER if rank == self.root => self.count * size,
            C::REDUCE_SCATTER | C::ALL_TO_ALL => self.count * size,
            C::REDUCE_SCATTER_V => (0..size).map(|rank| self.uneven(rank)).sum(),
            C::ALL_GATHER_V => self.uneven(rank),
            C::ALL_TO_ALL_V => (0..size).map(|to| self.pair(rank, to)).sum(),
            _ => 0,
        }
    }

    /// Where the input lies in the one buffer of an in-place call, and how long that is, in elements.
    fn place(&self, rank: usize, size: usize, input: usize, output: usize) -> (usize, usize, usize) {
        use Collective as C;
        let before: usize = (0..rank).map(|rank| self.uneven(rank)).sum();
        let (input_at, output_at) = match self.collective {
            C::ALL_GATHER | C::GATHER => (rank * self.count, 0),
            C::ALL_GATHER_V => (before, 0),
            C::REDUCE_SCATTER | C::SCATTER => (0, rank * self.count),
            C::REDUCE_SCATTER_V => (0, before),
            _ => (0, 0),
        };
        let _ = size;
        (input_at, output_at, (input_at + input).max(output_at + output))
    }

    fn run(&self, rank: &Rank) {
        let (me, size) = (rank.rank, rank.size);
        let es = oracle::size(self.dtype);
        let value = |rank, index| oracle::value(self.dtype, self.op, rank, index);
        let mut input = Vec::new();
        for index in 0..self.input(me, size) {
            oracle::encode(self.dtype, value(me, index), &mut input);
        }
        let expected = self.expected(me, size);
        let gets = !expected.is_empty();
        // The root alone may work in place; the others have nothing to do it with.
        let rooted = matches!(
            self.collective,
            Collective::REDUCE | Collective::GATHER | Collective::SCATTER
        );
        let in_place = self.in_place && (!rooted || me == self.root);
        let (input_at, output_at, whole) = self.place(me, size, input.len() / es, expected.len());
        let mut send = Guarded::with(&input);
        let mut recv = Guarded::new(if in_place { whole * es } else { expected.len() * es });
        let mut call = desc(self.collective);
        call.dtype = self.dtype;
        call.op = self.op;
        call.count = self.count as u64;
        call.root = u32::try_from(self.root).expect("small");
        call.check = 0x1234 + self.count as u64;
        if in_place {
            recv.bytes_mut()[input_at * es..input_at * es + input.len()].copy_from_slice(&input);
            call.send = recv.bytes()[input_at * es..].as_ptr();
            call.recv = recv.bytes_mut()[output_at * es..].as_mut_ptr();
        } else {
            call.send = if input.is_empty() {
                std::ptr::null()
            } else {
                send.ptr()
            };
            call.recv = if gets {
                recv.ptr_mut()
            } else {
                std::ptr::null_mut()
            };
        }
        let (counts, displs) = self.lists(me, size);
        if !counts.is_empty() {
            call.counts = counts.as_ptr();
            call.displs = displs.as_ptr();
        }
        let done = rank.run(self.mode, &[call]);
        assert_eq!(done, Ok(()), "{self:?} on rank {me} of {size}");
        if !in_place {
            assert!(send.bytes_mut() == &input[..], "{self:?}: the input was written");
        }
        let result = if in_place {
            &recv.bytes()[output_at * es..]
        } else {
            recv.bytes()
        };
        for (index, expect) in expected.iter().enumerate() {
            let (value, op) = match expect {
                Expect::One(from, at) => (value(*from, *at), RedOp::SUM),
                Expect::All(at) => {
                    let all: Vec<Value> = (0..size).map(|rank| value(rank, *at)).collect();
                    (oracle::combine(self.dtype, self.op, &all), self.op)
                }
            };
            let place = || format!("{self:?}: element {index} on rank {me} of {size}");
            assert_equal(
                self.dtype,
                op,
                &result[index * es..(index + 1) * es],
                value,
                &place,
            );
        }
    }

    fn lists(&self, me: usize, size: usize) -> (Vec<u64>, Vec<u64>) {
        let starts = |counts: &[u64]| {
            (0..counts.len())
                .map(|rank| counts[..rank].iter().sum())
                .collect::<Vec<u64>>()
        };
        let uneven: Vec<u64> = (0..size).map(|rank| self.uneven(rank) as u64).collect();
        match self.collective {
            Collective::ALL_GATHER_V | Collective::REDUCE_SCATTER_V => (uneven.clone(), starts(&uneven)),
            Collective::ALL_TO_ALL_V => {
                let out: Vec<u64> = (0..size).map(|to| self.pair(me, to) as u64).collect();
                let into: Vec<u64> = (0..size).map(|from| self.pair(from, me) as u64).collect();
                (
                    out.iter().chain(&into).copied().collect(),
                    [starts(&out), starts(&into)].concat(),
                )
            }
            _ => (Vec::new(), Vec::new()),
        }
    }
}

enum Expect {
    All(usize),
    One(usize, usize),
}

/// Whether a type has an operator.
fn defined(dtype: DType, op: RedOp) -> bool {
    dtype != DType::BOOL || op != RedOp::AVG
}

fn case(collective: Collective, step: usize, size: usize, count: usize) -> Case {
    let dtype = TYPES[step % TYPES.len()];
    let op = OPS[step / 3 % OPS.len()];
    Case {
        collective,
        dtype,
        op: if defined(dtype, op) { op } else { RedOp::SUM },
        count,
        root: step % size,
        in_place: step.is_multiple_of(2)
            && !matches!(collective, Collective::ALL_TO_ALL | Collective::ALL_TO_ALL_V),
        mode: MODES[step % MODES.len()],
    }
}

#[test]
fn every_collective_with_every_rank_count_and_odd_counts() {
    const COUNTS: [usize; 14] = [0, 1, 2, 3, 7, 8, 9, 63, 64, 65, 1000, 1025, 4099, 65_537];
    for size in 1..=8 {
        ranks(size, |rank| {
            // A different start for each size, so that the sizes sample different combinations.
            let mut step = size * 5;
            for count in COUNTS {
                for collective in REDUCING.into_iter().chain(MOVING) {
                    step += 1;
                    // Each combination of size and collective gets some of the counts.
                    if (count < 10_000 && step % 7 < 4) || step % 5 == 0 {
                        case(collective, step, size, count).run(rank);
                    }
                }
            }
        });
    }
}

#[test]
fn every_type_with_every_operator() {
    ranks(3, |rank| {
        for (step, count) in [5, 130, 17_000].into_iter().enumerate() {
            for dtype in TYPES {
                for op in OPS.into_iter().filter(|op| defined(dtype, *op)) {
                    let collective = REDUCING[(step + dtype.0 as usize + op.0 as usize) % 3];
                    let case = case(collective, step + op.0 as usize, 3, count);
                    if count < 1000 || op.0 == dtype.0 % 5 {
                        Case { dtype, op, ..case }.run(rank);
                    }
                }
            }
        }
    });
}

#[test]
fn large_buffers_pass_through_small_slots_in_every_mode() {
    for (size, count) in [(2, 300_001), (5, 50_021)] {
        ranks_with(size, &[("slot_bytes", "20000")], |rank| {
            for (step, collective) in REDUCING.into_iter().chain(MOVING).enumerate() {
                let base = case(collective, step, size, count / size);
                let dtype = [DType::FLOAT32, DType::UINT16, DType::BFLOAT16][step % 3];
                for mode in [MODES[step % 4], MODES[(step + 1) % 4]] {
                    Case {
                        dtype,
                        mode,
                        op: RedOp::SUM,
                        ..base
                    }
                    .run(rank);
                }
            }
        });
    }
}

#[test]
fn the_mean_is_exact_and_does_not_overflow() {
    let results = ranks(3, |rank| {
        let mut half = Guarded::with(&0x7b53_u16.to_le_bytes()); // 60000
        let mut byte = Guarded::with(&[[120, 121, 122][rank.rank]]);
        for (dtype, buffer) in [(DType::FLOAT16, &mut half), (DType::INT8, &mut byte)] {
            let pointer = buffer.ptr_mut();
            let call = CollDesc {
                dtype,
                op: RedOp::AVG,
                send: pointer,
                recv: pointer,
                count: 1,
                ..desc(Collective::ALL_REDUCE)
            };
            rank.block(call).expect("mean");
        }
        (half.bytes().to_vec(), byte.bytes().to_vec())
    });
    assert!(
        results
            .iter()
            .all(|(half, byte)| half == &0x7b53_u16.to_le_bytes() && byte == &[121])
    );
}

#[test]
fn scalars_of_a_premultiplied_sum_belong_to_their_rank() {
    for count in [3, 9000] {
        for collective in [Collective::ALL_REDUCE, Collective::REDUCE_SCATTER] {
            ranks(3, |rank| {
                let (me, size) = (rank.rank, rank.size);
                let total = if collective == Collective::ALL_REDUCE {
                    count
                } else {
                    count * size
                };
                let input = |rank: usize, index: usize| ((rank + 1) * (index % 50)) as f32;
                let bytes: Vec<u8> = (0..total).flat_map(|i| input(me, i).to_le_bytes()).collect();
                let send = Guarded::with(&bytes);
                let mut recv = Guarded::new(count * 4);
                let call = CollDesc {
                    dtype: DType::FLOAT32,
                    op: RedOp::PREMUL_SUM,
                    scale_bits: u64::from((me as f32 + 0.5).to_bits()),
                    send: send.ptr(),
                    recv: recv.ptr_mut(),
                    count: count as u64,
                    ..desc(collective)
                };
                rank.block(call).expect("sum");
                let skip = if collective == Collective::ALL_REDUCE {
                    0
                } else {
                    me * count
                };
                for (index, got) in recv.bytes().chunks_exact(4).enumerate() {
                    let expected: f32 = (0..size)
                        .map(|rank| input(rank, skip + index) * (rank as f32 + 0.5))
                        .sum();
                    assert_eq!(got, expected.to_le_bytes(), "element {index}");
                }
            });
        }
    }
}

#[test]
fn nan_reaches_every_rank_whoever_holds_it() {
    ranks(4, |rank| {
        for holder in 0..rank.size {
            for op in [RedOp::SUM, RedOp::MAX, RedOp::MIN] {
                let value = if rank.rank == holder {
                    f32::NAN
                } else {
                    rank.rank as f32
                };
                let mut buffer = Guarded::with(&value.to_le_bytes());
                let pointer = buffer.ptr_mut();
                let call = CollDesc {
                    dtype: DType::FLOAT32,
                    op,
                    send: pointer,
                    recv: pointer,
                    count: 1,
                    ..desc(Collective::ALL_REDUCE)
                };
                rank.block(call).expect("reduction");
                assert_eq!(buffer.bytes(), 0x7fc0_0000_u32.to_le_bytes());
            }
        }
    });
}

#[test]
fn a_root_may_leave_out_what_it_has_already() {
    ranks(3, |rank| {
        let send = Guarded::with(&[1, 2, 3, 4, 5]);
        let mut recv = Guarded::new(5);
        let root = rank.rank == 1;
        let call = CollDesc {
            root: 1,
            send: if root { send.ptr() } else { std::ptr::null() },
            recv: if root {
                std::ptr::null_mut()
            } else {
                recv.ptr_mut()
            },
            count: 5,
            ..desc(Collective::BROADCAST)
        };
        rank.block(call).expect("broadcast");
        assert_eq!(recv.bytes(), if root { &[POISON; 5] } else { send.bytes() });
    });
}

#[test]
#[ignore = "takes 5 GiB of memory"]
fn counts_above_2_to_the_31_are_whole() {
    const COUNT: usize = (1 << 31) + 5;
    ranks(2, |rank| {
        // A prime period, so that no chunk begins where another one does.
        const PERIOD: usize = 1_000_003;
        let value = |rank: usize, i: usize| (i / 256 + i * 3 + 5 * rank) as u8;
        let mine: Vec<u8> = (0..PERIOD).map(|i| value(rank.rank, i)).collect();
        let mut buffer: Vec<u8> = Vec::with_capacity(COUNT + PERIOD);
        while buffer.len() < COUNT {
            buffer.extend_from_slice(&mine);
        }
        buffer.truncate(COUNT);
        let pointer = buffer.as_mut_ptr();
        let call = CollDesc {
            dtype: DType::UINT8,
            op: RedOp::SUM,
            send: pointer,
            recv: pointer,
            count: COUNT as u64,
            ..desc(Collective::ALL_REDUCE)
        };
        rank.block(call).expect("sum");
        let sums: Vec<u8> = (0..PERIOD)
            .map(|i| value(0, i).wrapping_add(value(1, i)))
            .collect();
        let wrong = buffer
            .chunks(PERIOD)
            .position(|period| period != &sums[..period.len()]);
        assert_eq!(wrong, None);
    });
}
