//! The data side of a collective: what one chunk brings into a slot, reduces there, and takes out of all slots.

use super::call::{Block, Call, Route};
use super::cut::Cut;
use super::layout::LINE;
use super::segment::Segment;
use super::write;
use infiniccl_plugin_api::{Failure, Status};
use std::mem::MaybeUninit;

/// Bytes that are reduced in the first-level cache before they are written around all caches.
const SCRATCH: usize = 16 << 10;

#[repr(align(64))]
struct Scratch([MaybeUninit<u8>; SCRATCH]);

/// One collective on one rank, with its cut.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moves<'a> {
    pub(crate) segment: &'a Segment,
    pub(crate) call: &'a Call,
    pub(crate) cut: Cut,
    /// Which of the two mailboxes holds inline contributions.
    pub(crate) mailbox: usize,
    /// Whether results are written around the caches, since they would only push each other out of them.
    pub(crate) around: bool,
}

/// A chunk: its number within the call, and where in every slot it lies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chunk {
    pub(crate) index: u64,
    pub(crate) offset: usize,
}

impl Moves<'_> {
    fn me(&self) -> usize {
        self.segment.me()
    }

    /// The piece of a block that a chunk carries.
    fn piece(&self, block: Block, chunk: Chunk) -> Block {
        let skip =
            usize::try_from(chunk.index).map_or(usize::MAX, |index| index.saturating_mul(self.cut.unit));
        let len = block.len.saturating_sub(skip).min(self.cut.unit);
        Block {
            at: if len == 0 { block.at } else { block.at + skip },
            len,
        }
    }

    /// Where the contribution of `rank` lies; `part` is the rank it is for when parts differ.
    fn place(&self, rank: usize, chunk: Chunk, part: usize) -> *mut u8 {
        debug_assert!((part + 1) * self.cut.unit <= self.cut.stride || part == 0);
        // SAFETY: a chunk's stride holds its parts, and lies within the slot; inline ones within the payload.
        unsafe {
            let base = if self.cut.inline {
                self.segment.board(rank).mailboxes[self.mailbox]
                    .payload
                    .get()
                    .cast()
            } else {
                self.segment.slot(rank).add(chunk.offset)
            };
            base.add(part * self.cut.unit)
        }
    }

    /// A rank's share of a chunk of `len` bytes; shares begin at lines, so that ranks do not write to one line.
    fn share(&self, rank: usize, len: usize) -> Block {
        let step = len.div_ceil(self.segment.ranks()).next_multiple_of(LINE);
        let at = (rank * step).min(len);
        Block {
            at,
            len: step.min(len - at),
        }
    }

    fn contribute(&self, dst: *mut u8, src: *const u8, len: usize) {
        match self.call.combine {
            _ if len == 0 => {}
            // SAFETY: `src` is a block of the caller's send buffer, `dst` a place of this rank's slot for as much.
            Some(combine) if combine.multiplies() => unsafe {
                combine.contribute(self.call.dtype, dst, src, len / self.call.dtype.size());
            },
            // SAFETY: as above.
            _ => unsafe { self.segment.writer().copy(dst, src, len) },
        }
    }

    /// Brings this rank's contribution into its slot, or its mailbox.
    pub(crate) fn fill(&self, chunk: Chunk) {
        let (me, ranks) = (self.me(), self.segment.ranks());
        let send = self.call.send;
        match self.call.route {
            Route::Fold { .. } => {
                let piece = self.piece(self.call.outgoing(me), chunk);
                let place = self.place(me, chunk, 0);
                let multiplies = self.call.combine.is_some_and(|combine| combine.multiplies());
                if !self.cut.shares || multiplies {
                    self.contribute(place, send.wrapping_add(piece.at), piece.len);
                    return;
                }
                // Nobody else reads this rank's share.
                let share = self.share(me, piece.len);
                self.contribute(place, send.wrapping_add(piece.at), share.at);
                let end = share.at + share.len;
                self.contribute(
                    place.wrapping_add(end),
                    send.wrapping_add(piece.at + end),
                    piece.len - end,
                );
            }
            Route::Collect { .. } => {
                let piece = self.piece(self.call.outgoing(me), chunk);
                self.contribute(self.place(me, chunk, 0), send.wrapping_add(piece.at), piece.len);
            }
            Route::Spread { .. } => {
                let multiplies = self.call.combine.is_some_and(|combine| combine.multiplies());
                for rank in (0..ranks).filter(|rank| *rank != me || multiplies) {
                    let piece = self.piece(self.call.outgoing(rank), chunk);
                    self.contribute(
                        self.place(me, chunk, rank),
                        send.wrapping_add(piece.at),
                        piece.len,
                    );
                }
            }
        }
    }

    /// What `rank` contributed, for reading: from its slot, or this rank's from where it is anyway.
    fn source(&self, rank: usize, chunk: Chunk, part: usize, own: *const u8) -> *const u8 {
        let multiplies = self.call.combine.is_some_and(|combine| combine.multiplies());
        if rank == self.me() && !multiplies {
            own
        } else {
            self.place(rank, chunk, part)
        }
    }

    /// Reduces a span of every rank's contribution; `around`: with stores that go around the caches.
    fn reduce(&self, dst: *mut u8, chunk: Chunk, part: usize, own: *const u8, span: Block, around: bool) {
        let Some(combine) = self.call.combine else { return };
        let size = self.call.dtype.size();
        let run = |dst: *mut u8, skip: usize, len: usize| {
            let inputs = (0..self.segment.ranks())
                .map(|rank| self.source(rank, chunk, part, own).wrapping_add(span.at + skip));
            // SAFETY: all ranks' contributions are complete and stay until this rank says that it has read them;
            // `dst` is this rank's alone, or the application's, and equals this rank's input or overlaps none.
            unsafe { combine.run(self.call.dtype, dst, inputs, len / size) };
        };
        if !around {
            return run(dst, 0, span.len);
        }
        let mut scratch = Scratch([MaybeUninit::uninit(); SCRATCH]);
        let scratch = scratch.0.as_mut_ptr().cast::<u8>();
        for skip in (0..span.len).step_by(SCRATCH) {
            let len = SCRATCH.min(span.len - skip);
            run(scratch, skip, len);
            // SAFETY: as above, and `run` has written `len` bytes.
            unsafe { write::copy_around(dst.add(skip), scratch, len) };
        }
    }

    /// Reduces this rank's share of a chunk, in place of its own contribution.
    pub(crate) fn fold(&self, chunk: Chunk) {
        let piece = self.piece(self.call.outgoing(self.me()), chunk);
        let share = self.share(self.me(), piece.len);
        let dst = self.place(self.me(), chunk, 0).wrapping_add(share.at);
        let around = share.len >= SCRATCH / 4 && self.segment.writer().is_around();
        self.reduce(
            dst,
            chunk,
            0,
            self.call.send.wrapping_add(piece.at),
            share,
            around,
        );
    }

    /// Takes this rank's result of a chunk out of all slots.
    pub(crate) fn drain(&self, chunk: Chunk) {
        let (me, ranks) = (self.me(), self.segment.ranks());
        let (send, recv) = (self.call.send, self.call.recv);
        match self.call.route {
            Route::Fold { .. } => {
                let piece = self.piece(self.call.incoming(me), chunk);
                let dst = recv.wrapping_add(piece.at);
                if !self.cut.shares {
                    self.reduce(
                        dst,
                        chunk,
                        0,
                        send.wrapping_add(piece.at),
                        Block {
                            at: 0,
                            len: piece.len,
                        },
                        self.around,
                    );
                    return;
                }
                for rank in 0..ranks {
                    let share = self.share(rank, piece.len);
                    let src = self.place(rank, chunk, 0).wrapping_add(share.at);
                    self.take(dst.wrapping_add(share.at), src, share.len);
                }
            }
            Route::Collect { from, .. } => {
                let own = send.wrapping_add(self.piece(self.call.outgoing(me), chunk).at);
                for rank in (0..ranks).filter(|rank| from.is_none_or(|root| root == *rank)) {
                    let piece = self.piece(self.call.incoming(rank), chunk);
                    self.take(
                        recv.wrapping_add(piece.at),
                        self.source(rank, chunk, 0, own),
                        piece.len,
                    );
                }
            }
            Route::Spread { from, fold } => {
                let own = send.wrapping_add(self.piece(self.call.outgoing(me), chunk).at);
                if fold {
                    let piece = self.piece(self.call.incoming(me), chunk);
                    let span = Block {
                        at: 0,
                        len: piece.len,
                    };
                    self.reduce(recv.wrapping_add(piece.at), chunk, me, own, span, self.around);
                    return;
                }
                for rank in (0..ranks).filter(|rank| from.is_none_or(|root| root == *rank)) {
                    let piece = self.piece(self.call.incoming(rank), chunk);
                    self.take(
                        recv.wrapping_add(piece.at),
                        self.source(rank, chunk, me, own),
                        piece.len,
                    );
                }
            }
        }
    }

    fn take(&self, dst: *mut u8, src: *const u8, len: usize) {
        // A root may leave out the buffer for what it has already.
        if len == 0 || self.call.recv.is_null() || std::ptr::eq(dst, src) {
            return;
        }
        // SAFETY: `src` is complete, `dst` a block of the caller's receive buffer; apart by the rules of the calls,
        // and `copy` does not depend on it.
        unsafe {
            if self.around {
                write::copy_around(dst, src, len)
            } else {
                std::ptr::copy(src, dst, len)
            }
        };
    }

    /// Writes the lengths that this rank sends to and expects from each rank into its slot.
    pub(crate) fn tell_lengths(&self, chunk: Chunk) {
        let ranks = self.segment.ranks();
        let row = self.place(self.me(), chunk, 0).cast::<u64>();
        for rank in 0..ranks {
            // SAFETY: a chunk holds a line for each rank, and no one reads it before it is published.
            unsafe {
                row.add(rank).write(self.call.outgoing(rank).len as u64);
                row.add(ranks + rank).write(self.call.incoming(rank).len as u64);
            }
        }
    }

    /// Compares all ranks' lengths; the longest. MISMATCH names two ranks that disagree, equally on every rank.
    pub(crate) fn hear_lengths(&self, chunk: Chunk) -> Result<usize, (Failure, usize)> {
        let ranks = self.segment.ranks();
        let told = |rank: usize, entry: usize| {
            // SAFETY: the row of `rank` was published and is not written again before this rank has read it.
            let len = unsafe { self.place(rank, chunk, 0).cast::<u64>().add(entry).read() };
            usize::try_from(len).unwrap_or(usize::MAX)
        };
        let mut longest = 0;
        for from in 0..ranks {
            for to in 0..ranks {
                let (sent, expected) = (told(from, to), told(to, ranks + from));
                if sent != expected {
                    let text = format!(
                        "ALL_TO_ALL_V: rank {from} sends {sent} bytes to rank {to}, which expects {expected}"
                    );
                    return Err((Failure::new(Status::MISMATCH, text), to));
                }
                longest = longest.max(sent);
            }
        }
        Ok(longest)
    }
}
