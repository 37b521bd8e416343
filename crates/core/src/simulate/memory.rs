//! The memory of a simulated rank.

use crate::schedule::{Base, InPlace, Loc};

/// What fills scratch memory at first.
const POISON: u8 = 0xDB;

/// Input, output and scratch of one rank.
#[derive(Debug, Clone)]
pub(crate) struct Memory {
    /// The input, or the one buffer that holds input and output.
    send: Vec<u8>,
    recv: Vec<u8>,
    in_place: Option<InPlace>,
    scratch: Vec<u8>,
}

impl Memory {
    /// Input and output apart.
    pub(crate) fn apart(send: Vec<u8>, recv: Vec<u8>) -> Self {
        Memory {
            send,
            recv,
            in_place: None,
            scratch: Vec::new(),
        }
    }

    /// Input and output in one buffer.
    pub(crate) fn shared(buffer: Vec<u8>, in_place: InPlace) -> Self {
        Memory {
            send: buffer,
            recv: Vec::new(),
            in_place: Some(in_place),
            scratch: Vec::new(),
        }
    }

    /// The buffer of the input, shared or not.
    pub(crate) fn input(&self) -> &[u8] {
        &self.send
    }

    /// The buffer of the output, shared or not.
    pub(crate) fn output(&self) -> &[u8] {
        if self.in_place.is_some() {
            &self.send
        } else {
            &self.recv
        }
    }

    pub(super) fn reserve_scratch(&mut self, bytes: u64) {
        self.scratch = vec![POISON; usize::try_from(bytes).expect("simulated memory is small")];
    }

    pub(super) fn read(&self, at: Loc, bytes: u64) -> Result<&[u8], String> {
        let (buffer, start) = match (at.base, self.in_place) {
            (Base::Send, Some(shared)) => (&self.send, shared.send_offset + at.offset),
            (Base::Recv, Some(shared)) => (&self.send, shared.recv_offset + at.offset),
            (Base::Send, None) => (&self.send, at.offset),
            (Base::Recv, None) => (&self.recv, at.offset),
            (Base::Scratch, _) => (&self.scratch, at.offset),
        };
        let range = start as usize..(start + bytes) as usize;
        buffer.get(range).ok_or_else(|| outside(at, bytes, buffer.len()))
    }

    pub(super) fn write(&mut self, at: Loc, bytes: u64) -> Result<&mut [u8], String> {
        let (buffer, start) = match (at.base, self.in_place) {
            (Base::Recv, Some(shared)) => (&mut self.send, shared.recv_offset + at.offset),
            (Base::Send, _) => {
                return Err(format!("writes the input, {bytes} bytes at {}", at.offset));
            }
            (Base::Recv, None) => (&mut self.recv, at.offset),
            (Base::Scratch, _) => (&mut self.scratch, at.offset),
        };
        let (range, len) = (start as usize..(start + bytes) as usize, buffer.len());
        buffer.get_mut(range).ok_or_else(|| outside(at, bytes, len))
    }

    /// Whether two ranges of `bytes` bytes share some bytes but do not start at the same one.
    pub(super) fn partly_overlap(&self, a: (Loc, u64), b: (Loc, u64)) -> bool {
        let place = |l: Loc| match (l.base, self.in_place) {
            (Base::Send, Some(shared)) => (Base::Send, l.offset + shared.send_offset),
            (Base::Recv, Some(shared)) => (Base::Send, l.offset + shared.recv_offset),
            (base, _) => (base, l.offset),
        };
        let ((base_a, start_a), (base_b, start_b)) = (place(a.0), place(b.0));
        base_a == base_b && start_a != start_b && start_a < start_b + b.1 && start_b < start_a + a.1
    }
}

fn outside(at: Loc, bytes: u64, len: usize) -> String {
    format!(
        "{bytes} bytes at {}+{} are outside of a buffer of {len}",
        name(at.base),
        at.offset
    )
}

fn name(base: Base) -> &'static str {
    match base {
        Base::Send => "input",
        Base::Recv => "output",
        Base::Scratch => "scratch",
    }
}
