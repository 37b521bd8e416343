//! The incoming half of a channel: small messages through a read-ahead buffer, large ones straight into place.

use crate::send::{MAX_QUEUE, completion, part};
use crate::socket::{self, Moved};
use crate::wire::{HEADER, Header, Kind};
use infiniccl_plugin_api::{Completion, Status};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::collections::VecDeque;

/// Bytes of the read-ahead buffer of a channel.
const AHEAD: usize = 32 << 10;
/// Up to this many bytes a message is read through the read-ahead buffer: one copy more, but what follows it comes
/// with the same system call.
const SMALL: u64 = 8 << 10;
/// Most bytes that a system call reads, so that the other direction gets its turn.
const MAX_BYTES: u64 = 512 << 10;

/// Why nothing more comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The peer closed the channel in good order.
    Goodbye,
    /// The peer's socket was closed without a goodbye.
    Eof,
    /// The connection broke.
    Broken(Errno),
    /// The receive that was next had `posted` bytes, the message `sent`.
    Mismatch { posted: u64, sent: u64 },
    /// The peer says that its receive had so many bytes, unlike the message of this end.
    PeerMismatch { posted: u64 },
    /// The bytes are no frame.
    Garbage,
}

/// A posted receive.
#[derive(Debug)]
struct Posted {
    start: *mut u8,
    len: u64,
    token: u64,
}

/// The incoming half of a channel.
#[derive(Debug, Default)]
pub(crate) struct Receiver {
    queue: VecDeque<Posted>,
    /// The header of the message that is coming in; `header_len` of its bytes are here.
    header: [u8; HEADER],
    header_len: usize,
    /// The same, decoded, once it is whole.
    message: Option<Header>,
    /// Bytes of its payload that are in place.
    written: u64,
    /// Bytes that were read but not used: `ahead[start..end]`.
    ahead: Box<[u8]>,
    start: usize,
    end: usize,
    /// What the socket said last, if nothing more can come.
    over: Option<End>,
}

// SAFETY: the pointers are used only by the thread that calls the worker, which the caller of `push` allowed.
unsafe impl Send for Receiver {}

