//! Builds a [`Schedule`] in program order and finds the dependencies between its steps.
//!
//! The rule for algorithms: the steps, run one after the other in the order they were added, must give the right
//! answer, also when input and output are the same memory. The builder then allows every order that gives the
//! same bytes.

use super::hazard::History;
use super::{Action, Base, Loc, Operand, Schedule, VendorCall};
use infiniccl_plugin_api::Collective;
use infiniccl_reduce::{DataType, Factors, ReduceOp, Wide};

/// Scratch memory is handed out in multiples of this, so that no two blocks share a cache line.
const SCRATCH_ALIGN: u64 = 256;

/// Where input and output start within the one buffer that holds both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct InPlace {
    pub(crate) send_offset: u64,
    pub(crate) recv_offset: u64,
}

/// The schedule under construction.
pub(crate) struct Builder {
    schedule: Schedule,
    waits: Vec<Vec<u32>>,
    in_place: Option<InPlace>,
    user: History,
    output: History,
    scratch: History,
    /// Where the next block of scratch memory starts.
    scratch_next: u64,
    island_size: u32,
}

impl Builder {
    /// A builder for a rank whose island has `island_size` ranks. `in_place`: input and output are one buffer.
    pub(crate) fn new(in_place: Option<InPlace>, island_size: u32) -> Self {
        Builder {
            schedule: Schedule {
                pre_factor: 1.0,
                post_factor: 1.0,
                ..Schedule::default()
            },
            waits: Vec::new(),
            in_place,
            user: History::default(),
            output: History::default(),
            scratch: History::default(),
            scratch_next: 0,
            island_size,
        }
    }

    /// Sets the factors of an AVG of floats.
    pub(crate) fn set_factors(&mut self, factors: Factors) {
        self.schedule.pre_factor = factors.pre;
        self.schedule.post_factor = factors.post;
    }

    /// Reserves `bytes` of scratch memory.
    pub(crate) fn alloc(&mut self, bytes: u64) -> Loc {
        let at = Loc::new(Base::Scratch, self.scratch_next);
        self.scratch_next += bytes.next_multiple_of(SCRATCH_ALIGN);
        self.schedule.scratch_bytes = self.schedule.scratch_bytes.max(self.scratch_next);
        at
    }

    /// How far scratch memory is handed out, for [`Self::rewind`].
    pub(crate) fn mark(&self) -> u64 {
        self.scratch_next
    }

    /// Hands out again what was reserved since `mark`; later steps on it wait for the earlier ones.
    pub(crate) fn rewind(&mut self, mark: u64) {
        self.scratch_next = mark;
    }

    /// Whether two places are the same memory.
    pub(crate) fn same_place(&self, a: Loc, b: Loc) -> bool {
        let place = |l: Loc| match (l.base, self.in_place) {
            (Base::Send, Some(shared)) => (Base::Send, l.offset + shared.send_offset),
            (Base::Recv, Some(shared)) => (Base::Send, l.offset + shared.recv_offset),
            (base, _) => (base, l.offset),
        };
        place(a) == place(b)
    }

    /// Sends `bytes` to `peer`; nothing is sent for zero bytes.
    pub(crate) fn send(&mut self, peer: u32, src: Loc, bytes: u64) {
        if bytes > 0 {
            self.push(Action::Send { peer, src, bytes }, &[(src, bytes)], &[]);
        }
    }

    /// Receives `bytes` from `peer`; nothing is received for zero bytes.
    pub(crate) fn recv(&mut self, peer: u32, dst: Loc, bytes: u64) {
        if bytes > 0 {
            self.push(Action::Recv { peer, dst, bytes }, &[], &[(dst, bytes)]);
        }
    }

    /// [`Self::send`], but not before the last step that was given the same cell is done: a window of so many
    /// messages as there are cells. A cell is one byte of scratch memory that nothing else uses.
    pub(crate) fn send_in_turn(&mut self, peer: u32, src: Loc, bytes: u64, cell: Loc) {
        if bytes > 0 {
            self.push(Action::Send { peer, src, bytes }, &[(src, bytes)], &[(cell, 1)]);
        }
    }

    /// The receiving half of [`Self::send_in_turn`].
    pub(crate) fn recv_in_turn(&mut self, peer: u32, dst: Loc, bytes: u64, cell: Loc) {
        if bytes > 0 {
            self.push(Action::Recv { peer, dst, bytes }, &[], &[(dst, bytes), (cell, 1)]);
        }
    }

    /// A message without content, for barriers: sent when every token received into the `cells` bytes after
    /// `first` has come.
    pub(crate) fn send_token(&mut self, peer: u32, first: Loc, cells: u64) {
        self.push(
            Action::Send {
                peer,
                src: first,
                bytes: 0,
            },
            &[(first, cells)],
            &[],
        );
    }

    /// The receiving half of [`Self::send_token`]; `cell` is one byte of scratch memory, of its own for each
    /// token, since a token that had to wait for a send to finish could wait for ever.
    pub(crate) fn recv_token(&mut self, peer: u32, cell: Loc) {
        self.push(
            Action::Recv {
                peer,
                dst: cell,
                bytes: 0,
            },
            &[],
            &[(cell, 1)],
        );
    }

    /// Copies on the host; nothing is done when both places are the same.
    pub(crate) fn copy(&mut self, dst: Loc, src: Loc, bytes: u64) {
        if bytes > 0 && !self.same_place(dst, src) {
            self.push(Action::Copy { dst, src, bytes }, &[(src, bytes)], &[(dst, bytes)]);
        }
    }

