//! A ring for messages from one rank to another: one sender, one receiver, no locks, in shared memory.
//!
//! Headers travel in cells of one line, with the whole message if it is small; longer messages pass through a ring
//! of bytes. Each end owns its counters and reads the other's; nothing here waits.

use super::layout::CELLS;
use super::segment::{CELL_INLINE, Cell, Pair};
use super::write::Writer;
use std::sync::atomic::Ordering;

/// One end's view of the memory.
#[derive(Clone, Copy)]
pub(crate) struct Ring<'a> {
    pub(crate) pair: &'a Pair,
    pub(crate) data: *mut u8,
    /// A power of two.
    pub(crate) capacity: usize,
}

/// What the sender remembers.
#[derive(Debug, Default)]
pub(crate) struct SendEnd {
    messages: u32,
    bytes: u64,
    /// What the receiver had taken when this end last looked.
    taken_messages: u32,
    taken_bytes: u64,
}

/// What the receiver remembers.
#[derive(Debug, Default)]
pub(crate) struct RecvEnd {
    messages: u32,
    bytes: u64,
}

/// The header of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Envelope {
    pub(crate) len: u64,
    pub(crate) check: u64,
}

impl<'a> Ring<'a> {
    fn cell(&self, message: u32) -> &'a Cell {
        &self.pair.cells[message as usize % CELLS]
    }

    /// The run of bytes at `position`, up to `len` or the end of the buffer.
    fn span(&self, position: u64, len: usize) -> (*mut u8, usize) {
        let at = (position % self.capacity as u64) as usize;
        // SAFETY: `at` is below the capacity.
        (unsafe { self.data.add(at) }, len.min(self.capacity - at))
    }
}

impl SendEnd {
    /// Whether the header of another message finds room.
    pub(crate) fn has_cell(&mut self, ring: Ring<'_>) -> bool {
        let room = |taken: u32| (self.messages.wrapping_sub(taken) as usize) < CELLS;
        if room(self.taken_messages) {
            return true;
        }
        let taken = ring.pair.taken.messages.load(Ordering::Acquire);
        let free = room(taken);
        self.taken_messages = taken;
        free
    }

    /// Whether [`SendEnd::write`] would find room, by what the receiver has taken until now.
    pub(crate) fn has_room(&self, ring: Ring<'_>) -> bool {
        self.bytes - ring.pair.taken.bytes.load(Ordering::Acquire) < ring.capacity as u64
    }

    /// Publishes a message's header, and the message if it fits; [`SendEnd::has_cell`] must have said yes.
    ///
    /// # Safety
    /// `src` is valid for reads of the message if that is at most [`CELL_INLINE`] bytes long.
    pub(crate) unsafe fn post(&mut self, ring: Ring<'_>, envelope: Envelope, src: *const u8) {
        let cell = ring.cell(self.messages);
        cell.len.store(envelope.len, Ordering::Relaxed);
        cell.check.store(envelope.check, Ordering::Relaxed);
        if envelope.len > 0 && envelope.len <= CELL_INLINE as u64 {
            let len = envelope.len as usize;
            // SAFETY: the caller's promise; the receiver has taken the cell's last message.
            unsafe { std::ptr::copy_nonoverlapping(src, cell.payload.get().cast(), len) };
        }
        self.messages = self.messages.wrapping_add(1);
        cell.number.store(self.messages, Ordering::SeqCst);
    }

    /// Writes as much of `len` bytes as there is room for; how much.
    ///
    /// # Safety
    /// `src` is valid for reads of `len` bytes.
    pub(crate) unsafe fn write(
        &mut self,
        ring: Ring<'_>,
        writer: &Writer,
        src: *const u8,
        len: usize,
    ) -> usize {
        let room = |taken: u64| ring.capacity - (self.bytes - taken) as usize;
        if room(self.taken_bytes) < len {
            self.taken_bytes = ring.pair.taken.bytes.load(Ordering::Acquire);
        }
        let len = len.min(room(self.taken_bytes));
        if len == 0 {
            return 0;
        }
        let (first, head) = ring.span(self.bytes, len);
        let (second, tail) = ring.span(self.bytes + head as u64, len - head);
        // SAFETY: the caller's promise; the receiver has taken what lay there.
        unsafe {
            writer.copy(first, src, head);
            writer.copy(second, src.add(head), tail);
        }
        self.bytes += len as u64;
        ring.pair.written.bytes.store(self.bytes, Ordering::SeqCst);
        len
    }
}

impl RecvEnd {
    /// The header of the next message, if it is there.
    pub(crate) fn peek(&self, ring: Ring<'_>) -> Option<Envelope> {
        let cell = ring.cell(self.messages);
        (cell.number.load(Ordering::Acquire) == self.messages.wrapping_add(1)).then(|| Envelope {
            len: cell.len.load(Ordering::Relaxed),
            check: cell.check.load(Ordering::Relaxed),
        })
    }

