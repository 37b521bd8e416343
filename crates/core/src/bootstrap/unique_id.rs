//! The unique id of a job: 128 bytes that carry its key and the addresses where its root listens.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::str::FromStr;

use super::keys::{KEY_BYTES, Key, random_bytes, same_bytes};
use crate::{Error, ErrorKind, Result};

const MAGIC: [u8; 4] = *b"ICCU";
const VERSION: u16 = 1;
const NONCE: usize = 8;
const KEY: usize = 16;
const ADDRESSES: usize = KEY + KEY_BYTES;
const ADDRESS_BYTES: usize = 24;
const TAG: usize = ADDRESSES + UniqueId::MAX_ADDRESSES * ADDRESS_BYTES;

/// Identifies a job to the ranks that are to form one communicator.
///
/// One process makes it and hands the same bytes to every rank over any channel that only the job's own
/// processes can read: whoever holds the id can join. Layout, little-endian: magic (4 bytes), version (2), flags (2),
/// nonce (8), key (32), three addresses of 24 bytes (family 2, port 2, scope 4, ip 16), tag (8). The tag is a keyed
/// hash of all that precedes it, so that a damaged id is refused instead of tried.
///
/// `Debug` shows addresses and nonce, never the key.
#[derive(Clone, Copy)]
pub struct UniqueId([u8; UniqueId::BYTES]);

impl UniqueId {
    /// Size of an id in bytes.
    pub const BYTES: usize = 128;
    /// How many addresses an id can carry.
    pub const MAX_ADDRESSES: usize = 3;

    /// An id with this key, nonce and these addresses, of which the first three count.
    pub(crate) fn new(key: &Key, nonce: u64, addresses: &[SocketAddr]) -> Self {
        let mut bytes = [0u8; Self::BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&VERSION.to_le_bytes());
        bytes[NONCE..KEY].copy_from_slice(&nonce.to_le_bytes());
        bytes[KEY..ADDRESSES].copy_from_slice(key.bytes());
        for (slot, address) in bytes[ADDRESSES..TAG]
            .chunks_exact_mut(ADDRESS_BYTES)
            .zip(addresses)
        {
            slot.copy_from_slice(&encode_address(address));
        }
        let tag = key.mac(&[&bytes[..TAG]]);
        bytes[TAG..].copy_from_slice(&tag[..Self::BYTES - TAG]);
        UniqueId(bytes)
    }

    /// An id with a fresh random key and nonce.
    pub(crate) fn random(addresses: &[SocketAddr]) -> Result<Self> {
        Ok(Self::new(
            &Key::random()?,
            u64::from_le_bytes(random_bytes()?),
            addresses,
        ))
    }