    /// Reduces `count` elements of the operands into `dst`, which may be one of them.
    pub(crate) fn reduce(
        &mut self,
        (dtype, op): (DataType, ReduceOp),
        dst: Loc,
        operands: &[Operand],
        count: u64,
        post: bool,
    ) {
        if count == 0 {
            return;
        }
        let bytes = count * dtype.size() as u64;
        let first = self.schedule.operands.len() as u32;
        self.schedule.operands.extend_from_slice(operands);
        let reads: Vec<(Loc, u64)> = operands.iter().map(|o| (o.at, bytes)).collect();
        let action = Action::Reduce {
            dtype,
            op,
            dst,
            first,
            len: operands.len() as u32,
            count,
            post,
        };
        self.push(action, &reads, &[(dst, bytes)]);
    }

    /// `dst = src · scalar`, the scalar given as bits of the element type.
    pub(crate) fn premul(&mut self, dtype: DataType, dst: Loc, src: Loc, count: u64, scalar_bits: u64) {
        let bytes = count * dtype.size() as u64;
        self.push(
            Action::Premul {
                dtype,
                dst,
                src,
                count,
                scalar_bits,
            },
            &[(src, bytes)],
            &[(dst, bytes)],
        );
    }

    /// Elements to wide partial sums.
    pub(crate) fn widen(&mut self, dtype: DataType, wide: Wide, dst: Loc, src: Loc, count: u64, ranks: u64) {
        let reads = [(src, count * dtype.size() as u64)];
        let writes = [(dst, count * wide.bytes() as u64)];
        self.push(
            Action::Widen {
                dtype,
                wide,
                dst,
                src,
                count,
                ranks,
            },
            &reads,
            &writes,
        );
    }

    /// Wide sums to exact means.
    pub(crate) fn narrow_mean(
        &mut self,
        dtype: DataType,
        wide: Wide,
        dst: Loc,
        src: Loc,
        count: u64,
        ranks: u64,
    ) {
        let reads = [(src, count * wide.bytes() as u64)];
        let writes = [(dst, count * dtype.size() as u64)];
        self.push(
            Action::NarrowMean {
                dtype,
                wide,
                dst,
                src,
                count,
                ranks,
            },
            &reads,
            &writes,
        );
    }

    /// A group of collectives of the vendor's library.
    pub(crate) fn vendor(&mut self, me: u32, calls: &[VendorCall]) {
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        for call in calls {
            let (read, written) = vendor_spans(call, me, u64::from(self.island_size));
            reads.push((call.send, read));
            writes.push((call.recv, written));
        }
        let first = self.schedule.vendor_calls.len() as u32;
        self.schedule.vendor_calls.extend_from_slice(calls);
        self.push(
            Action::Vendor {
                first,
                len: calls.len() as u32,
            },
            &reads,
            &writes,
        );
    }

    /// Sets what the blocks of a vendor call of any size are.
    pub(crate) fn set_vector(&mut self, counts: Vec<u64>, displs: Vec<u64>) {
        self.schedule.vector_counts = counts;
        self.schedule.vector_displs = displs;
    }

    /// The finished schedule.
    pub(crate) fn finish(mut self) -> Schedule {
        let steps = self.schedule.actions.len();
        let mut counts = vec![0u32; steps + 1];
        for waits in &mut self.waits {
            waits.sort_unstable();
            waits.dedup();
            self.schedule.wait_counts.push(waits.len() as u32);
            waits.iter().for_each(|w| counts[*w as usize + 1] += 1);
        }
        for i in 1..counts.len() {
            counts[i] += counts[i - 1];
        }
        self.schedule.dependents = vec![0; counts[steps] as usize];
        let mut next = counts.clone();
        for (step, waits) in self.waits.iter().enumerate() {
            for w in waits {
                self.schedule.dependents[next[*w as usize] as usize] = step as u32;
                next[*w as usize] += 1;
            }
        }
        self.schedule.dependent_starts = counts;
        self.schedule
    }

    fn push(&mut self, action: Action, reads: &[(Loc, u64)], writes: &[(Loc, u64)]) {
        let step = self.schedule.actions.len() as u32;
        let mut waits = Vec::new();
        for (at, bytes) in reads {
            let (history, start) = self.history(*at);
            history.read(step, start, start + bytes, &mut waits);
        }
        for (at, bytes) in writes {
            let (history, start) = self.history(*at);
            history.write(step, start, start + bytes, &mut waits);
        }
        waits.retain(|w| *w != step);
        self.schedule.actions.push(action);
        self.waits.push(waits);
    }

    fn history(&mut self, at: Loc) -> (&mut History, u64) {
        match (at.base, self.in_place) {
            (Base::Send, Some(shared)) => (&mut self.user, at.offset + shared.send_offset),
            (Base::Recv, Some(shared)) => (&mut self.user, at.offset + shared.recv_offset),
            (Base::Send, None) => (&mut self.user, at.offset),
            (Base::Recv, None) => (&mut self.output, at.offset),
            (Base::Scratch, _) => (&mut self.scratch, at.offset),
        }
    }
}

/// Bytes that a vendor's collective reads from `send` and writes to `recv` on island rank `me`.
fn vendor_spans(call: &VendorCall, me: u32, ranks: u64) -> (u64, u64) {
    let n = call.count * call.dtype.size() as u64;
    let root = |bytes: u64| if me == call.root { bytes } else { 0 };
    match call.collective {
        Collective::ALL_REDUCE => (n, n),
        Collective::BROADCAST => (root(n), n),
        Collective::REDUCE => (n, root(n)),
        Collective::ALL_GATHER => (n, n * ranks),
        Collective::REDUCE_SCATTER => (n * ranks, n),
        Collective::GATHER => (n, root(n * ranks)),
        Collective::SCATTER => (root(n * ranks), n),
        Collective::ALL_TO_ALL => (n * ranks, n * ranks),
        _ => (0, 0),
    }
}