impl Receiver {
    /// Whether no receive waits.
    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.queue.len() >= MAX_QUEUE
    }

    /// Appends a receive.
    ///
    /// # Safety
    /// `start` stays writable for `len` bytes, and unused by others, on whichever thread calls the worker, until the
    /// receive completes.
    pub(crate) unsafe fn push(&mut self, start: *mut u8, len: u64, token: u64) {
        self.queue.push_back(Posted { start, len, token });
    }

    /// Uses what was read ahead, and makes at most one system call if a receive still waits; tells whether there was
    /// anything.
    pub(crate) fn step(
        &mut self,
        socket: BorrowedFd<'_>,
        channel: u64,
        done: &mut VecDeque<Completion>,
    ) -> Result<bool, End> {
        let used = self.digest(channel, done)?;
        let Some(first) = self.queue.front() else {
            return match self.over {
                Some(end) if self.is_spent() => Err(end),
                _ => Ok(used),
            };
        };
        if used && self.message.is_none() {
            // Something completed: the caller may want it before the next system call.
            return Ok(true);
        }
        if let Some(end) = self.over {
            return Err(end);
        }
        let missing = first.len - self.written;
        let moved = match missing <= SMALL {
            true => self.read_ahead(socket),
            false => self.read_in_place(socket, channel, done)?,
        };
        match moved {
            Moved::Bytes(0) => Err(self.ended(End::Eof)),
            Moved::Bytes(_) => {
                self.digest(channel, done)?;
                Ok(true)
            }
            Moved::Blocked => Ok(used),
            Moved::Broken(errno) => Err(self.ended(End::Broken(errno))),
        }
    }

    /// Looks at what came while no receive waits, as far as the read-ahead buffer holds it; tells whether the buffer
    /// is full, so that looking again is of no use.
    pub(crate) fn peek(
        &mut self,
        socket: BorrowedFd<'_>,
        channel: u64,
        done: &mut VecDeque<Completion>,
    ) -> Result<bool, End> {
        while self.over.is_none() {
            if self.end - self.start >= AHEAD {
                return Ok(true);
            }
            match self.read_ahead(socket) {
                Moved::Bytes(0) => self.over = Some(End::Eof),
                Moved::Bytes(_) => drop(self.digest(channel, done)?),
                Moved::Blocked => return Ok(false),
                Moved::Broken(errno) => self.over = Some(End::Broken(errno)),
            }
        }
        // Whole messages that were read before the end can still be received.
        match self.over {
            Some(end) if self.is_spent() => Err(end),
            _ => Ok(true),
        }
    }

    /// Whether something can be done for a receive without looking at the socket.
    pub(crate) fn holds(&self) -> bool {
        self.start != self.end
            || self.over.is_some()
            || self.message.is_some_and(|message| message.length == 0)
    }

    /// Whether nothing that was read is left to be received.
    fn is_spent(&self) -> bool {
        self.start == self.end && self.message.is_none()
    }

    fn ended(&mut self, end: End) -> End {
        self.over = Some(end);
        end
    }

    fn read_ahead(&mut self, socket: BorrowedFd<'_>) -> Moved {
        if self.ahead.is_empty() {
            self.ahead = vec![0; AHEAD].into_boxed_slice();
        }
        if self.start > 0 {
            self.ahead.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let moved = socket::receive_into(socket, &mut self.ahead[self.end..]);
        if let Moved::Bytes(bytes) = moved {
            self.end += bytes;
        }
        moved
    }

    /// Reads the rest of the header, the payload of the first receive, and what follows it.
    ///
    /// The payload is read before the header was looked at: it never goes beyond the posted memory, and if the
    /// header turns out not to announce it, that receive fails.
    fn read_in_place(
        &mut self,
        socket: BorrowedFd<'_>,
        channel: u64,
        done: &mut VecDeque<Completion>,
    ) -> Result<Moved, End> {
        if self.ahead.is_empty() {
            self.ahead = vec![0; AHEAD].into_boxed_slice();
        }
        debug_assert!(
            self.start == self.end,
            "what was read ahead is used up while a receive waits"
        );
        (self.start, self.end) = (0, 0);
        let Some(first) = self.queue.front() else {
            return Ok(Moved::Blocked);
        };
        let missing = first.len - self.written;
        let take = missing.min(MAX_BYTES) as usize;
        let tail = match self.queue.get(1) {
            _ if missing > MAX_BYTES => 0,
            Some(next) if next.len <= SMALL => AHEAD,
            _ => HEADER,
        };
        // SAFETY: fewer than `len` bytes are in place, so the result points into the receive's memory.
        let to = unsafe { first.start.add(self.written as usize) };
        let header_left = HEADER - self.header_len;
        let mut parts = [
            part(self.header[self.header_len..].as_ptr(), header_left),
            part(to, take),
            part(self.ahead.as_ptr(), tail),
        ];
        parts[0].iov_base = self.header[self.header_len..].as_mut_ptr().cast();
        parts[2].iov_base = self.ahead.as_mut_ptr().cast();
        let parts = if header_left == 0 {
            &mut parts[1..]
        } else {
            &mut parts[..]
        };
        // SAFETY: the parts are fields of this struct, and memory that is writable until the receive completes.
        let moved = unsafe { socket::receive(socket, parts) };
        if let Moved::Bytes(bytes) = moved {
            let of_header = bytes.min(header_left);
            let of_payload = (bytes - of_header).min(take);
            self.header_len += of_header;
            self.end = bytes - of_header - of_payload;
            self.decode(channel, done)?;
            self.written += of_payload as u64;
            self.complete(channel, done);
        }
        Ok(moved)
    }

    /// Uses bytes that were read ahead, as far as they have somewhere to go; tells whether any were used.
    fn digest(&mut self, channel: u64, done: &mut VecDeque<Completion>) -> Result<bool, End> {
        let mut used = false;
        loop {
            if self.header_len < HEADER {
                let take = (HEADER - self.header_len).min(self.end - self.start);
                self.header[self.header_len..self.header_len + take]
                    .copy_from_slice(&self.ahead[self.start..self.start + take]);
                self.header_len += take;
                self.start += take;
                used |= take > 0;
            }
            self.decode(channel, done)?;
            let (Some(message), Some(first)) = (self.message, self.queue.front()) else {
                break;
            };
            let take = (message.length - self.written).min((self.end - self.start) as u64) as usize;
            // SAFETY: the message's length is the receive's, of which `written` bytes are in place; the source is
            // inside the buffer, which is this struct's own.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    self.ahead.as_ptr().add(self.start),
                    first.start.add(self.written as usize),
                    take,
                );
            }
            self.start += take;
            self.written += take as u64;
            used |= take > 0;
            if !self.complete(channel, done) {
                break;
            }
            used = true;
        }
        Ok(used)
    }

    /// Looks at the header once it is whole, and again once a receive waits for it.
    fn decode(&mut self, channel: u64, done: &mut VecDeque<Completion>) -> Result<(), End> {
        if self.header_len < HEADER {
            return Ok(());
        }
        let message = match self.message {
            Some(message) => message,
            None => *self
                .message
                .insert(Header::decode(&self.header).ok_or(End::Garbage)?),
        };
        match message.kind {
            Kind::Goodbye => return Err(End::Goodbye),
            Kind::WrongLength => {
                return Err(End::PeerMismatch {
                    posted: message.length,
                });
            }
            Kind::Data => {}
        }
        match self.queue.front() {
            Some(first) if first.len != message.length => {
                let (posted, sent) = (first.len, message.length);
                done.push_back(completion(first.token, channel, sent, Status::MISMATCH));
                self.queue.pop_front();
                Err(End::Mismatch { posted, sent })
            }
            _ => Ok(()),
        }
    }

    /// Completes the first receive if its message is whole; tells whether it did.
    fn complete(&mut self, channel: u64, done: &mut VecDeque<Completion>) -> bool {
        let (Some(message), Some(first)) = (self.message, self.queue.front()) else {
            return false;
        };
        if self.written < message.length {
            return false;
        }
        let mut end = completion(first.token, channel, message.length, Status::OK);
        end.imm = message.imm;
        done.push_back(end);
        self.queue.pop_front();
        (self.header_len, self.message, self.written) = (0, None, 0);
        true
    }

    /// Completes every waiting receive with `status`.
    pub(crate) fn fail(&mut self, status: Status, channel: u64, done: &mut VecDeque<Completion>) {
        for posted in self.queue.drain(..) {
            done.push_back(completion(posted.token, channel, 0, status));
        }
        self.ahead = Box::default();
        (self.start, self.end) = (0, 0);
    }
}

#[cfg(test)]
mod tests;
