//! SEND and RECV.

use crate::cluster::{MODES, Mode, Rank, desc, ranks, ranks_with};
use crate::memory::Guarded;
use infiniccl_plugin_api::{CollDesc, Collective, Status};

/// Bytes that differ by sender, receiver, message and index.
fn message(from: usize, to: usize, number: usize, len: usize) -> Vec<u8> {
    (0..len)
        .map(|i| (from * 31 + to * 17 + number * 7 + i * 3 + i / 256) as u8)
        .collect()
}

fn send(to: usize, buffer: &Guarded) -> CollDesc {
    let count = buffer.bytes().len() as u64;
    CollDesc {
        peer: u32::try_from(to).expect("small"),
        send: buffer.ptr(),
        count,
        ..desc(Collective::SEND)
    }
}

fn recv(from: usize, buffer: &mut Guarded) -> CollDesc {
    let count = buffer.bytes().len() as u64;
    let peer = u32::try_from(from).expect("small");
    CollDesc {
        peer,
        recv: buffer.ptr_mut(),
        count,
        ..desc(Collective::RECV)
    }
}

#[test]
fn messages_of_every_size_arrive_in_every_mode() {
    ranks(2, |rank| {
        let (me, other) = (rank.rank, 1 - rank.rank);
        for (number, len) in [
            0, 1, 2, 39, 40, 41, 63, 64, 65, 1000, 16_384, 65_535, 65_536, 65_537, 300_001,
        ]
        .into_iter()
        .enumerate()
        {
            for mode in MODES {
                let out = Guarded::with(&message(me, other, number, len));
                let mut into = Guarded::new(len);
                // Alternately one after the other, and both at once.
                if number % 2 == 0 {
                    let mut calls = [send(other, &out), recv(other, &mut into)];
                    if me == 1 {
                        calls.reverse();
                    }
                    for call in calls {
                        rank.run(mode, &[call]).expect("message");
                    }
                } else {
                    rank.run(mode, &[send(other, &out), recv(other, &mut into)])
                        .expect("exchange");
                }
                assert!(
                    into.bytes() == message(other, me, number, len),
                    "{len} bytes, {mode:?}"
                );
            }
        }
    });
}

#[test]
fn messages_keep_their_order_and_small_ones_do_not_wait_for_the_receiver() {
    let len = |number: usize| number * number * 5 % 61;
    ranks(2, |rank| {
        for number in 0..200 {
            if rank.rank == 0 {
                let out = Guarded::with(&message(0, 1, number, len(number)));
                rank.block(send(1, &out)).expect("sent");
            } else {
                let mut into = Guarded::new(len(number));
                rank.block(recv(0, &mut into)).expect("received");
                assert!(
                    into.bytes() == message(0, 1, number, len(number)),
                    "message {number}"
                );
            }
        }
        // Eight headers fit, so this is done before the receiver begins.
        if rank.rank == 0 {
            let out = Guarded::with(&[9; 8]);
            for _ in 0..8 {
                rank.block(send(1, &out)).expect("sent");
            }
        }
        rank.barrier();
        if rank.rank == 1 {
            let mut into = Guarded::new(8);
            for _ in 0..8 {
                rank.block(recv(0, &mut into)).expect("received");
            }
            assert_eq!(into.bytes(), [9; 8]);
        }
    });
}

fn everyone_to_everyone(rank: &Rank, mode: Mode, base: usize) {
    let (me, size) = (rank.rank, rank.size);
    let len = |from: usize, to: usize| base + 100 * from + to;
    let out: Vec<_> = (0..size)
        .map(|to| Guarded::with(&message(me, to, base, len(me, to))))
        .collect();
    let mut into: Vec<_> = (0..size).map(|from| Guarded::new(len(from, me))).collect();
    let mut calls: Vec<_> = out
        .iter()
        .enumerate()
        .map(|(to, buffer)| send(to, buffer))
        .collect();
    calls.extend(
        into.iter_mut()
            .enumerate()
            .map(|(from, buffer)| recv(from, buffer)),
    );
    // The order of messages with different peers does not matter.
    calls.rotate_left(me);
    rank.run(mode, &calls).expect("group");
    for (from, buffer) in into.iter().enumerate() {
        assert!(
            buffer.bytes() == message(from, me, base, len(from, me)),
            "{from} to {me}"
        );
    }
}

#[test]
fn a_group_exchanges_with_everyone_itself_included() {
    for size in [1, 2, 5] {
        ranks(size, |rank| {
            for mode in MODES {
                for base in [0, 1, 5_000, 150_000] {
                    everyone_to_everyone(rank, mode, base);
                }
            }
        });
    }
}

#[test]
fn a_small_ring_carries_large_messages() {
    ranks_with(6, &[("slot_bytes", "1")], |rank| {
        everyone_to_everyone(rank, Mode::Blocking, 400_000)
    });
}

#[test]
fn lengths_that_differ_fail_both_ends() {
    for (sent, expected) in [(8, 4), (4, 8), (0, 1), (100_000, 99_999)] {
        let outcomes = ranks(2, |rank| {
            let out = Guarded::with(&message(0, 1, 0, sent));
            let mut into = Guarded::new(expected);
            let outcome = match rank.rank {
                0 => rank.block(send(1, &out)),
                _ => rank.block(recv(0, &mut into)),
            };
            assert!(into.bytes().iter().all(|byte| *byte == crate::memory::POISON));
            // A small message may have left before; then the next call tells.
            outcome.and_then(|()| rank.block(desc(Collective::BARRIER)))
        });
        for outcome in outcomes {
            let refusal = outcome.expect_err("lengths differ");
            assert_eq!(refusal.status, Status::MISMATCH, "{}", refusal.text);
            assert!(refusal.text.contains("rank 0"), "{}", refusal.text);
        }
    }
}
