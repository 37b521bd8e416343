//! The outgoing half of a channel: messages in order, several to a system call.

use crate::socket::{self, Moved};
use crate::wire::{HEADER, Header, Kind};
use infiniccl_plugin_api::{Completion, Status};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::mem::MaybeUninit;

/// Most parts of a system call; each message has two.
const MAX_PARTS: usize = 64;
/// Most bytes of a system call, so that the other direction gets its turn: a message of 512 KiB with its header, or
/// several smaller ones.
const MAX_BYTES: usize = (512 << 10) + MAX_PARTS / 2 * HEADER;
/// Most messages that wait on a channel.
pub(crate) const MAX_QUEUE: usize = 4096;

/// A posted message.
#[derive(Debug)]
struct Message {
    header: [u8; HEADER],
    payload: *const u8,
    len: u64,
    /// None: a frame of the protocol, which completes nothing.
    token: Option<u64>,
}

/// Messages that are not fully handed to the kernel yet.
#[derive(Debug, Default)]
pub(crate) struct SendQueue {
    messages: VecDeque<Message>,
    /// Bytes of the first message, header included, that are.
    sent: u64,
}

// SAFETY: the pointers are used only by the thread that calls the worker, which the caller of `push` allowed.
unsafe impl Send for SendQueue {}

impl SendQueue {
    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.messages.len() >= MAX_QUEUE
    }

    /// Appends a message.
    ///
    /// # Safety
    /// `payload` stays readable for `len` bytes, on whichever thread calls the worker, until the message completes.
    pub(crate) unsafe fn push(&mut self, payload: *const u8, len: u64, imm: u32, token: u64) {
        let header = Header {
            kind: Kind::Data,
            length: len,
            imm,
        }
        .encode();
        self.messages.push_back(Message {
            header,
            payload,
            len,
            token: Some(token),
        });
    }

    /// Appends a frame of the protocol itself.
    pub(crate) fn push_control(&mut self, kind: Kind, length: u64) {
        let header = Header { kind, length, imm: 0 }.encode();
        self.messages.push_back(Message {
            header,
            payload: std::ptr::null(),
            len: 0,
            token: None,
        });
    }

    /// Whether a frame could be put before everything that waits.
    pub(crate) fn between_frames(&self) -> bool {
        self.sent == 0
    }

    /// Makes one system call and stores what it completed; tells whether bytes moved.
    pub(crate) fn step(
        &mut self,
        socket: BorrowedFd<'_>,
        channel: u64,
        done: &mut VecDeque<Completion>,
    ) -> Result<bool, Errno> {
        let mut parts = [const { MaybeUninit::<libc::iovec>::uninit() }; MAX_PARTS];
        let mut count = 0;
        let mut room = MAX_BYTES;
        let mut skip = self.sent;
        for message in &self.messages {
            if count + 2 > MAX_PARTS || room <= HEADER {
                break;
            }
            let in_header = skip.min(HEADER as u64) as usize;
            let rest = &message.header[in_header..];
            if !rest.is_empty() {
                parts[count].write(part(rest.as_ptr(), rest.len()));
                count += 1;
                room -= rest.len();
            }
            let in_payload = skip.saturating_sub(HEADER as u64);
            let left = message.len - in_payload;
            if left > 0 {
                let take = usize::try_from(left).unwrap_or(usize::MAX).min(room);
                // SAFETY: fewer than `len` bytes were sent, so the result points into the payload.
                let from = unsafe { message.payload.add(in_payload as usize) };
                parts[count].write(part(from, take));
                count += 1;
                room -= take;
            }
            skip = 0;
        }
        // SAFETY: the first `count` parts were written.
        let parts =
            unsafe { std::slice::from_raw_parts_mut(parts.as_mut_ptr().cast::<libc::iovec>(), count) };
        // SAFETY: each part is a header of the queue or a payload that is readable until its message completes.
        match unsafe { socket::send(socket, parts) } {
            Moved::Bytes(bytes) => {
                self.account(bytes as u64, channel, done);
                Ok(bytes > 0)
            }
            Moved::Blocked => Ok(false),
            Moved::Broken(errno) => Err(errno),
        }
    }

    fn account(&mut self, bytes: u64, channel: u64, done: &mut VecDeque<Completion>) {
        self.sent += bytes;
        while let Some(first) = self.messages.front() {
            let whole = HEADER as u64 + first.len;
            if self.sent < whole {
                break;
            }
            self.sent -= whole;
            if let Some(token) = first.token {
                done.push_back(completion(token, channel, first.len, Status::OK));
            }
            self.messages.pop_front();
        }
    }

    /// Completes everything that waits with `status`.
    pub(crate) fn fail(&mut self, status: Status, channel: u64, done: &mut VecDeque<Completion>) {
        self.sent = 0;
        for message in self.messages.drain(..) {
            if let Some(token) = message.token {
                done.push_back(completion(token, channel, 0, status));
            }
        }
    }
}

/// The end of a request.
pub(crate) fn completion(token: u64, channel: u64, bytes: u64, status: Status) -> Completion {
    Completion {
        token,
        channel,
        bytes,
        status,
        imm: 0,
        reserved: [0; 2],
    }
}

/// A piece of memory for a system call.
pub(crate) fn part(start: *const u8, len: usize) -> libc::iovec {
    libc::iovec {
        iov_base: start.cast_mut().cast(),
        iov_len: len,
    }
}
