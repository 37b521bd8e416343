//! A collective as a resumable state machine: arrive, compare with all others, then move chunks as they get ready.
//!
//! Every call begins with an arrival that all ranks wait for, so a rank that arrives has finished all calls before:
//! that is what frees the mailboxes and chunk buffers of the call before the last. Within a call each rank publishes
//! how many chunks it has filled, folded (if shares are reduced) and drained; whoever reads waits for the first or
//! the second, whoever fills a buffer again for the third.

use super::bell::bit;
use super::call::Call;
use super::cut::{self, Cut, Rotation};
use super::moves::{Chunk, Moves};
use super::segment::{Progress, Segment};
use super::verdict;
use super::wait::Poll;
use infiniccl_plugin_api::{Failure, Status};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Where a communicator is in the order of its collectives; equal on all ranks between calls.
#[derive(Debug, Default)]
pub(crate) struct Order {
    /// Number of the last call that has begun.
    call: u32,
    /// First chunk of the next call.
    next: u64,
    rotation: Rotation,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    New,
    Arriving,
    Moving,
}

/// A collective under way.
#[derive(Debug)]
pub(crate) struct Run {
    call: Call,
    cut: Cut,
    stage: Stage,
    number: u32,
    first: u64,
    end: u64,
    /// Buffer of the first chunk.
    buffer: usize,
    /// Next chunk to fill, to fold, to drain.
    filled: u64,
    folded: u64,
    drained: u64,
    /// Ranks below this one have arrived and agree.
    met: usize,
    /// Whether all ranks met so far had filled their first chunk when they arrived.
    all_early: bool,
    differs_since: Option<Instant>,
    /// What all ranks have filled, folded, drained at least.
    floors: [u64; 3],
    /// Whether the first chunk carries lengths instead of data.
    telling: bool,
    around: bool,
}

#[derive(Clone, Copy)]
enum Counter {
    Filled = 0,
    Folded = 1,
    Drained = 2,
}

impl Counter {
    fn of(self, progress: &Progress) -> &AtomicU64 {
        match self {
            Counter::Filled => &progress.filled,
            Counter::Folded => &progress.folded,
            Counter::Drained => &progress.drained,
        }
    }
}

impl Run {
    /// A call that has not begun.
    pub(crate) fn new(call: Call, segment: &Segment) -> Run {
        let cut = Cut::new(&call, segment.layout());
        Run {
            telling: call.is_private(),
            around: call.footprint(segment.me(), segment.ranks()) > segment.cache(),
            call,
            cut,
            stage: Stage::New,
            number: 0,
            first: 0,
            end: 0,
            buffer: 0,
            filled: 0,
            folded: 0,
            drained: 0,
            met: 0,
            all_early: true,
            differs_since: None,
            floors: [0; 3],
        }
    }

    /// Goes on as far as possible without waiting.
    pub(crate) fn poll(&mut self, segment: &Segment, order: &mut Order) -> Result<Poll, Failure> {
        if segment.ranks() == 1 {
            segment.stopped()?;
            return self.alone(segment);
        }
        let mut moved = false;
        if self.stage == Stage::New {
            segment.stopped()?;
            self.begin(segment, order);
            moved = true;
        }
        if self.stage == Stage::Arriving {
            if let Some(mask) = self.meet(segment)? {
                self.still_waiting(segment, mask)?;
                return Ok(Poll::Pending { mask, moved });
            }
            self.stage = Stage::Moving;
            moved = true;
        }
        match self.advance(segment, &mut moved)? {
            None => {
                order.next = self.end;
                order
                    .rotation
                    .advance(&self.cut, self.buffer, self.end - self.first);
                Ok(Poll::Done)
            }
            Some(mask) => {
                self.still_waiting(segment, mask)?;
                Ok(Poll::Pending { mask, moved })
            }
        }
    }

    fn alone(&self, segment: &Segment) -> Result<Poll, Failure> {
        let (out, into) = (self.call.outgoing(0).len, self.call.incoming(0).len);
        if self.telling && out != into {
            let text = format!("ALL_TO_ALL_V: rank 0 sends {out} bytes to itself and expects {into}");
            return Err(segment.fail(Failure::new(Status::MISMATCH, text), 0));
        }
        // SAFETY: the caller of `enqueue` lent the buffers until the call has ended.
        unsafe { self.call.alone() };
        Ok(Poll::Done)
    }

    /// An error if the ranks waited for cannot come any more; they did not show what is waited for.
    fn still_waiting(&self, segment: &Segment, mask: u64) -> Result<(), Failure> {
        segment.stopped()?;
        let gone = (0..segment.ranks())
            .find(|rank| *rank != segment.me() && mask & bit(*rank) != 0 && segment.is_gone(*rank));
        match gone {
            // Its last publication may have come between the look and this one.
            Some(rank) if self.lacks(segment, rank) => {
                let text = format!("rank {rank} destroyed its communicator during {}", self.name());
                Err(segment.fail(Failure::new(Status::REMOTE, text), rank))
            }
            _ => Ok(()),
        }
    }