    /// The id as bytes, to be carried to the other ranks. They contain the job's key.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        self.0
    }

    /// Reads an id back.
    ///
    /// # Errors
    /// `InvalidArgument` when the bytes are not an id, come from another version of the format, or were damaged.
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Result<Self> {
        let bad = |what: String| Error::new(ErrorKind::InvalidArgument, what);
        if bytes[..4] != MAGIC {
            return Err(bad(
                "these bytes are not a unique id (wrong magic): pass on all 128 bytes that the \
                 process which created the id got, unchanged"
                    .into(),
            ));
        }
        let version = u16::from_le_bytes([bytes[4], bytes[5]]);
        if version != VERSION {
            return Err(bad(format!(
                "the unique id has format version {version}, this library reads version {VERSION}: use one \
                 version of InfiniCCL in all processes"
            )));
        }
        let key = Key::from_bytes(bytes[KEY..ADDRESSES].try_into().expect("32 bytes"));
        if !key.verify(&[&bytes[..TAG]], &bytes[TAG..]) {
            return Err(bad(
                "the unique id was damaged on its way (its tag does not match)".into(),
            ));
        }
        let id = UniqueId(*bytes);
        if id.slots().any(|slot| decode_address(slot).is_err()) {
            return Err(bad("the unique id carries an address of an unknown family".into()));
        }
        Ok(id)
    }

    /// The addresses where the root listens, in the order to try them.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.slots()
            .filter_map(|slot| decode_address(slot).ok().flatten())
            .collect()
    }

    /// The id as 256 hexadecimal digits, for an environment variable or a file. They contain the job's key.
    pub fn to_hex(&self) -> String {
        use fmt::Write as _;
        self.0
            .iter()
            .fold(String::with_capacity(2 * Self::BYTES), |mut text, byte| {
                let _ = write!(text, "{byte:02x}");
                text
            })
    }

    /// The job's public number: it tells jobs apart in logs and file names, and opens nothing.
    pub(crate) fn nonce(&self) -> u64 {
        u64::from_le_bytes(self.0[NONCE..KEY].try_into().expect("8 bytes"))
    }

    /// The job's secret.
    pub(crate) fn key(&self) -> Key {
        Key::from_bytes(self.0[KEY..ADDRESSES].try_into().expect("32 bytes"))
    }

    /// The key that proves membership of this job when ranks arrive; bound to the nonce, so that jobs which share a
    /// secret still do not mix.
    pub(crate) fn handshake_key(&self) -> Key {
        self.key()
            .derive("infiniccl arrival", &[&self.nonce().to_le_bytes()])
    }

    /// The id of the `n`-th communicator of a job whose ranks share this one; each has a key and nonce of its own.
    pub(crate) fn nth(&self, n: u64) -> UniqueId {
        let key = self
            .key()
            .derive("infiniccl job, n-th communicator", &[&n.to_le_bytes()]);
        Self::new(&key, self.nonce().wrapping_add(n), &self.addresses())
    }

    /// The id whose key also depends on `secret`, so that those without it cannot join.
    pub(crate) fn with_secret(&self, secret: &[u8]) -> UniqueId {
        let key = self.key().derive("infiniccl job with secret", &[secret]);
        Self::new(&key, self.nonce(), &self.addresses())
    }

    fn slots(&self) -> impl Iterator<Item = &[u8; ADDRESS_BYTES]> {
        self.0[ADDRESSES..TAG].as_chunks::<ADDRESS_BYTES>().0.iter()
    }
}

impl FromStr for UniqueId {
    type Err = Error;

    /// Reads the form that [`UniqueId::to_hex`] writes; white space around it is ignored.
    fn from_str(text: &str) -> Result<Self> {
        let digits = text.trim().as_bytes();
        let bad = |what: String| Error::new(ErrorKind::InvalidArgument, what);
        if digits.len() != 2 * Self::BYTES {
            return Err(bad(format!(
                "a unique id in text form has {} hexadecimal digits, this text has {} characters",
                2 * Self::BYTES,
                digits.len()
            )));
        }
        let mut bytes = [0u8; Self::BYTES];
        for (byte, pair) in bytes.iter_mut().zip(digits.as_chunks::<2>().0) {
            let digit = |c: u8| char::from(c).to_digit(16).and_then(|d| u8::try_from(d).ok());
            *byte = match (digit(pair[0]), digit(pair[1])) {
                (Some(high), Some(low)) => high << 4 | low,
                _ => return Err(bad("a unique id in text form has hexadecimal digits only".into())),
            };
        }
        Self::from_bytes(&bytes)
    }
}

impl PartialEq for UniqueId {
    fn eq(&self, other: &Self) -> bool {
        same_bytes(&self.0, &other.0)
    }
}

impl Eq for UniqueId {}

impl fmt::Debug for UniqueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UniqueId")
            .field("nonce", &format_args!("{:016x}", self.nonce()))
            .field("addresses", &self.addresses())
            .field("key", &format_args!("redacted"))
            .finish()
    }
}

/// The 24 bytes of one address: family (0 none, 4, 6), port, IPv6 scope, ip.
pub(crate) fn encode_address(address: &SocketAddr) -> [u8; ADDRESS_BYTES] {
    let mut slot = [0u8; ADDRESS_BYTES];
    slot[2..4].copy_from_slice(&address.port().to_le_bytes());
    match address {
        SocketAddr::V4(v4) => {
            slot[..2].copy_from_slice(&4u16.to_le_bytes());
            slot[8..12].copy_from_slice(&v4.ip().octets());
        }
        SocketAddr::V6(v6) => {
            slot[..2].copy_from_slice(&6u16.to_le_bytes());
            slot[4..8].copy_from_slice(&v6.scope_id().to_le_bytes());
            slot[8..].copy_from_slice(&v6.ip().octets());
        }
    }
    slot
}

