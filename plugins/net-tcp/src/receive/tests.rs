//! Streams cut into pieces anywhere, receives posted at any time, and bytes that are no messages.

use super::*;
use crate::socket::send_from;
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

/// A small generator; its seed is fixed, so that a failure repeats.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

fn pair() -> (OwnedFd, OwnedFd) {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap()
}

/// A message as it is on the wire.
fn frame(imm: u32, payload: &[u8]) -> Vec<u8> {
    let header = Header {
        kind: Kind::Data,
        length: payload.len() as u64,
        imm,
    };
    [&header.encode(), payload].concat()
}

fn message(number: usize, len: usize) -> Vec<u8> {
    (0..len)
        .map(|index| (index * 7 + index / 251 + number * 31) as u8)
        .collect()
}

#[test]
fn streams_may_be_cut_anywhere() {
    let mut random = Random(77);
    for round in 0..60 {
        let (from, to) = pair();
        let most = [3, 40, 9000, 70_000][round % 4];
        let messages: Vec<Vec<u8>> = (0..30)
            .map(|number| message(number, random.below(most)))
            .collect();
        let stream: Vec<u8> = messages
            .iter()
            .enumerate()
            .flat_map(|(number, bytes)| frame(number as u32, bytes))
            .collect();
        let mut buffers: Vec<Vec<u8>> = messages.iter().map(|bytes| vec![0xee; bytes.len() + 8]).collect();
        let (mut receiver, mut done) = (Receiver::default(), VecDeque::new());
        let (mut written, mut posted) = (0, 0);
        while done.len() < messages.len() {
            // Some more of the stream, a receive perhaps, and a step or a look.
            let cut = if random.below(4) == 0 { 5 } else { 2 * most };
            let piece = stream[written..].len().min(1 + random.below(cut));
            if let Moved::Bytes(count) = send_from(&from, &stream[written..written + piece]) {
                written += count;
            }
            if posted < messages.len() && random.below(2) == 0 {
                let len = messages[posted].len() as u64;
                // SAFETY: the buffer is longer, and stays until the end of the round.
                unsafe { receiver.push(buffers[posted].as_mut_ptr(), len, posted as u64) };
                posted += 1;
            }
            if receiver.is_idle() {
                receiver.peek(to.as_fd(), 5, &mut done).unwrap();
            } else {
                receiver.step(to.as_fd(), 5, &mut done).unwrap();
            }
        }
        for (number, end) in done.iter().enumerate() {
            let right = (
                number as u64,
                5,
                Status::OK,
                messages[number].len() as u64,
                number as u32,
            );
            assert_eq!(
                (end.token, end.channel, end.status, end.bytes, end.imm),
                right,
                "round {round}"
            );
            let (inside, beyond) = buffers[number].split_at(messages[number].len());
            assert!(inside == messages[number], "message {number} of round {round}");
            assert!(
                beyond.iter().all(|byte| *byte == 0xee),
                "beyond message {number} of round {round}"
            );
        }
        // What is left is the end, of either kind.
        let goodbye = Header {
            kind: Kind::Goodbye,
            length: 0,
            imm: 0,
        }
        .encode();
        let expected = match round % 2 {
            0 => {
                assert_eq!(send_from(&from, &goodbye), Moved::Bytes(HEADER));
                End::Goodbye
            }
            _ => {
                drop(from);
                End::Eof
            }
        };
        assert_eq!(
            receiver.peek(to.as_fd(), 5, &mut done),
            Err(expected),
            "round {round}"
        );
    }
}

#[test]
fn bytes_that_are_no_messages_end_the_channel() {
    let mut random = Random(78);
    for round in 0..300 {
        let (from, to) = pair();
        let mut bytes: Vec<u8> = (0..2000).map(|_| random.below(256) as u8).collect();
        if round % 3 == 0 {
            // The first message is one, of another length than is asked for.
            bytes.splice(0..0, frame(1, &message(1, 100)));
        }
        send_from(&from, &bytes);
        let (mut receiver, mut done) = (Receiver::default(), VecDeque::new());
        let len = [16, 101, 20_000][random.below(3)];
        let mut buffer = vec![0; len + 16];
        // SAFETY: the buffer is longer, and stays until the end of the round.
        unsafe { receiver.push(buffer.as_mut_ptr(), len as u64, 9) };
        let end = loop {
            match receiver.step(to.as_fd(), 5, &mut done) {
                Ok(true) => {}
                Ok(false) => panic!("round {round}: nothing is noticed"),
                Err(end) => break end,
            }
        };
        match end {
            End::Mismatch { posted, sent: 100 } if round % 3 == 0 => {
                assert_eq!(posted, len as u64);
                assert_eq!((done[0].status, done[0].bytes), (Status::MISMATCH, 100));
            }
            End::Garbage if round % 3 != 0 => assert!(done.is_empty()),
            other => panic!("round {round}: {other:?}"),
        }
        assert!(buffer[len..].iter().all(|byte| *byte == 0));
    }
}