    /// Whether a rank that has gone had not finished this call.
    fn lacks(&self, segment: &Segment, rank: usize) -> bool {
        let board = segment.board(rank);
        if board.mailboxes[self.mailbox()].call.load(Ordering::SeqCst) != self.number {
            return true;
        }
        let behind = |counter: Counter, applies: bool| {
            applies && counter.of(&board.progress).load(Ordering::SeqCst) < self.end
        };
        // The last chunks are drained without a word, so their number says nothing.
        let last_word = self.end.saturating_sub(self.cut.depth as u64);
        let drained = board.progress.drained.load(Ordering::SeqCst);
        self.stage == Stage::Moving
            && (behind(Counter::Filled, self.call.gives(rank) && self.end > self.first)
                || behind(Counter::Folded, self.cut.shares)
                || (self.call.gets(rank) && last_word > self.first && drained < last_word))
    }

    fn name(&self) -> &'static str {
        self.call.collective.name().unwrap_or("a collective")
    }

    fn mailbox(&self) -> usize {
        (self.number % 2) as usize
    }

    fn moves<'a>(&'a self, segment: &'a Segment) -> Moves<'a> {
        Moves {
            segment,
            call: &self.call,
            cut: self.cut,
            mailbox: self.mailbox(),
            around: self.around,
        }
    }

    /// Publishes this rank's arrival, with its contribution if there is room for it already.
    fn begin(&mut self, segment: &Segment, order: &mut Order) {
        let me = segment.me();
        order.call = order.call.wrapping_add(1);
        self.number = order.call;
        self.first = order.next;
        self.end = self.first + self.cut.chunks;
        self.filled = if self.call.gives(me) { self.first } else { self.end };
        self.folded = if self.cut.shares { self.first } else { self.end };
        self.drained = if self.call.gets(me) { self.first } else { self.end };
        self.floors = [self.first; 3];
        let board = segment.board(me);
        let (buffer, free) = order.rotation.start(&self.cut);
        self.buffer = buffer;
        let mut early = true;
        if self.cut.inline && self.call.gives(me) {
            self.moves(segment).fill(self.chunk(self.first));
        } else if self.filled < self.end {
            early = free;
            if early {
                self.fill(segment);
                board.progress.filled.store(self.filled, Ordering::Relaxed);
            }
        }
        let (record, words) = (&board.record, &self.call.words);
        record.collective.store(words.collective, Ordering::Relaxed);
        record.dtype.store(words.dtype, Ordering::Relaxed);
        record.op.store(words.op, Ordering::Relaxed);
        record.root.store(words.root, Ordering::Relaxed);
        record.count.store(words.count, Ordering::Relaxed);
        record.check.store(words.check, Ordering::Relaxed);
        let mailbox = &board.mailboxes[self.mailbox()];
        mailbox.early.store(early.into(), Ordering::Relaxed);
        mailbox.signature.store(self.call.signature, Ordering::Relaxed);
        mailbox.call.store(self.number, Ordering::SeqCst);
        segment.announce();
        self.stage = Stage::Arriving;
    }

    fn fill(&mut self, segment: &Segment) {
        let chunk = self.chunk(self.filled);
        if self.telling {
            self.moves(segment).tell_lengths(chunk);
        } else {
            self.moves(segment).fill(self.data_chunk(chunk));
        }
        self.filled += 1;
    }

    /// A chunk by its number.
    fn chunk(&self, number: u64) -> Chunk {
        let index = number - self.first;
        let turn = (index % self.cut.depth as u64) as usize;
        Chunk {
            index,
            offset: (self.buffer + turn) % self.cut.depth * self.cut.stride,
        }
    }

    /// Data chunks of a call that began with lengths are counted from the second on.
    fn data_chunk(&self, chunk: Chunk) -> Chunk {
        Chunk {
            index: chunk.index - u64::from(self.call.is_private()),
            ..chunk
        }
    }

    /// Looks for the others' arrivals; the rank that is missing, or none.
    fn meet(&mut self, segment: &Segment) -> Result<Option<u64>, Failure> {
        if self.differs_since.is_some() {
            return verdict::reach(segment, self.number, self.differs_since).map(Some);
        }
        while self.met < segment.ranks() {
            if self.met != segment.me() {
                let mailbox = &segment.board(self.met).mailboxes[self.mailbox()];
                if mailbox.call.load(Ordering::Acquire) != self.number {
                    return Ok(Some(bit(self.met)));
                }
                if mailbox.signature.load(Ordering::Relaxed) != self.call.signature {
                    self.differs_since = Some(Instant::now());
                    return verdict::reach(segment, self.number, self.differs_since).map(Some);
                }
                self.all_early &= mailbox.early.load(Ordering::Relaxed) != 0;
            }
            self.met += 1;
        }
        if self.all_early && self.end > self.first {
            self.floors[Counter::Filled as usize] = self.first + 1;
        }
        Ok(None)
    }

    /// Moves chunks; the ranks that are waited for, or none when the call has finished.
    fn advance(&mut self, segment: &Segment, moved: &mut bool) -> Result<Option<u64>, Failure> {
        if self.cut.inline {
            if self.call.gets(segment.me()) {
                self.moves(segment).drain(self.chunk(self.first));
            }
            return Ok(None);
        }
        loop {
            let mut mask = 0;
            // What is oldest goes first: it frees buffers, and is likely still in the cache.
            if self.drained < self.end {
                match self.drainable(segment) {
                    Ok(()) => {
                        self.drain(segment)?;
                        *moved = true;
                        continue;
                    }
                    Err(waits) => mask |= waits,
                }
            }
            if self.folded < self.end {
                let own = if self.filled > self.folded { Ok(()) } else { Err(0) };
                match own.and_then(|()| self.reached(segment, Counter::Filled, self.folded + 1, None)) {
                    Ok(()) => {
                        self.moves(segment).fold(self.chunk(self.folded));
                        self.folded += 1;
                        segment
                            .board(segment.me())
                            .progress
                            .folded
                            .store(self.folded, Ordering::SeqCst);
                        segment.announce();
                        *moved = true;
                        continue;
                    }
                    Err(waits) => mask |= waits,
                }
            }
            if self.filled < self.end {
                match self.fillable(segment) {
                    Ok(()) => {
                        self.fill(segment);
                        segment
                            .board(segment.me())
                            .progress
                            .filled
                            .store(self.filled, Ordering::SeqCst);
                        segment.announce();
                        *moved = true;
                        continue;
                    }
                    Err(waits) => mask |= waits,
                }
            }
            debug_assert_eq!(
                mask == 0,
                self.filled == self.end && self.folded == self.end && self.drained == self.end
            );
            return Ok((mask != 0).then_some(mask));
        }
    }

    fn drainable(&mut self, segment: &Segment) -> Result<(), u64> {
        if self.filled <= self.drained {
            // This rank's own contribution is missing, which `advance` reports.
            return Err(0);
        }
        if self.cut.shares {
            if self.folded <= self.drained {
                // This rank's own share is missing, which `advance` reports.
                return Err(0);
            }
            self.reached(segment, Counter::Folded, self.drained + 1, None)
        } else {
            self.reached(segment, Counter::Filled, self.drained + 1, self.call.giver())
        }
    }

    fn drain(&mut self, segment: &Segment) -> Result<(), Failure> {
        let chunk = self.chunk(self.drained);
        if self.telling {
            let longest = self.moves(segment).hear_lengths(chunk);
            let longest = longest.map_err(|(failure, rank)| segment.fail(failure, rank))?;
            self.telling = false;
            self.end += cut::chunks(longest, self.cut.unit);
            self.folded = self.end;
        } else {
            self.moves(segment).drain(self.data_chunk(chunk));
        }
        self.drained += 1;
        // Nobody fills the buffers of the last chunks again within this call.
        if self.drained + (self.cut.depth as u64) <= self.end {
            segment
                .board(segment.me())
                .progress
                .drained
                .store(self.drained, Ordering::SeqCst);
            segment.announce();
        }
        Ok(())
    }

    fn fillable(&mut self, segment: &Segment) -> Result<(), u64> {
        let depth = self.cut.depth as u64;
        // All have arrived, so nobody reads what calls before have left in the slots.
        if self.filled < self.first + depth {
            return Ok(());
        }
        if self.drained < self.end && self.drained + depth <= self.filled {
            // This rank itself still reads the buffer.
            return Err(0);
        }
        self.reached(
            segment,
            Counter::Drained,
            self.filled + 1 - depth,
            self.call.getter(),
        )
    }

    /// Whether all others (or the one) have come to `want`; else the bit of one that has not.
    fn reached(
        &mut self,
        segment: &Segment,
        counter: Counter,
        want: u64,
        only: Option<usize>,
    ) -> Result<(), u64> {
        if self.floors[counter as usize] >= want {
            return Ok(());
        }
        let mut floor = u64::MAX;
        let ranks = match only {
            Some(rank) => rank..rank + 1,
            None => 0..segment.ranks(),
        };
        for rank in ranks.filter(|rank| *rank != segment.me()) {
            let value = counter.of(&segment.board(rank).progress).load(Ordering::Acquire);
            if value < want {
                return Err(bit(rank));
            }
            floor = floor.min(value);
        }
        self.floors[counter as usize] = floor;
        Ok(())
    }
}
