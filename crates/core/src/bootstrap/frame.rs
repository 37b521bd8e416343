//! Frames on a proven connection: a length, the payload, and a code that binds key, direction and position.

use super::keys::Key;

/// Largest payload of one frame: a record of the greatest size with its envelope, and a batch beside it.
pub(crate) const MAX_PAYLOAD: usize = 2 << 20;
const HEAD: usize = 4;
const TAG: usize = 16;

/// Why bytes on a proven connection are no frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrameError {
    /// A length above [`MAX_PAYLOAD`].
    TooLong,
    /// The code does not match: the bytes were altered, injected, repeated or reordered.
    Forged,
}

impl std::fmt::Display for FrameError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            FrameError::TooLong => "a control frame is longer than its limit",
            FrameError::Forged => {
                "a control frame does not carry the right code (altered or injected on its way)"
            }
        })
    }
}

/// The keys and counters of both directions of one connection.
pub(crate) struct Framing {
    send: Key,
    sent: u64,
    receive: Key,
    received: u64,
    input: Vec<u8>,
    start: usize,
}

impl Framing {
    /// A framing that authenticates its frames with `send` and checks the peer's with `receive`.
    pub(crate) fn new(send: Key, receive: Key) -> Self {
        Framing {
            send,
            sent: 0,
            receive,
            received: 0,
            input: Vec::new(),
            start: 0,
        }
    }

    /// Appends the frame of `payload`, which is at most [`MAX_PAYLOAD`] long, to `out`.
    pub(crate) fn seal(&mut self, payload: &[u8], out: &mut Vec<u8>) {
        debug_assert!(payload.len() <= MAX_PAYLOAD);
        let len = u32::try_from(payload.len())
            .expect("a payload is at most 2 MiB")
            .to_le_bytes();
        let tag = self.send.mac(&[&self.sent.to_le_bytes(), payload]);
        self.sent += 1;
        out.reserve(HEAD + payload.len() + TAG);
        out.extend_from_slice(&len);
        out.extend_from_slice(payload);
        out.extend_from_slice(&tag[..TAG]);
    }

    /// Takes bytes that arrived.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if self.start == self.input.len() {
            self.input.clear();
            self.start = 0;
        }
        self.input.extend_from_slice(bytes);
    }

    /// The next whole frame's payload.
    pub(crate) fn next(&mut self) -> Result<Option<Vec<u8>>, FrameError> {
        let rest = &self.input[self.start..];
        let Some(head) = rest.first_chunk::<HEAD>() else {
            return Ok(None);
        };
        let len = usize::try_from(u32::from_le_bytes(*head)).map_err(|_| FrameError::TooLong)?;
        if len > MAX_PAYLOAD {
            return Err(FrameError::TooLong);
        }
        let Some(frame) = rest.get(HEAD..HEAD + len + TAG) else {
            // Only what arrived is held; what was consumed is dropped before the buffer grows further.
            self.input.drain(..self.start);
            self.start = 0;
            return Ok(None);
        };
        let (payload, tag) = frame.split_at(len);
        if !self.receive.verify(&[&self.received.to_le_bytes(), payload], tag) {
            return Err(FrameError::Forged);
        }
        let payload = payload.to_vec();
        self.received += 1;
        self.start += HEAD + len + TAG;
        Ok(Some(payload))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Framing, Framing) {
        let (a, b) = (Key::from_bytes([1; 32]), Key::from_bytes([2; 32]));
        (Framing::new(a.clone(), b.clone()), Framing::new(b, a))
    }

    #[test]
    fn frames_come_back_in_order_from_bytes_in_any_pieces() {
        let (mut sender, mut receiver) = pair();
        let payloads: Vec<Vec<u8>> = (0..20u8).map(|i| (0..i * 7).map(|j| i ^ j).collect()).collect();
        let mut wire = Vec::new();
        payloads.iter().for_each(|p| sender.seal(p, &mut wire));
        let mut seen = Vec::new();
        for piece in wire.chunks(3) {
            receiver.push(piece);
            while let Some(payload) = receiver.next().unwrap() {
                seen.push(payload);
            }
        }
        assert_eq!(seen, payloads);
    }

    #[test]
    fn altered_repeated_and_overlong_frames_are_refused() {
        let (mut sender, mut receiver) = pair();
        let mut wire = Vec::new();
        sender.seal(b"hello", &mut wire);
        receiver.push(&wire);
        assert_eq!(receiver.next(), Ok(Some(b"hello".to_vec())));
        receiver.push(&wire);
        assert_eq!(receiver.next(), Err(FrameError::Forged), "a replay");

        let (mut sender, mut receiver) = pair();
        let mut wire = Vec::new();
        sender.seal(b"hello", &mut wire);
        wire[5] ^= 1;
        receiver.push(&wire);
        assert_eq!(receiver.next(), Err(FrameError::Forged));

        let (_, mut receiver) = pair();
        receiver.push(&u32::MAX.to_le_bytes());
        assert_eq!(receiver.next(), Err(FrameError::TooLong));
    }

    #[test]
    fn a_frame_sent_back_to_its_sender_is_refused() {
        let (mut a, _) = pair();
        let mut wire = Vec::new();
        a.seal(b"mine", &mut wire);
        a.push(&wire);
        assert_eq!(a.next(), Err(FrameError::Forged));
    }
}
