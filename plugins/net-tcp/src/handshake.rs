//! How the two ends of a new connection prove themselves to each other; a state machine without sockets.
//!
//! ```text
//! connecting end                                   accepting end
//!   HELLO   who is asked, who asks, nonce     →
//!                                             ←    REPLY   verdict, nonce, proof over HELLO and both nonces
//!   COMMIT  proof over HELLO and REPLY        →
//! ```
//! A proof is a BLAKE3 hash keyed with the job's secret over a label of its sender's role and everything said so
//! far: it is of no use on another connection, in the other direction, or for other ranks. The worker's identity
//! in HELLO keeps apart workers that can be reached under the same address on different hosts. All three messages
//! have fixed sizes and a machine asks for no byte beyond them, so that a stranger costs a few dozen bytes.

use crate::address::IDENTITY;
use crate::options::Secret;
use std::fmt;

/// Version of the three messages and of the frames that follow them.
const VERSION: u16 = 1;
const MAGIC: [u8; 8] = *b"ICCL-TCP";
const HELLO: usize = 72;
const REPLY: usize = 80;
const COMMIT: usize = 32;
/// Bytes of REPLY before its proof.
const REPLY_PROVEN: usize = 48;
/// Bytes at the start of HELLO and of REPLY whose meaning no version changes.
const STABLE: usize = 12;

/// A fresh random number.
pub(crate) type Nonce = [u8; 32];

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Purpose {
    /// Rank of the connecting end.
    pub(crate) from: u32,
    /// Rank of the accepting end.
    pub(crate) to: u32,
    pub(crate) lane: u32,
    /// The worker that is asked for.
    pub(crate) worker: [u8; IDENTITY],
}

/// Why a handshake failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The other end is something else altogether.
    NotOurs,
    /// The other end speaks this version.
    Version(u16),
    /// One end asks for proofs and the other runs without.
    Auth,
    /// Another worker answers under this address.
    OtherWorker,
    /// The other end does not know the job's secret.
    WrongProof,
    /// The other end gave a reason that this version does not know.
    Unknown(u16),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NotOurs => f.write_str("what answers there is not net-tcp of InfiniCCL"),
            Refusal::Version(theirs) => {
                write!(
                    f,
                    "it speaks version {theirs} of the protocol, this end version {VERSION}"
                )
            }
            Refusal::Auth => f.write_str("one end runs with auth = \"none\" and the other with a secret"),
            Refusal::OtherWorker => f.write_str("another worker of this or another job answers there"),
            Refusal::WrongProof => f.write_str("it does not know this job's secret"),
            Refusal::Unknown(code) => write!(f, "it refused with the unknown code {code}"),
        }
    }
}

impl Refusal {
    fn code(self) -> u16 {
        match self {
            Refusal::NotOurs => 1,
            Refusal::Version(_) => 2,
            Refusal::Auth => 3,
            Refusal::OtherWorker => 4,
            Refusal::WrongProof => 5,
            Refusal::Unknown(code) => code,
        }
    }

