//! One call of a collective on all ranks: what each passes, and what each must get.

use super::reduction::{Want, combine};
use super::values::{Contribution, any_bits};
use super::{Collective, Dtype, Op, Values};

/// A collective with its arguments, the same on all ranks, and the elements that they start from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Case {
    /// The collective.
    pub collective: Collective,
    /// The element type.
    pub dtype: Dtype,
    /// The operator; of no meaning where nothing is combined.
    pub op: Op,
    /// Elements, counted as NCCL counts them; for the calls with blocks of any size, the scale of the blocks.
    pub count: usize,
    /// The root, where there is one.
    pub root: usize,
    /// Number of ranks.
    pub ranks: usize,
    /// The sort of elements, where they are combined.
    pub values: Values,
    /// Other elements for another salt.
    pub salt: u64,
}

/// How one buffer serves as input and output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InPlace {
    /// Elements of the buffer.
    pub elements: usize,
    /// Where the input starts.
    pub send_at: usize,
    /// Where the output starts.
    pub recv_at: usize,
}

impl Case {
    /// The sizes of the ranks' blocks, for AllGatherV and ReduceScatterV: uneven, some empty.
    pub fn block_counts(&self) -> Vec<usize> {
        (0..self.ranks)
            .map(|r| self.count * ((r * 5 + 1) % 4) / 2)
            .collect()
    }

    /// Elements that `from` sends to `to`, for AllToAllV: uneven, some empty.
    pub fn pair_count(&self, from: usize, to: usize) -> usize {
        self.count * ((from * 3 + to * 5 + 1) % 4) / 2
    }

    /// The pair counts of what `rank` sends.
    pub fn pair_counts_sent(&self, rank: usize) -> Vec<usize> {
        (0..self.ranks).map(|to| self.pair_count(rank, to)).collect()
    }

    /// The pair counts of what `rank` receives.
    pub fn pair_counts_received(&self, rank: usize) -> Vec<usize> {
        (0..self.ranks).map(|from| self.pair_count(from, rank)).collect()
    }

    /// Elements of the input of `rank`; 0 where it needs none.
    pub fn send_elements(&self, rank: usize) -> usize {
        use Collective::*;
        match self.collective {
            AllReduce | Reduce | AllGather | Gather | SendRecv => self.count,
            Broadcast => {
                if rank == self.root {
                    self.count
                } else {
                    0
                }
            }
            ReduceScatter | AllToAll => self.count * self.ranks,
            Scatter => {
                if rank == self.root {
                    self.count * self.ranks
                } else {
                    0
                }
            }
            AllToAllV => self.pair_counts_sent(rank).iter().sum(),
            AllGatherV => self.block_counts()[rank],
            ReduceScatterV => self.block_counts().iter().sum(),
        }
    }

    /// Elements of the output of `rank`; 0 where it gets none.
    pub fn recv_elements(&self, rank: usize) -> usize {
        use Collective::*;
        match self.collective {
            AllReduce | Broadcast | ReduceScatter | Scatter | SendRecv => self.count,
            Reduce => {
                if rank == self.root {
                    self.count
                } else {
                    0
                }
            }
            AllGather | AllToAll => self.count * self.ranks,
            Gather => {
                if rank == self.root {
                    self.count * self.ranks
                } else {
                    0
                }
            }
            AllToAllV => self.pair_counts_received(rank).iter().sum(),
            AllGatherV => self.block_counts().iter().sum(),
            ReduceScatterV => self.block_counts()[rank],
        }
    }

