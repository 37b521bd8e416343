//! SEND and RECV as resumable state machines over the ring of their pair.

use super::bell::bit;
use super::ring::{Envelope, RecvEnd, Ring, SendEnd};
use super::segment::{CELL_INLINE, Segment};
use super::wait::Poll;
use crate::error::usage;
use infiniccl_plugin_api::{CollDesc, Failure, Status};
use infiniccl_reduce::DataType;

/// Half of a message, with checked arguments.
#[derive(Debug)]
struct Half {
    peer: usize,
    len: usize,
    check: u64,
}

impl Half {
    fn new(desc: &CollDesc, buffer: *const u8, ranks: usize) -> Result<Half, Failure> {
        let dtype = DataType::try_from(desc.dtype.0)
            .map_err(|unknown| Failure::new(Status::UNSUPPORTED, unknown.to_string()))?;
        let peer = usize::try_from(desc.peer).ok().filter(|peer| *peer < ranks);
        let peer = peer.ok_or_else(|| usage(format!("peer {} of {ranks} ranks", desc.peer)))?;
        let len = usize::try_from(desc.count)
            .ok()
            .and_then(|count| count.checked_mul(dtype.size()))
            .filter(|len| isize::try_from(*len).is_ok())
            .ok_or_else(|| {
                usage(format!(
                    "{} elements of {dtype} do not fit into memory",
                    desc.count
                ))
            })?;
        if len > 0 && buffer.is_null() {
            return Err(usage("the buffer of a message is a null pointer"));
        }
        Ok(Half {
            peer,
            len,
            check: desc.check,
        })
    }

    /// An error if the peer has left and `finds` still finds nothing.
    fn still_waiting(&self, segment: &Segment, finds: impl FnOnce() -> bool) -> Result<(), Failure> {
        segment.stopped()?;
        if segment.is_gone(self.peer) && !finds() {
            let text = format!(
                "rank {} destroyed its communicator before its half of a message",
                self.peer
            );
            return Err(segment.fail(Failure::new(Status::REMOTE, text), self.peer));
        }
        Ok(())
    }
}

fn ring(segment: &Segment, from: usize, to: usize) -> Ring<'_> {
    Ring {
        pair: segment.pair(from, to),
        data: segment.ring(from, to),
        capacity: segment.layout().ring,
    }
}

/// Most bytes that move between two publications: both ends work at the same time.
fn quantum(ring: Ring<'_>) -> usize {
    ring.capacity / 4
}

/// A SEND under way.
#[derive(Debug)]
pub(crate) struct Send {
    half: Half,
    src: *const u8,
    sent: usize,
    posted: bool,
}

// SAFETY: the pointer is the caller's buffer, lent until the message has ended, to whichever thread runs it.
unsafe impl std::marker::Send for Send {}

impl Send {
    /// Checks the arguments.
    pub(crate) fn new(desc: &CollDesc, ranks: usize) -> Result<Send, Failure> {
        let half = Half::new(desc, desc.send, ranks)?;
        Ok(Send {
            half,
            src: desc.send,
            sent: 0,
            posted: false,
        })
    }

    /// The receiver.
    pub(crate) fn peer(&self) -> usize {
        self.half.peer
    }

    /// Goes on as far as possible without waiting.
    pub(crate) fn poll(&mut self, segment: &Segment, end: &mut SendEnd) -> Result<Poll, Failure> {
        let ring = ring(segment, segment.me(), self.half.peer);
        let mut moved = false;
        loop {
            if !self.posted && !end.has_cell(ring) {
                break;
            }
            let small = self.half.len <= CELL_INLINE;
            let step = if small {
                0
            } else {
                (self.half.len - self.sent).min(quantum(ring))
            };
            // SAFETY: the caller of `enqueue` lent `len` bytes until the message has ended.
            let written =
                unsafe { end.write(ring, segment.writer(), self.src.wrapping_add(self.sent), step) };
            if !self.posted {
                segment.stopped()?;
                let envelope = Envelope {
                    len: self.half.len as u64,
                    check: self.half.check,
                };
                // SAFETY: as above.
                unsafe { end.post(ring, envelope, self.src) };
                self.posted = true;
            } else if written == 0 {
                break;
            }
            self.sent += written;
            moved = true;
            segment.announce_to(self.half.peer);
            if small || self.sent == self.half.len {
                return Ok(Poll::Done);
            }
        }
        let posted = self.posted;
        self.half.still_waiting(segment, || {
            if posted {
                end.has_room(ring)
            } else {
                end.has_cell(ring)
            }
        })?;
        Ok(Poll::Pending {
            mask: bit(self.half.peer),
            moved,
        })
    }
}

/// A RECV under way.
#[derive(Debug)]
pub(crate) struct Recv {
    half: Half,
    dst: *mut u8,
    got: usize,
    opened: bool,
}

// SAFETY: as for `Send`.
unsafe impl std::marker::Send for Recv {}

impl Recv {
    /// Checks the arguments.
    pub(crate) fn new(desc: &CollDesc, ranks: usize) -> Result<Recv, Failure> {
        let half = Half::new(desc, desc.recv, ranks)?;
        Ok(Recv {
            half,
            dst: desc.recv,
            got: 0,
            opened: false,
        })
    }

    /// The sender.
    pub(crate) fn peer(&self) -> usize {
        self.half.peer
    }

    /// Goes on as far as possible without waiting.
    pub(crate) fn poll(&mut self, segment: &Segment, end: &mut RecvEnd) -> Result<Poll, Failure> {
        let peer = self.half.peer;
        let ring = ring(segment, peer, segment.me());
        let mut moved = false;
        if !self.opened {
            let Some(envelope) = end.peek(ring) else {
                self.half.still_waiting(segment, || end.peek(ring).is_some())?;
                return Ok(Poll::Pending {
                    mask: bit(peer),
                    moved,
                });
            };
            self.compare(segment, envelope)?;
            self.opened = true;
            moved = true;
            if self.half.len <= CELL_INLINE {
                if self.half.len > 0 {
                    // SAFETY: the caller of `enqueue` lent `len` bytes until the message has ended.
                    unsafe { end.take_small(ring, self.dst, self.half.len) };
                }
                self.got = self.half.len;
            }
        }
        while self.got < self.half.len {
            let step = (self.half.len - self.got).min(quantum(ring));
            // SAFETY: as above.
            let read = unsafe { end.read(ring, self.dst.wrapping_add(self.got), step) };
            if read == 0 {
                self.half.still_waiting(segment, || end.has_bytes(ring))?;
                return Ok(Poll::Pending {
                    mask: bit(peer),
                    moved,
                });
            }
            self.got += read;
            moved = true;
            if self.got < self.half.len {
                segment.announce_to(peer);
            }
        }
        end.finish(ring);
        segment.announce_to(peer);
        Ok(Poll::Done)
    }

    fn compare(&self, segment: &Segment, envelope: Envelope) -> Result<(), Failure> {
        let (me, half) = (segment.me(), &self.half);
        let text = if envelope.len != half.len as u64 {
            format!(
                "rank {} sent {} bytes to rank {me}, which expects {}",
                half.peer, envelope.len, half.len
            )
        } else if envelope.check != half.check && envelope.check != 0 && half.check != 0 {
            format!(
                "rank {} and rank {me} disagree about a message between them",
                half.peer
            )
        } else {
            return Ok(());
        };
        Err(segment.fail(Failure::new(Status::MISMATCH, text), half.peer))
    }
}
