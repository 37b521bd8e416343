//! The handshake of every control connection as a pure state machine: both sides prove the key before they are believed.
//!
//! ```text
//! initiator                                   responder
//!   hello (magic, version, purpose, nonce)  →
//!                                           ←   hello (magic, version, nonce)
//!   claim (rank, size, target) + proof      →
//!                                           ←   verdict (code, text) + proof
//! ```
//! A proof is a keyed hash over everything both sides said, so nothing can be replayed: each side's nonce is fresh. The
//! side that listens says nothing keyed before the other side has proven itself; a scanner gets no material to guess on.
//! The first eight bytes of a hello (magic, major, minor) keep their place in all versions.

use std::fmt;

use super::frame::Framing;
use super::keys::{KEY_BYTES, Key};
use super::wire::{Malformed, Reader, Writer};

/// First bytes of every control connection.
pub(crate) const MAGIC: [u8; 4] = *b"ICCL";
/// Connections between different majors are refused.
pub(crate) const WIRE_MAJOR: u16 = 1;
/// Told to the peer, and never a reason to refuse.
pub(crate) const WIRE_MINOR: u16 = 0;

const HELLO_BYTES: usize = 48;
const CLAIM_BYTES: usize = 12 + KEY_BYTES;
const VERDICT_HEAD: usize = 3;
const MAX_TEXT: usize = 1024;

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A rank arrives at the root.
    Arrive,
    /// A child of the control tree connects to its parent.
    Link,
    /// A process looks whether this is the root it searches, then closes.
    Probe,
}

impl Purpose {
    fn code(self) -> u8 {
        match self {
            Purpose::Arrive => 1,
            Purpose::Link => 2,
            Purpose::Probe => 3,
        }
    }

    fn from_code(code: u8) -> Result<Self, Malformed> {
        match code {
            1 => Ok(Purpose::Arrive),
            2 => Ok(Purpose::Link),
            3 => Ok(Purpose::Probe),
            _ => Err(Malformed("a connection for an unknown purpose")),
        }
    }
}

/// Who the initiator says it is; believed only after its proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Claim {
    /// The rank of the initiator.
    pub(crate) rank: u32,
    /// The number of ranks it expects.
    pub(crate) size: u32,
    /// The rank it wants to speak to, so that an address that leads elsewhere is noticed.
    pub(crate) target: u32,
}

/// What the responder answers to a proven claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The connection is taken.
    Accepted,
    /// The claim was proven and is refused for this reason.
    Refused(String),
}

/// Why a handshake failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HandshakeError {
    /// The peer does not speak this protocol.
    Stranger,
    /// The peer speaks another major version (its major and minor).
    Version(u16, u16),
    /// The peer does not hold the same key.
    Key,
    /// The peer proved the key and refused the claim; its reason.
    Refused(String),
    /// The peer proved the key, then sent what does not decode.
    Malformed(Malformed),
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HandshakeError::Stranger => f.write_str("what answers there is not InfiniCCL"),
            HandshakeError::Version(major, minor) => write!(
                f,
                "the peer speaks control protocol {major}.{minor}, this process {WIRE_MAJOR}.{WIRE_MINOR}: install one \
                 version of InfiniCCL on all nodes"
            ),
            HandshakeError::Key => f.write_str(
                "the peer does not hold this job's key: it belongs to another job, or INFINICCL_SECRET differs between \
                 the ranks",
            ),
            HandshakeError::Refused(reason) => write!(f, "refused: {reason}"),
            HandshakeError::Malformed(what) => write!(f, "{what}"),
        }
    }
}

impl std::error::Error for HandshakeError {}

fn hello(purpose: u8, nonce: &[u8; KEY_BYTES]) -> [u8; HELLO_BYTES] {
    let mut w = Writer::new();
    w.raw(&MAGIC)
        .u16(WIRE_MAJOR)
        .u16(WIRE_MINOR)
        .u8(purpose)
        .raw(&[0; 7])
        .raw(nonce);
    w.finish().try_into().expect("a hello has 48 bytes")
}