/// Reads what [`encode_address`] wrote; `None` is an empty slot.
pub(crate) fn decode_address(
    slot: &[u8; ADDRESS_BYTES],
) -> std::result::Result<Option<SocketAddr>, super::wire::Malformed> {
    let port = u16::from_le_bytes([slot[2], slot[3]]);
    let scope = u32::from_le_bytes([slot[4], slot[5], slot[6], slot[7]]);
    match u16::from_le_bytes([slot[0], slot[1]]) {
        0 => Ok(None),
        4 => {
            let ip = Ipv4Addr::new(slot[8], slot[9], slot[10], slot[11]);
            Ok(Some(SocketAddr::new(IpAddr::V4(ip), port)))
        }
        6 => {
            let ip = Ipv6Addr::from(<[u8; 16]>::try_from(&slot[8..]).expect("16 bytes"));
            Ok(Some(SocketAddr::V6(SocketAddrV6::new(ip, port, 0, scope))))
        }
        _ => Err(super::wire::Malformed("an address of an unknown family")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> UniqueId {
        let addresses = [
            "10.1.2.3:4567".parse().unwrap(),
            "[fe80::17%7]:99".parse().unwrap_or_else(|_| scoped()),
            scoped(),
        ];
        UniqueId::new(&Key::from_bytes([0xa5; 32]), 0x0102_0304_0506_0708, &addresses)
    }

    fn scoped() -> SocketAddr {
        SocketAddr::V6(SocketAddrV6::new("fe80::17".parse().unwrap(), 99, 0, 7))
    }

    #[test]
    fn bytes_and_hex_come_back_with_every_field() {
        let id = sample();
        let bytes = id.to_bytes();
        assert_eq!(bytes.len(), 128);
        assert_eq!(&bytes[8..16], &[8, 7, 6, 5, 4, 3, 2, 1]);
        let back = UniqueId::from_bytes(&bytes).unwrap();
        assert_eq!(back, id);
        assert_eq!(
            back.addresses(),
            vec!["10.1.2.3:4567".parse().unwrap(), scoped(), scoped()]
        );
        assert_eq!(format!(" {}\n", id.to_hex()).parse::<UniqueId>().unwrap(), id);
    }

    #[test]
    fn each_flipped_bit_is_refused() {
        let bytes = sample().to_bytes();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            let error = UniqueId::from_bytes(&damaged).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "bit {bit}");
        }
    }

    #[test]
    fn text_of_the_wrong_shape_is_refused() {
        let hex = sample().to_hex();
        assert!(
            hex[..254]
                .parse::<UniqueId>()
                .unwrap_err()
                .message()
                .contains("254")
        );
        assert!(hex.replacen('1', "g", 1).parse::<UniqueId>().is_err());
        assert!("".parse::<UniqueId>().is_err());
    }

    #[test]
    fn the_key_is_not_printed() {
        let id = sample();
        let text = format!("{id:?} {id:#?}");
        assert!(text.contains("redacted") && text.contains("10.1.2.3:4567"));
        assert!(!text.contains("a5a5") && !text.contains("165"), "{text}");
    }

    #[test]
    fn derived_ids_keep_the_addresses_and_change_the_key() {
        let id = sample();
        for other in [id.nth(0), id.nth(1), id.with_secret(b"x"), id.with_secret(b"y")] {
            assert_eq!(other.addresses(), id.addresses());
            assert_ne!(other.handshake_key().bytes(), id.handshake_key().bytes());
            assert!(UniqueId::from_bytes(&other.to_bytes()).is_ok());
        }
        assert_ne!(id.nth(0), id.nth(1));
        assert_ne!(id.with_secret(b"x"), id.with_secret(b"y"));
    }

    #[test]
    fn random_ids_differ() {
        let a = UniqueId::random(&[scoped()]).unwrap();
        let b = UniqueId::random(&[scoped()]).unwrap();
        assert_ne!(a, b);
        assert_ne!(a.nonce(), b.nonce());
    }
}