    /// How `rank` calls it in place, by NCCL's rules; `None` where there is no such call.
    pub fn in_place(&self, rank: usize) -> Option<InPlace> {
        use Collective::*;
        let before = |counts: Vec<usize>| counts[..rank].iter().sum::<usize>();
        let (send, recv) = (self.send_elements(rank), self.recv_elements(rank));
        let (send_at, recv_at) = match self.collective {
            AllReduce | Broadcast | Reduce => (0, 0),
            AllGather => (rank * self.count, 0),
            ReduceScatter => (0, rank * self.count),
            Gather => (if rank == self.root { rank * self.count } else { 0 }, 0),
            Scatter => (0, if rank == self.root { rank * self.count } else { 0 }),
            AllGatherV => (before(self.block_counts()), 0),
            ReduceScatterV => (0, before(self.block_counts())),
            AllToAll | AllToAllV | SendRecv => return None,
        };
        Some(InPlace {
            elements: (send_at + send).max(recv_at + recv),
            send_at,
            recv_at,
        })
    }

    fn contribution(&self) -> Contribution {
        Contribution {
            dtype: self.dtype,
            op: self.op,
            values: self.values,
            ranks: self.ranks,
            salt: self.salt,
        }
    }

    /// The bits that `rank` starts with at `index` of its input.
    pub fn input_bits(&self, rank: usize, index: usize) -> u64 {
        if self.collective.reduces() {
            self.contribution().bits(rank, index)
        } else {
            any_bits(self.dtype, self.salt, rank, index)
        }
    }

    /// The input of `rank`, as bytes.
    pub fn send(&self, rank: usize) -> Vec<u8> {
        let size = self.dtype.size();
        let elements = self.send_elements(rank);
        let mut bytes = Vec::with_capacity(elements * size);
        for index in 0..elements.min(super::PERIOD) {
            bytes.extend_from_slice(&self.input_bits(rank, index).to_le_bytes()[..size]);
        }
        // What follows repeats, and copying is faster than computing.
        while bytes.len() < elements * size {
            let rest = elements * size - bytes.len();
            bytes.extend_from_within(..rest.min(super::PERIOD * size));
        }
        bytes
    }

    /// Where the output of `rank` comes from, piece by piece.
    pub(super) fn segments(&self, rank: usize) -> Vec<Segment> {
        use Collective::*;
        let n = self.count;
        let all = |at, len| vec![Segment { from: None, at, len }];
        let one = |from, at, len| {
            vec![Segment {
                from: Some(from),
                at,
                len,
            }]
        };
        let each = |piece: &dyn Fn(usize) -> (usize, usize)| -> Vec<Segment> {
            let segment = |from| {
                let (at, len) = piece(from);
                Segment {
                    from: Some(from),
                    at,
                    len,
                }
            };
            (0..self.ranks).map(segment).collect()
        };
        if self.recv_elements(rank) == 0 {
            return Vec::new();
        }
        match self.collective {
            AllReduce | Reduce => all(0, n),
            ReduceScatter => all(rank * n, n),
            ReduceScatterV => {
                let counts = self.block_counts();
                all(counts[..rank].iter().sum(), counts[rank])
            }
            Broadcast => one(self.root, 0, n),
            Scatter => one(self.root, rank * n, n),
            SendRecv => one((rank + self.ranks - 1) % self.ranks, 0, n),
            AllGather | Gather => each(&|_| (0, n)),
            AllToAll => each(&|_| (rank * n, n)),
            AllGatherV => {
                let counts = self.block_counts();
                each(&|from| (0, counts[from]))
            }
            AllToAllV => each(&|from| {
                (
                    (0..rank).map(|to| self.pair_count(from, to)).sum(),
                    self.pair_count(from, rank),
                )
            }),
        }
    }

    /// The combination of all ranks' elements at `index`.
    pub(super) fn want_combined(&self, index: usize) -> Want {
        let contribution = self.contribution();
        let inputs: Vec<u64> = (0..self.ranks).map(|r| contribution.bits(r, index)).collect();
        match inputs[..] {
            // One rank combines nothing: its element stays as it is.
            [alone] if self.dtype != Dtype::Bool => Want::Bits(alone),
            _ => combine(self.dtype, self.op, self.values, &inputs),
        }
    }
}

/// A piece of an output: `len` elements that come from index `at` on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Segment {
    /// The rank whose input it is; `None` where the inputs of all ranks are combined.
    pub(super) from: Option<usize>,
    pub(super) at: usize,
    pub(super) len: usize,
}
