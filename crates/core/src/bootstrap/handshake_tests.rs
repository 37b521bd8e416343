//! The handshake without sockets: agreement, wrong keys, versions, strangers, replays and random bytes.

use super::*;

const CLAIM: Claim = Claim {
    rank: 3,
    size: 8,
    target: 0,
};

fn key(byte: u8) -> Key {
    Key::from_bytes([byte; 32])
}

/// Feeds `bytes` to the responder in pieces of at most `piece`, never more than it wants.
fn feed(responder: &mut Responder, mut bytes: &[u8], piece: usize) -> Result<Request, HandshakeError> {
    let mut last = Request::Wait;
    while !bytes.is_empty() {
        let n = responder.wants().min(piece).min(bytes.len());
        if n == 0 {
            break;
        }
        last = responder.receive(&bytes[..n])?;
        bytes = &bytes[n..];
    }
    Ok(last)
}

fn reply(initiator: &mut Initiator, mut bytes: &[u8], piece: usize) -> Result<Reply, HandshakeError> {
    let mut last = Reply::Wait;
    while !bytes.is_empty() {
        let n = initiator.wants().min(piece).min(bytes.len());
        assert!(n > 0, "the initiator stopped reading too early");
        last = initiator.receive(&bytes[..n])?;
        bytes = &bytes[n..];
    }
    Ok(last)
}

fn sent(reply: Reply) -> Vec<u8> {
    match reply {
        Reply::Send(bytes) => bytes,
        _ => panic!("the initiator had nothing to send"),
    }
}

fn answered(request: Request) -> Vec<u8> {
    match request {
        Request::Send(bytes) => bytes,
        other => panic!("the responder had nothing to send: {other:?}"),
    }
}

#[test]
fn both_sides_agree_whatever_the_pieces() {
    for piece in [1, 2, 7, 48, 1000] {
        let (mut i, hello) = Initiator::start(key(1), Purpose::Link, CLAIM, [5; 32]);
        let mut r = Responder::new(key(1), [6; 32]);
        let answer = answered(feed(&mut r, &hello, piece).unwrap());
        let claim = sent(reply(&mut i, &answer, piece).unwrap());
        assert_eq!(
            feed(&mut r, &claim, piece),
            Ok(Request::Claimed(Purpose::Link, CLAIM))
        );
        let (verdict, framing) = r.answer(&Verdict::Accepted);
        let Ok(Reply::Done(mut left)) = reply(&mut i, &verdict, piece) else {
            panic!("not done")
        };
        let mut right = framing.unwrap();
        let mut wire = Vec::new();
        left.seal(b"ping", &mut wire);
        right.push(&wire);
        assert_eq!(right.next(), Ok(Some(b"ping".to_vec())));
        wire.clear();
        right.seal(b"pong", &mut wire);
        left.push(&wire);
        assert_eq!(left.next(), Ok(Some(b"pong".to_vec())));
    }
}

#[test]
fn a_refusal_is_proven_and_carries_its_reason() {
    let (mut i, hello) = Initiator::start(key(1), Purpose::Arrive, CLAIM, [5; 32]);
    let mut r = Responder::new(key(1), [6; 32]);
    let answer = answered(feed(&mut r, &hello, 100).unwrap());
    let claim = sent(reply(&mut i, &answer, 100).unwrap());
    feed(&mut r, &claim, 100).unwrap();
    let (verdict, framing) = r.answer(&Verdict::Refused("rank 3 is taken – twice".repeat(90)));
    assert!(framing.is_none());
    let Err(HandshakeError::Refused(reason)) = reply(&mut i, &verdict, 9).map(|_| ()) else {
        panic!()
    };
    assert!(reason.starts_with("rank 3 is taken") && reason.len() <= 1024);
    // The same refusal with one altered byte proves nothing.
    let (mut i, hello) = Initiator::start(key(1), Purpose::Arrive, CLAIM, [5; 32]);
    let mut r = Responder::new(key(1), [6; 32]);
    let answer = answered(feed(&mut r, &hello, 100).unwrap());
    let claim = sent(reply(&mut i, &answer, 100).unwrap());
    feed(&mut r, &claim, 100).unwrap();
    let (mut verdict, _) = r.answer(&Verdict::Refused("no".into()));
    verdict[3] ^= 1;
    assert_eq!(reply(&mut i, &verdict, 100).err(), Some(HandshakeError::Key));
}