/// Checks magic and version as soon as their bytes are there, so that strangers are turned away early.
fn check_start(bytes: &[u8]) -> Result<(), HandshakeError> {
    let seen = bytes.len().min(MAGIC.len());
    if bytes[..seen] != MAGIC[..seen] {
        return Err(HandshakeError::Stranger);
    }
    if let Some(version) = bytes.get(4..8) {
        let major = u16::from_le_bytes([version[0], version[1]]);
        if major != WIRE_MAJOR {
            return Err(HandshakeError::Version(
                major,
                u16::from_le_bytes([version[2], version[3]]),
            ));
        }
    }
    Ok(())
}

/// Everything that was said before the verdict, and the key it is proven with.
struct Transcript {
    key: Key,
    initiator_hello: [u8; HELLO_BYTES],
    responder_hello: [u8; HELLO_BYTES],
}

impl Transcript {
    fn claim_proof(&self, claim: &[u8]) -> [u8; KEY_BYTES] {
        self.key
            .mac(&[b"initiator", &self.initiator_hello, &self.responder_hello, claim])
    }

    fn verdict_proof(&self, claim: &[u8], verdict: &[u8]) -> [u8; KEY_BYTES] {
        self.key.mac(&[
            b"responder",
            &self.initiator_hello,
            &self.responder_hello,
            claim,
            verdict,
        ])
    }

    fn framing(&self, claim: &[u8], initiator: bool) -> Framing {
        let derive = |purpose: &'static str| {
            self.key
                .derive(purpose, &[&self.initiator_hello, &self.responder_hello, claim])
        };
        let forth = derive("infiniccl control frames, initiator to responder");
        let back = derive("infiniccl control frames, responder to initiator");
        if initiator {
            Framing::new(forth, back)
        } else {
            Framing::new(back, forth)
        }
    }
}

fn encode_claim(claim: &Claim) -> Vec<u8> {
    let mut w = Writer::new();
    w.u32(claim.rank).u32(claim.size).u32(claim.target);
    w.finish()
}

/// The side that connects.
pub(crate) struct Initiator {
    transcript: Transcript,
    claim: Vec<u8>,
    received: Vec<u8>,
    hello_seen: bool,
}

/// What the initiator is to do next.
pub(crate) enum Reply {
    /// Read more bytes.
    Wait,
    /// Send these bytes, then read on.
    Send(Vec<u8>),
    /// The peer is proven and took the claim.
    Done(Framing),
}

impl Initiator {
    /// Starts a handshake with a fresh `nonce`; the bytes are to be sent first.
    pub(crate) fn start(key: Key, purpose: Purpose, claim: Claim, nonce: [u8; KEY_BYTES]) -> (Self, Vec<u8>) {
        let initiator_hello = hello(purpose.code(), &nonce);
        let transcript = Transcript {
            key,
            initiator_hello,
            responder_hello: [0; HELLO_BYTES],
        };
        let machine = Initiator {
            transcript,
            claim: encode_claim(&claim),
            received: Vec::new(),
            hello_seen: false,
        };
        (machine, initiator_hello.to_vec())
    }

    /// How many bytes may be read now; more would belong to what follows the handshake.
    pub(crate) fn wants(&self) -> usize {
        let target = if !self.hello_seen {
            HELLO_BYTES
        } else if let Some(len) = self.received.get(1..VERDICT_HEAD) {
            VERDICT_HEAD + usize::from(u16::from_le_bytes([len[0], len[1]])).min(MAX_TEXT) + KEY_BYTES
        } else {
            VERDICT_HEAD
        };
        target.saturating_sub(self.received.len())
    }

    /// Takes bytes from the peer, at most [`Initiator::wants`] of them.
    pub(crate) fn receive(&mut self, bytes: &[u8]) -> Result<Reply, HandshakeError> {
        self.received.extend_from_slice(bytes);
        if !self.hello_seen {
            check_start(&self.received)?;
            let Ok(hello) = <[u8; HELLO_BYTES]>::try_from(&self.received[..]) else {
                return Ok(Reply::Wait);
            };
            self.received.clear();
            self.hello_seen = true;
            self.transcript.responder_hello = hello;
            let mut answer = self.claim.clone();
            answer.extend_from_slice(&self.transcript.claim_proof(&self.claim));
            return Ok(Reply::Send(answer));
        }
        if self.received.len() < VERDICT_HEAD || self.wants() > 0 {
            return Ok(Reply::Wait);
        }
        let (said, proof) = self.received.split_at(self.received.len() - KEY_BYTES);
        let expected = self.transcript.verdict_proof(&self.claim, said);
        if !super::keys::same_bytes(&expected, proof) {
            return Err(HandshakeError::Key);
        }
        match said[0] {
            0 => Ok(Reply::Done(self.transcript.framing(&self.claim, true))),
            _ => Err(HandshakeError::Refused(
                String::from_utf8_lossy(&said[VERDICT_HEAD..]).into_owned(),
            )),
        }
    }
}

