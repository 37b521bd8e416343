//! The handshake in pieces, altered, repeated, and among random bytes.

use super::*;

const WORKER: [u8; IDENTITY] = *b"a worker's name!";
const PURPOSE: Purpose = Purpose {
    from: 3,
    to: 5,
    lane: 2,
    worker: WORKER,
};

fn secret(byte: u8) -> Secret {
    Secret::Key([byte; 32])
}

/// A pair of ends, with nonces that differ from any other pair's.
fn ends(connecting: &Secret, accepting: &Secret, round: u8) -> (Handshake, Handshake) {
    (
        Handshake::connecting(connecting, PURPOSE, [round; 32]),
        Handshake::accepting(accepting, WORKER, [round ^ 0xff; 32]),
    )
}

/// Carries bytes until both ends are silent, `step` at a time, through `alter`; returns what each end wrote.
fn talk(
    a: &mut Handshake,
    b: &mut Handshake,
    step: usize,
    mut alter: impl FnMut(usize, &mut [u8]),
) -> [Vec<u8>; 2] {
    let mut said = [Vec::new(), Vec::new()];
    loop {
        let mut silent = true;
        for (turn, said) in said.iter_mut().enumerate() {
            let (from, to) = if turn == 0 {
                (&mut *a, &mut *b)
            } else {
                (&mut *b, &mut *a)
            };
            let mut bytes: Vec<u8> = from.output().iter().copied().take(step).collect();
            from.wrote(bytes.len());
            silent &= bytes.is_empty();
            alter(turn, &mut bytes);
            said.extend_from_slice(&bytes);
            let mut rest = bytes.as_slice();
            while !rest.is_empty() && to.wants() > 0 {
                let count = rest.len().min(to.wants());
                to.read(&rest[..count]);
                rest = &rest[count..];
            }
        }
        if silent {
            return said;
        }
    }
}

#[test]
fn ends_with_one_secret_meet_in_pieces_of_any_size() {
    for secret in [secret(7), Secret::Nothing] {
        for step in [1, 2, 31, 33, 72, 79, 1000] {
            let (mut a, mut b) = ends(&secret, &secret, 1);
            let said = talk(&mut a, &mut b, step, |_, _| {});
            assert_eq!(
                (a.proven(), b.proven()),
                (Some(PURPOSE), Some(PURPOSE)),
                "{step} at a time"
            );
            assert_eq!((said[0].len(), said[1].len()), (HELLO + COMMIT, REPLY));
            assert_eq!(
                (a.wants(), b.wants()),
                (0, 0),
                "no byte beyond the handshake is asked for"
            );
        }
    }
}

#[test]
fn each_disagreement_has_its_reason() {
    let reason = |connecting: &Secret, accepting: &Secret, worker: [u8; IDENTITY]| {
        let purpose = Purpose { worker, ..PURPOSE };
        let mut a = Handshake::connecting(connecting, purpose, [1; 32]);
        let mut b = Handshake::accepting(accepting, WORKER, [2; 32]);
        talk(&mut a, &mut b, 1000, |_, _| {});
        assert_eq!((a.proven(), b.proven()), (None, None));
        a.refused()
    };
    assert_eq!(reason(&secret(1), &secret(2), WORKER), Some(Refusal::WrongProof));
    assert_eq!(reason(&secret(1), &Secret::Nothing, WORKER), Some(Refusal::Auth));
    assert_eq!(reason(&Secret::Nothing, &secret(1), WORKER), Some(Refusal::Auth));
    assert_eq!(
        reason(&secret(1), &secret(1), [9; IDENTITY]),
        Some(Refusal::OtherWorker)
    );

    let (mut a, mut b) = ends(&secret(1), &secret(1), 1);
    talk(&mut a, &mut b, 1000, |turn, bytes| {
        if turn == 0 && bytes.len() == HELLO {
            bytes[8] = 9;
        }
    });
    assert_eq!(
        (a.refused(), b.refused()),
        (Some(Refusal::Version(VERSION)), Some(Refusal::Version(9)))
    );
}

#[test]
fn no_altered_byte_goes_unnoticed() {
    for position in 0..HELLO + COMMIT + REPLY {
        let (mut a, mut b) = ends(&secret(1), &secret(1), 1);
        let mut seen = [0, 0];
        talk(&mut a, &mut b, 1000, |turn, bytes| {
            let start = if turn == 0 { 0 } else { HELLO + COMMIT };
            for byte in bytes {
                if start + seen[turn] == position {
                    *byte ^= 0x10;
                }
                seen[turn] += 1;
            }
        });
        assert!(a.proven().is_none() || b.proven().is_none(), "byte {position}");
        // Only the accepting end can tell that COMMIT is wrong; all else is noticed by both or stays open.
        let in_commit = (HELLO..HELLO + COMMIT).contains(&position);
        assert!(b.proven().is_none(), "byte {position}");
        assert_eq!(a.proven().is_some(), in_commit, "byte {position}");
    }
}

#[test]
fn replies_and_proofs_are_worth_nothing_a_second_time() {
    let (mut a, mut b) = ends(&secret(1), &secret(1), 1);
    let said = talk(&mut a, &mut b, 1000, |_, _| {});
    // Everything that the connecting end said, to the same worker again.
    let mut again = Handshake::accepting(&secret(1), WORKER, [77; 32]);
    let mut rest = said[0].as_slice();
    while again.wants() > 0 {
        again.wrote(REPLY);
        let count = rest.len().min(again.wants());
        again.read(&rest[..count]);
        rest = &rest[count..];
    }
    assert_eq!(again.refused(), Some(Refusal::WrongProof));
    // Everything that the accepting end said, to a later connecting end.
    let mut again = Handshake::connecting(&secret(1), PURPOSE, [78; 32]);
    again.wrote(HELLO);
    again.read(&said[1]);
    assert_eq!(again.refused(), Some(Refusal::WrongProof));
    // Its own words, to the connecting end.
    let mut mirror = Handshake::connecting(&secret(1), PURPOSE, [79; 32]);
    let own = mirror.output().to_vec();
    mirror.wrote(own.len());
    mirror.read(&[own, vec![0; REPLY]].concat());
    assert!(mirror.proven().is_none() && mirror.refused().is_some());
}

#[test]
fn random_bytes_prove_nothing() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for round in 0..20_000 {
        let accepting = round % 2 == 0;
        let mut end = match accepting {
            true => Handshake::accepting(&secret(1), WORKER, [1; 32]),
            false => Handshake::connecting(&secret(1), PURPOSE, [1; 32]),
        };
        // Half of them begin as if they knew the protocol, and some know the worker too.
        let mut bytes: Vec<u8> = (0..200).map(|_| random() as u8).collect();
        if round % 4 < 2 {
            bytes[..8].copy_from_slice(&MAGIC);
            bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
            bytes[10..12].copy_from_slice(if accepting { &[1, 0] } else { &[0, 0] });
            if round % 8 == 0 {
                bytes[24..40].copy_from_slice(&WORKER);
            }
        }
        let mut rest = bytes.as_slice();
        while end.wants() > 0 && !rest.is_empty() {
            let count = rest.len().min(end.wants()).min(1 + random() as usize % 90);
            end.read(&rest[..count]);
            rest = &rest[count..];
            end.wrote(random() as usize % 200);
        }
        end.wrote(usize::MAX - REPLY);
        assert_eq!(end.proven(), None, "round {round}");
        assert!(end.refused().is_some(), "round {round}");
    }
}
