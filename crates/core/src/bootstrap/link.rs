//! One proven connection: a non-blocking socket, its framing and its buffers.

use std::io::{self, ErrorKind as IoKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use super::frame::{FrameError, Framing};

const READ_CHUNK: usize = 64 << 10;
/// One call of [`Link::fill`] reads no more than this, so that one busy peer cannot starve the others.
const FILL_BUDGET: usize = 1 << 20;

/// What reading found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fill {
    /// The connection is open.
    Open,
    /// The peer closed it.
    Closed,
}

/// A control connection after its handshake. Nothing here blocks.
pub(crate) struct Link {
    stream: TcpStream,
    framing: Framing,
    out: Vec<u8>,
    written: usize,
    /// When bytes last arrived.
    pub(crate) heard: Instant,
    /// When a frame was last queued.
    pub(crate) spoke: Instant,
}

impl Link {
    /// A link over `stream`, which must be non-blocking.
    pub(crate) fn new(stream: TcpStream, framing: Framing, now: Instant) -> Self {
        Link {
            stream,
            framing,
            out: Vec::new(),
            written: 0,
            heard: now,
            spoke: now,
        }
    }

    /// The socket, for epoll and poll.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// The socket.
    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Queues a frame; [`Link::flush`] sends it.
    pub(crate) fn queue(&mut self, payload: &[u8], now: Instant) {
        self.framing.seal(payload, &mut self.out);
        self.spoke = now;
    }

    /// Whether queued bytes wait for the socket.
    pub(crate) fn pending(&self) -> bool {
        self.written < self.out.len()
    }

    /// Writes as much as the socket takes.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        while self.pending() {
            match self.stream.write(&self.out[self.written..]) {
                Ok(0) => return Err(IoKind::WriteZero.into()),
                Ok(n) => self.written += n,
                Err(e) if e.kind() == IoKind::Interrupted => {}
                Err(e) if e.kind() == IoKind::WouldBlock => return Ok(()),
                Err(e) => return Err(e),
            }
        }
        self.out.clear();
        self.written = 0;
        // A burst of large records must not keep its memory for the life of the communicator.
        self.out.shrink_to(READ_CHUNK);
        Ok(())
    }

    /// Reads what has arrived.
    pub(crate) fn fill(&mut self, now: Instant) -> io::Result<Fill> {
        let mut chunk = [0u8; READ_CHUNK];
        let mut total = 0;
        while total < FILL_BUDGET {
            match self.stream.read(&mut chunk) {
                Ok(0) => return Ok(Fill::Closed),
                Ok(n) => {
                    self.framing.push(&chunk[..n]);
                    self.heard = now;
                    total += n;
                    if n < chunk.len() {
                        break;
                    }
                }
                Err(e) if e.kind() == IoKind::Interrupted => {}
                Err(e) if e.kind() == IoKind::WouldBlock => break,
                Err(e) => return Err(e),
            }
        }
        Ok(Fill::Open)
    }

    /// The next whole frame that was read.
    pub(crate) fn next(&mut self) -> Result<Option<Vec<u8>>, FrameError> {
        self.framing.next()
    }
}