    /// Copies a message that came with its header; [`RecvEnd::peek`] must have found it with `len` bytes.
    ///
    /// # Safety
    /// `dst` is valid for writes of `len` bytes, at most [`CELL_INLINE`].
    pub(crate) unsafe fn take_small(&self, ring: Ring<'_>, dst: *mut u8, len: usize) {
        let cell = ring.cell(self.messages);
        // SAFETY: the caller's promise; the sender writes the cell again only when this message is finished.
        unsafe { std::ptr::copy_nonoverlapping(cell.payload.get().cast(), dst, len.min(CELL_INLINE)) };
    }

    /// Reads up to `len` bytes; how many. The room goes back to the sender.
    ///
    /// # Safety
    /// `dst` is valid for writes of `len` bytes.
    pub(crate) unsafe fn read(&mut self, ring: Ring<'_>, dst: *mut u8, len: usize) -> usize {
        let there = ring
            .pair
            .written
            .bytes
            .load(Ordering::Acquire)
            .wrapping_sub(self.bytes);
        let len = usize::try_from(there)
            .map_or(len, |there| there.min(len))
            .min(ring.capacity);
        if len == 0 {
            return 0;
        }
        let (first, head) = ring.span(self.bytes, len);
        let (second, tail) = ring.span(self.bytes + head as u64, len - head);
        // SAFETY: the caller's promise; the sender has published these bytes.
        unsafe {
            std::ptr::copy_nonoverlapping(first, dst, head);
            std::ptr::copy_nonoverlapping(second, dst.add(head), tail);
        }
        self.bytes += len as u64;
        ring.pair.taken.bytes.store(self.bytes, Ordering::SeqCst);
        len
    }

    /// Whether [`RecvEnd::read`] would find bytes.
    pub(crate) fn has_bytes(&self, ring: Ring<'_>) -> bool {
        ring.pair.written.bytes.load(Ordering::Acquire) != self.bytes
    }

    /// Gives the cell of the finished message back.
    pub(crate) fn finish(&mut self, ring: Ring<'_>) {
        self.messages = self.messages.wrapping_add(1);
        ring.pair.taken.messages.store(self.messages, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ccl::segment::for_tests;

    #[test]
    fn bytes_pass_in_order_and_never_overtake_the_reader() {
        let ranks = for_tests(2, 1);
        let ring = |me: usize| Ring {
            pair: ranks[me].pair(0, 1),
            data: ranks[me].ring(0, 1),
            capacity: ranks[me].layout().ring,
        };
        let (mut out, mut into) = (SendEnd::default(), RecvEnd::default());
        let writer = Writer::default();
        let source: Vec<u8> = (0..1_000_003_u32).map(|i| (i * 7 + i / 251) as u8).collect();
        let mut target = vec![0; source.len()];
        let (mut sent, mut got, mut step) = (0, 0, 1);
        while got < source.len() {
            step = step * 5 % 99_991;
            // SAFETY: the slices are as long as said.
            unsafe {
                let rest = &source[sent..];
                sent += out.write(ring(0), &writer, rest.as_ptr(), rest.len().min(step));
                let rest = &mut target[got..];
                got += into.read(ring(1), rest.as_mut_ptr(), rest.len().min(step / 2 + 1));
            }
            assert!(sent - got <= ring(0).capacity);
        }
        assert!(source == target);
    }

    #[test]
    fn cells_are_bounded_and_keep_small_messages_apart() {
        let ranks = for_tests(2, 1);
        let ring = Ring {
            pair: ranks[0].pair(1, 0),
            data: ranks[0].ring(1, 0),
            capacity: ranks[0].layout().ring,
        };
        // Near the end of the counters, so that they wrap.
        let start = u32::MAX - 9;
        let mut out = SendEnd {
            messages: start,
            taken_messages: start,
            ..SendEnd::default()
        };
        let mut into = RecvEnd {
            messages: start,
            ..RecvEnd::default()
        };
        ring.pair.taken.messages.store(start, Ordering::Relaxed);
        for round in 0..5_u8 {
            assert_eq!(into.peek(ring), None);
            for n in 0..CELLS as u8 {
                assert!(out.has_cell(ring));
                let message = [round * 16 + n; 5];
                // SAFETY: five bytes are there.
                unsafe {
                    out.post(
                        ring,
                        Envelope {
                            len: 5,
                            check: u64::from(n),
                        },
                        message.as_ptr(),
                    )
                };
            }
            assert!(!out.has_cell(ring));
            for n in 0..CELLS as u8 {
                assert_eq!(
                    into.peek(ring),
                    Some(Envelope {
                        len: 5,
                        check: u64::from(n)
                    })
                );
                let mut message = [0; 5];
                // SAFETY: as above.
                unsafe { into.take_small(ring, message.as_mut_ptr(), 5) };
                assert_eq!(message, [round * 16 + n; 5]);
                into.finish(ring);
            }
        }
    }
}