    fn from_code(code: u16, version: u16) -> Self {
        match code {
            1 => Refusal::NotOurs,
            2 => Refusal::Version(version),
            3 => Refusal::Auth,
            4 => Refusal::OtherWorker,
            5 => Refusal::WrongProof,
            _ => Refusal::Unknown(code),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Accepting end: HELLO is expected.
    Hello,
    /// Connecting end: REPLY is expected.
    Reply,
    /// Accepting end: COMMIT is expected.
    Commit,
    /// The other end proved itself.
    Proven,
    /// Over, once the output is out.
    Refused(Refusal),
}

/// One end of a handshake.
pub(crate) struct Handshake {
    step: Step,
    key: [u8; 32],
    auth: bool,
    /// Accepting end: the worker that listens here.
    worker: [u8; IDENTITY],
    nonce: Nonce,
    purpose: Option<Purpose>,
    hello: [u8; HELLO],
    reply: [u8; REPLY],
    /// Bytes of the message that is expected now.
    input: [u8; REPLY],
    input_len: usize,
    output: [u8; REPLY],
    output_len: usize,
    output_sent: usize,
}

impl Handshake {
    /// The connecting end.
    pub(crate) fn connecting(secret: &Secret, purpose: Purpose, nonce: Nonce) -> Self {
        let mut this = Self::new(secret, Step::Reply, purpose.worker, nonce);
        this.purpose = Some(purpose);
        let hello = &mut this.hello;
        hello[..8].copy_from_slice(&MAGIC);
        hello[8..10].copy_from_slice(&VERSION.to_le_bytes());
        hello[10] = u8::from(this.auth);
        hello[12..16].copy_from_slice(&purpose.from.to_le_bytes());
        hello[16..20].copy_from_slice(&purpose.to.to_le_bytes());
        hello[20..24].copy_from_slice(&purpose.lane.to_le_bytes());
        hello[24..40].copy_from_slice(&purpose.worker);
        hello[40..].copy_from_slice(&nonce);
        this.output[..HELLO].copy_from_slice(&this.hello);
        this.output_len = HELLO;
        this
    }

    /// The accepting end, of the worker with this identity.
    pub(crate) fn accepting(secret: &Secret, worker: [u8; IDENTITY], nonce: Nonce) -> Self {
        Self::new(secret, Step::Hello, worker, nonce)
    }

    fn new(secret: &Secret, step: Step, worker: [u8; IDENTITY], nonce: Nonce) -> Self {
        let (key, auth) = match secret {
            Secret::Key(key) => (*key, true),
            Secret::Nothing => ([0; 32], false),
        };
        Self {
            step,
            key,
            auth,
            worker,
            nonce,
            purpose: None,
            hello: [0; HELLO],
            reply: [0; REPLY],
            input: [0; REPLY],
            input_len: 0,
            output: [0; REPLY],
            output_len: 0,
            output_sent: 0,
        }
    }

    /// How many bytes it still wants to read; zero: none before its output is out, or ever.
    pub(crate) fn wants(&self) -> usize {
        let message = match self.step {
            Step::Hello => HELLO,
            Step::Reply => REPLY,
            Step::Commit => COMMIT,
            Step::Proven | Step::Refused(_) => 0,
        };
        message.saturating_sub(self.input_len)
    }

    /// What is to be written.
    pub(crate) fn output(&self) -> &[u8] {
        &self.output[self.output_sent..self.output_len]
    }

    /// The first `count` bytes of the output were written.
    pub(crate) fn wrote(&mut self, count: usize) {
        self.output_sent = (self.output_sent + count).min(self.output_len);
    }

    /// What the connection is for, once the other end proved itself and the output is out.
    pub(crate) fn proven(&self) -> Option<Purpose> {
        match self.step {
            Step::Proven if self.output().is_empty() => self.purpose,
            _ => None,
        }
    }

    /// Accepting end: whether the other end asked for this worker, which takes more than a guess.
    pub(crate) fn greeted(&self) -> bool {
        self.purpose.is_some()
    }

    /// Why it failed, once the output is out.
    pub(crate) fn refused(&self) -> Option<Refusal> {
        match self.step {
            Step::Refused(refusal) if self.output().is_empty() => Some(refusal),
            _ => None,
        }
    }

    /// Why it failed, whether the output is out or not.
    pub(crate) fn refused_in_any_case(&self) -> Option<Refusal> {
        match self.step {
            Step::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// Takes in bytes that were read, at most as many as it wants.
    pub(crate) fn read(&mut self, bytes: &[u8]) {
        let bytes = &bytes[..bytes.len().min(self.wants())];
        self.input[self.input_len..self.input_len + bytes.len()].copy_from_slice(bytes);
        self.input_len += bytes.len();
        match self.step {
            Step::Hello => self.read_hello(),
            Step::Reply => self.read_reply(),
            Step::Commit if self.input_len == COMMIT => self.read_commit(),
            Step::Commit | Step::Proven | Step::Refused(_) => {}
        }
    }

    fn input_is_ours(&self) -> bool {
        let checked = self.input_len.min(MAGIC.len());
        self.input[..checked] == MAGIC[..checked]
    }

    fn read_hello(&mut self) {
        if !self.input_is_ours() {
            // A stranger gets no answer at all.
            self.step = Step::Refused(Refusal::NotOurs);
            return;
        }
        if self.input_len < STABLE {
            return;
        }
        let theirs = u16::from_le_bytes([self.input[8], self.input[9]]);
        if theirs != VERSION {
            return self.refuse(Refusal::Version(theirs));
        }
        if self.input_len < HELLO {
            return;
        }
        self.hello.copy_from_slice(&self.input[..HELLO]);
        self.input_len = 0;
        let word = |at: usize| {
            u32::from_le_bytes([
                self.hello[at],
                self.hello[at + 1],
                self.hello[at + 2],
                self.hello[at + 3],
            ])
        };
        let purpose = Purpose {
            from: word(12),
            to: word(16),
            lane: word(20),
            worker: self.worker,
        };
        if self.hello[10] != u8::from(self.auth) {
            return self.refuse(Refusal::Auth);
        }
        if self.hello[24..40] != self.worker {
            return self.refuse(Refusal::OtherWorker);
        }
        self.purpose = Some(purpose);
        self.write_reply(0);
        let proof = self.proof(Role::Accepting);
        self.reply[REPLY_PROVEN..].copy_from_slice(proof.as_bytes());
        self.output = self.reply;
        self.step = Step::Commit;
    }

    fn read_reply(&mut self) {
        if !self.input_is_ours() {
            self.step = Step::Refused(Refusal::NotOurs);
            return;
        }
        if self.input_len < STABLE {
            return;
        }
        let theirs = u16::from_le_bytes([self.input[8], self.input[9]]);
        let code = u16::from_le_bytes([self.input[10], self.input[11]]);
        if theirs != VERSION || code != 0 {
            let refusal = if theirs != VERSION {
                Refusal::Version(theirs)
            } else {
                Refusal::from_code(code, theirs)
            };
            self.step = Step::Refused(refusal);
            return;
        }
        if self.input_len < REPLY {
            return;
        }
        self.reply = self.input;
        self.input_len = 0;
        if !self.matches(Role::Accepting, &self.reply[REPLY_PROVEN..]) {
            self.step = Step::Refused(Refusal::WrongProof);
            return;
        }
        let proof = self.proof(Role::Connecting);
        self.output[..COMMIT].copy_from_slice(proof.as_bytes());
        (self.output_len, self.output_sent) = (COMMIT, 0);
        self.step = Step::Proven;
    }

    fn read_commit(&mut self) {
        self.step = match self.matches(Role::Connecting, &self.input[..COMMIT]) {
            true => Step::Proven,
            false => Step::Refused(Refusal::WrongProof),
        };
    }

    /// Ends the handshake with an answer that says why; the other end need not believe it.
    fn refuse(&mut self, refusal: Refusal) {
        self.write_reply(refusal.code());
        self.output = self.reply;
        self.step = Step::Refused(refusal);
    }

    fn write_reply(&mut self, code: u16) {
        self.reply[..8].copy_from_slice(&MAGIC);
        self.reply[8..10].copy_from_slice(&VERSION.to_le_bytes());
        self.reply[10..12].copy_from_slice(&code.to_le_bytes());
        self.reply[16..REPLY_PROVEN].copy_from_slice(&self.nonce);
        (self.output_len, self.output_sent) = (REPLY, 0);
    }

    fn proof(&self, role: Role) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        match role {
            Role::Accepting => {
                hasher.update(b"infiniccl net-tcp v1 accepting end\0");
                hasher.update(&self.hello);
                hasher.update(&self.reply[..REPLY_PROVEN]);
            }
            Role::Connecting => {
                hasher.update(b"infiniccl net-tcp v1 connecting end\0");
                hasher.update(&self.hello);
                hasher.update(&self.reply);
            }
        }
        hasher.finalize()
    }

    /// Compares in constant time.
    fn matches(&self, role: Role, proof: &[u8]) -> bool {
        self.proof(role) == *proof
    }
}

#[derive(Clone, Copy)]
enum Role {
    Connecting,
    Accepting,
}

impl fmt::Debug for Handshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handshake")
            .field("step", &self.step)
            .field("purpose", &self.purpose)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