#[test]
fn wrong_keys_fail_on_both_sides() {
    let (mut i, hello) = Initiator::start(key(1), Purpose::Arrive, CLAIM, [5; 32]);
    let mut r = Responder::new(key(2), [6; 32]);
    let answer = answered(feed(&mut r, &hello, 100).unwrap());
    let claim = sent(reply(&mut i, &answer, 100).unwrap());
    let error = feed(&mut r, &claim, 100).unwrap_err();
    assert_eq!(error, HandshakeError::Key);
    let farewell = r.farewell(&error).unwrap();
    assert_eq!(reply(&mut i, &farewell, 100).err(), Some(HandshakeError::Key));
}

#[test]
fn another_major_version_is_named_on_both_sides() {
    let (mut i, mut hello) = Initiator::start(key(1), Purpose::Arrive, CLAIM, [5; 32]);
    hello[4] = 9;
    hello[6] = 4;
    let mut r = Responder::new(key(1), [6; 32]);
    let error = feed(&mut r, &hello, 100).unwrap_err();
    assert_eq!(error, HandshakeError::Version(9, 4));
    let mut farewell = r.farewell(&error).unwrap();
    farewell[4] = 8;
    assert_eq!(
        reply(&mut i, &farewell, 100).err(),
        Some(HandshakeError::Version(8, 0))
    );
    assert!(error.to_string().contains("9.4") && error.to_string().contains("1.0"));
}

#[test]
fn strangers_are_turned_away_at_their_first_wrong_byte() {
    for bytes in [&b"GET / HTTP/1.1\r\n"[..], b"\x16\x03\x01", b"ICCX", b"I\0"] {
        let mut r = Responder::new(key(1), [6; 32]);
        assert_eq!(feed(&mut r, bytes, 1), Err(HandshakeError::Stranger), "{bytes:?}");
        assert!(
            r.farewell(&HandshakeError::Stranger).is_none(),
            "a stranger gets no answer"
        );
    }
    let (_, mut hello) = Initiator::start(key(1), Purpose::Arrive, CLAIM, [5; 32]);
    hello[8] = 77;
    let mut r = Responder::new(key(1), [6; 32]);
    assert_eq!(feed(&mut r, &hello, 100), Err(HandshakeError::Stranger));
}

#[test]
fn a_recorded_handshake_cannot_be_replayed() {
    let (mut i, hello) = Initiator::start(key(1), Purpose::Arrive, CLAIM, [5; 32]);
    let mut first = Responder::new(key(1), [6; 32]);
    let answer = answered(feed(&mut first, &hello, 100).unwrap());
    let claim = sent(reply(&mut i, &answer, 100).unwrap());
    assert!(feed(&mut first, &claim, 100).is_ok());
    let mut second = Responder::new(key(1), [7; 32]);
    feed(&mut second, &hello, 100).unwrap();
    assert_eq!(feed(&mut second, &claim, 100), Err(HandshakeError::Key));
}

#[test]
fn each_altered_byte_of_a_claim_is_refused() {
    for at in 0..CLAIM_BYTES {
        let (mut i, hello) = Initiator::start(key(1), Purpose::Arrive, CLAIM, [5; 32]);
        let mut r = Responder::new(key(1), [6; 32]);
        let answer = answered(feed(&mut r, &hello, 100).unwrap());
        let mut claim = sent(reply(&mut i, &answer, 100).unwrap());
        claim[at] ^= 0x40;
        assert_eq!(feed(&mut r, &claim, 100), Err(HandshakeError::Key), "byte {at}");
    }
}

#[test]
fn random_bytes_never_pass_and_never_panic() {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for round in 0..4000 {
        let mut bytes: Vec<u8> = (0..next() % 300).map(|_| (next() >> 32) as u8).collect();
        // Half of the rounds begin rightly, so that the later states are reached.
        if round % 2 == 0 {
            let (_, hello) = Initiator::start(key(1), Purpose::Arrive, CLAIM, [5; 32]);
            let keep = (next() % 49) as usize;
            bytes.splice(..0, hello[..keep].iter().copied());
        }
        let piece = 1 + (next() % 60) as usize;
        let mut r = Responder::new(key(1), [6; 32]);
        assert!(
            !matches!(feed(&mut r, &bytes, piece), Ok(Request::Claimed(..))),
            "round {round}"
        );
        let (mut i, _) = Initiator::start(key(1), Purpose::Arrive, CLAIM, [5; 32]);
        let mut rest = &bytes[..];
        while !rest.is_empty() && i.wants() > 0 {
            let n = i.wants().min(piece).min(rest.len());
            match i.receive(&rest[..n]) {
                Ok(Reply::Done(_)) => panic!("random bytes were believed in round {round}"),
                Ok(_) => rest = &rest[n..],
                Err(_) => break,
            }
        }
    }
}