/// The side that listens.
pub(crate) struct Responder {
    transcript: Transcript,
    purpose: Option<Purpose>,
    claim: Vec<u8>,
    received: Vec<u8>,
}

/// What the responder is to do next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Read more bytes.
    Wait,
    /// Send these bytes, then read on.
    Send(Vec<u8>),
    /// The peer proved the key and claims this: answer with [`Responder::answer`].
    Claimed(Purpose, Claim),
}

impl Responder {
    /// Waits for a hello; `nonce` is fresh.
    pub(crate) fn new(key: Key, nonce: [u8; KEY_BYTES]) -> Self {
        let transcript = Transcript {
            key,
            initiator_hello: [0; HELLO_BYTES],
            responder_hello: hello(0, &nonce),
        };
        Responder {
            transcript,
            purpose: None,
            claim: Vec::new(),
            received: Vec::new(),
        }
    }

    /// How many bytes may be read now: an unproven peer never makes this side hold more.
    pub(crate) fn wants(&self) -> usize {
        let target = if self.purpose.is_none() {
            HELLO_BYTES
        } else {
            CLAIM_BYTES
        };
        target.saturating_sub(self.received.len())
    }

    /// Takes bytes from the peer, at most [`Responder::wants`] of them.
    pub(crate) fn receive(&mut self, bytes: &[u8]) -> Result<Request, HandshakeError> {
        self.received.extend_from_slice(bytes);
        let Some(purpose) = self.purpose else {
            check_start(&self.received)?;
            let Ok(hello) = <[u8; HELLO_BYTES]>::try_from(&self.received[..]) else {
                return Ok(Request::Wait);
            };
            self.purpose = Some(Purpose::from_code(hello[8]).map_err(|_| HandshakeError::Stranger)?);
            self.received.clear();
            self.transcript.initiator_hello = hello;
            return Ok(Request::Send(self.transcript.responder_hello.to_vec()));
        };
        if self.received.len() < CLAIM_BYTES {
            return Ok(Request::Wait);
        }
        let (claim, proof) = self.received.split_at(CLAIM_BYTES - KEY_BYTES);
        if !super::keys::same_bytes(&self.transcript.claim_proof(claim), proof) {
            return Err(HandshakeError::Key);
        }
        self.claim = claim.to_vec();
        let mut r = Reader::new(claim);
        let mut next = || r.u32().map_err(HandshakeError::Malformed);
        Ok(Request::Claimed(
            purpose,
            Claim {
                rank: next()?,
                size: next()?,
                target: next()?,
            },
        ))
    }

    /// The bytes that carry `verdict`, and the framing of what follows when the claim is accepted.
    pub(crate) fn answer(&self, verdict: &Verdict) -> (Vec<u8>, Option<Framing>) {
        let (code, text) = match verdict {
            Verdict::Accepted => (0, ""),
            Verdict::Refused(reason) => (1, reason.as_str()),
        };
        let mut end = text.len().min(MAX_TEXT);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let mut w = Writer::new();
        let len = u16::try_from(end).expect("the text was cut to its limit");
        w.u8(code).u16(len).raw(&text.as_bytes()[..end]);
        let mut bytes = w.finish();
        let proof = self.transcript.verdict_proof(&self.claim, &bytes);
        bytes.extend_from_slice(&proof);
        let framing = (code == 0).then(|| self.transcript.framing(&self.claim, false));
        (bytes, framing)
    }

    /// What to send to a peer whose handshake failed, so that an honest one learns why.
    pub(crate) fn farewell(&self, error: &HandshakeError) -> Option<Vec<u8>> {
        match error {
            // The hello shows this side's version.
            HandshakeError::Version(..) => Some(self.transcript.responder_hello.to_vec()),
            // A verdict without a valid proof: the peer finds that the keys differ.
            HandshakeError::Key => Some([&[1u8, 0, 0][..], &[0; KEY_BYTES]].concat()),
            _ => None,
        }
    }
}

#[cfg(test)]
#[path = "handshake_tests.rs"]
mod tests;
