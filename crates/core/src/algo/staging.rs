//! Scratch memory of an algorithm: slots that are reused in rotation, and packed pieces of blocks.

use super::{Blocks, CHUNK_ALIGN, Span};
use crate::schedule::{Builder, Loc};

/// Equal pieces of scratch memory.
///
/// Reuse is safe, since the builder lets a step that writes a slot wait for those that still read it. It is free
/// of deadlock as long as what frees a slot never waits for what the slot is wanted for: hand them out in the
/// order of the messages, and let each be freed by an earlier message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slots {
    first: Loc,
    stride: u64,
    count: usize,
    next: usize,
}

impl Slots {
    /// `count` slots of `bytes` bytes.
    pub(super) fn new(b: &mut Builder, count: usize, bytes: u64) -> Self {
        let stride = bytes.next_multiple_of(CHUNK_ALIGN);
        Slots {
            first: b.alloc(stride * count as u64),
            stride,
            count,
            next: 0,
        }
    }

    /// Slot `index`, counted around.
    pub(super) fn at(&self, index: usize) -> Loc {
        self.first.plus((index % self.count) as u64 * self.stride)
    }

    /// The slot whose turn it is.
    pub(super) fn take(&mut self) -> Loc {
        let slot = self.at(self.next);
        self.next = (self.next + 1) % self.count;
        slot
    }
}

/// One piece of each of some blocks, packed one after the other in a given order.
#[derive(Debug)]
pub(super) struct Packed {
    /// Where each piece comes from or goes to in the buffer.
    pieces: Vec<Span>,
    /// Where each starts in the packed form, and where the last one ends.
    starts: Vec<u64>,
}

impl Packed {
    /// Piece `round` with up to `piece` bytes of each of the blocks that `order` names.
    pub(super) fn new(blocks: &Blocks, order: impl Iterator<Item = usize>, round: u64, piece: u64) -> Self {
        let pieces: Vec<Span> = order.map(|i| blocks[i].piece(round, piece)).collect();
        let mut starts = vec![0];
        for span in &pieces {
            starts.push(starts[starts.len() - 1] + span.bytes);
        }
        Packed { pieces, starts }
    }

    /// Where the pieces `first..last` lie in the packed form.
    pub(super) fn range(&self, first: usize, last: usize) -> Span {
        Span::new(self.starts[first], self.starts[last] - self.starts[first])
    }

    /// Copies the pieces `first..last` from `buffer` to their places after `packed`.
    pub(super) fn pack(&self, b: &mut Builder, packed: Loc, buffer: Loc, first: usize, last: usize) {
        for i in first..last {
            let span = self.pieces[i];
            b.copy(packed.plus(self.starts[i]), buffer.plus(span.offset), span.bytes);
        }
    }

    /// Copies the pieces `first..last` from their places after `packed` to `buffer`.
    pub(super) fn unpack(&self, b: &mut Builder, buffer: Loc, packed: Loc, first: usize, last: usize) {
        for i in first..last {
            let span = self.pieces[i];
            b.copy(buffer.plus(span.offset), packed.plus(self.starts[i]), span.bytes);
        }
    }
}

/// Sends `bytes` bytes in chunks.
pub(super) fn send_chunks(b: &mut Builder, peer: u32, src: Loc, bytes: u64, chunk: u64) {
    for piece in Span::whole(bytes).pieces(chunk) {
        b.send(peer, src.plus(piece.offset), piece.bytes);
    }
}

/// Receives what [`send_chunks`] sends.
pub(super) fn recv_chunks(b: &mut Builder, peer: u32, dst: Loc, bytes: u64, chunk: u64) {
    for piece in Span::whole(bytes).pieces(chunk) {
        b.recv(peer, dst.plus(piece.offset), piece.bytes);
    }
}

/// Copies `bytes` bytes in chunks.
pub(super) fn copy_chunks(b: &mut Builder, dst: Loc, src: Loc, bytes: u64, chunk: u64) {
    for piece in Span::whole(bytes).pieces(chunk) {
        b.copy(dst.plus(piece.offset), src.plus(piece.offset), piece.bytes);
    }
}
