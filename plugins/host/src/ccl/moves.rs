//! The data side of a collective: what one chunk brings into a slot, reduces there, and takes out of all slots.

use super::call::{Block, Call, Route};
use super::layout::{DEPTH, LINE, Layout};
use super::segment::{INLINE, Segment};
use infiniccl_plugin_api::{Failure, Status};

/// Largest reduction in which every rank reduces everything by itself: two steps fewer, more work in each.
const ONE_SHOT: usize = 16 << 10;

/// How a call is cut up; a function of what all ranks know, so that it is equal on all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Contributions travel in the lines of the arrivals.
    pub(crate) inline: bool,
    /// Each rank reduces its share of each chunk before results are taken out.
    pub(crate) shares: bool,
    /// Bytes of a block that one chunk carries.
    pub(crate) unit: usize,
    /// Chunks; for private lengths only the first, in which the ranks tell each other the lengths.
    pub(crate) chunks: u64,
}

impl Cut {
    /// Cuts a call.
    pub(crate) fn new(call: &Call, layout: &Layout) -> Cut {
        let longest = call.longest();
        let whole = Cut {
            inline: false,
            shares: false,
            unit: layout.chunk,
            chunks: 1,
        };
        let cut = match call.route {
            Route::Fold { .. } => Cut {
                shares: longest > ONE_SHOT.min(layout.chunk),
                ..whole
            },
            Route::Collect { .. } => whole,
            Route::Spread { .. } => Cut {
                unit: layout.chunk / layout.ranks / LINE * LINE,
                ..whole
            },
        };
        let parts = if matches!(call.route, Route::Spread { .. }) {
            layout.ranks
        } else {
            1
        };
        if call.is_private() {
            return cut;
        }
        if longest.saturating_mul(parts) <= INLINE {
            return Cut {
                inline: true,
                shares: false,
                unit: longest,
                chunks: 0,
            };
        }
        Cut {
            chunks: chunks(longest, cut.unit),
            ..cut
        }
    }
}

/// Chunks of `unit` bytes that `longest` bytes take.
pub(crate) fn chunks(longest: usize, unit: usize) -> u64 {
    longest.div_ceil(unit) as u64
}

/// One collective on one rank, with its cut.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moves<'a> {
    pub(crate) segment: &'a Segment,
    pub(crate) call: &'a Call,
    pub(crate) cut: Cut,
    /// Which of the two mailboxes holds inline contributions.
    pub(crate) mailbox: usize,
}

/// A chunk: its number within the call, and the buffer it goes through.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chunk {
    pub(crate) index: u64,
    pub(crate) buffer: usize,
}

impl Chunk {
    /// Chunk `number`, counted over the life of the communicator, of a call whose chunks start at `first`.
    pub(crate) fn new(number: u64, first: u64) -> Chunk {
        Chunk {
            index: number - first,
            buffer: (number % DEPTH as u64) as usize,
        }
    }
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
        let base = if self.cut.inline {
            self.segment.board(rank).mailboxes[self.mailbox]
                .payload
                .get()
                .cast()
        } else {
            self.segment.slot(rank, chunk.buffer)
        };
        debug_assert!(
            (part + 1) * self.cut.unit
                <= if self.cut.inline {
                    INLINE
                } else {
                    self.segment.layout().chunk
                }
        );
        // SAFETY: a cut's parts fit into the buffer.
        unsafe { base.add(part * self.cut.unit) }
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
        if len == 0 {
            return;
        }
        // SAFETY: `src` is a block of the caller's send buffer, `dst` a place of this rank's slot for as much.
        unsafe {
            match self.call.combine {
                Some(combine) => combine.contribute(self.call.dtype, dst, src, len / self.call.dtype.size()),
                None => std::ptr::copy_nonoverlapping(src, dst, len),
            }
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

    /// Reduces `len` bytes that lie `skip` bytes into every rank's contribution.
    fn reduce(&self, dst: *mut u8, chunk: Chunk, part: usize, own: *const u8, span: Block) {
        let Some(combine) = self.call.combine else { return };
        let inputs =
            (0..self.segment.ranks()).map(|rank| self.source(rank, chunk, part, own).wrapping_add(span.at));
        // SAFETY: all ranks' contributions are complete and stay until this rank says that it has read them; `dst`
        // is this rank's alone, or the application's, and equals this rank's input or overlaps none.
        unsafe { combine.run(self.call.dtype, dst, inputs, span.len / self.call.dtype.size()) };
    }

    /// Reduces this rank's share of a chunk, in place of its own contribution.
    pub(crate) fn fold(&self, chunk: Chunk) {
        let piece = self.piece(self.call.outgoing(self.me()), chunk);
        let share = self.share(self.me(), piece.len);
        let dst = self.place(self.me(), chunk, 0).wrapping_add(share.at);
        self.reduce(dst, chunk, 0, self.call.send.wrapping_add(piece.at), share);
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
                    self.reduce(recv.wrapping_add(piece.at), chunk, me, own, span);
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
        unsafe { std::ptr::copy(src, dst, len) };
    }

    /// Writes the lengths that this rank sends to and expects from each rank into its slot.
    pub(crate) fn tell_lengths(&self, chunk: Chunk) {
        let ranks = self.segment.ranks();
        let row = self.segment.slot(self.me(), chunk.buffer).cast::<u64>();
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
            let len = unsafe {
                self.segment
                    .slot(rank, chunk.buffer)
                    .cast::<u64>()
                    .add(entry)
                    .read()
            };
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
