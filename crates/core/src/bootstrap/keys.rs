//! Secret keys: random generation, derivation, and message authentication with keyed BLAKE3.

use std::fmt;

use rustix::rand::{GetRandomFlags, getrandom};

use crate::{Error, ErrorKind, Result};

/// Length of a key and of a full authentication code, in bytes.
pub(crate) const KEY_BYTES: usize = 32;

/// A 256-bit secret; it is never printed.
#[derive(Clone)]
pub(crate) struct Key([u8; KEY_BYTES]);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(redacted)")
    }
}

impl Key {
    /// The key with these bytes.
    pub(crate) const fn from_bytes(bytes: [u8; KEY_BYTES]) -> Self {
        Key(bytes)
    }

    /// The bytes, for those that must carry the key on.
    pub(crate) const fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }

    /// A fresh key from the operating system's generator.
    pub(crate) fn random() -> Result<Self> {
        Ok(Key(random_bytes()?))
    }

    /// A key for `purpose`, bound to this key and to `parts`; nothing about this key follows from it.
    pub(crate) fn derive(&self, purpose: &'static str, parts: &[&[u8]]) -> Key {
        let mut hasher = blake3::Hasher::new_derive_key(purpose);
        hasher.update(&self.0);
        update_framed(&mut hasher, parts);
        Key(*hasher.finalize().as_bytes())
    }

    /// The authentication code of `parts`; part borders count, so `["ab", "c"]` and `["a", "bc"]` differ.
    pub(crate) fn mac(&self, parts: &[&[u8]]) -> [u8; KEY_BYTES] {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        update_framed(&mut hasher, parts);
        *hasher.finalize().as_bytes()
    }

    /// Whether `code` is the (possibly truncated) code of `parts`, compared in constant time.
    pub(crate) fn verify(&self, parts: &[&[u8]], code: &[u8]) -> bool {
        let expected = self.mac(parts);
        !code.is_empty() && code.len() <= KEY_BYTES && same_bytes(&expected[..code.len()], code)
    }
}

/// Compares two byte strings of equal length in a time that does not depend on where they differ.
pub(crate) fn same_bytes(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && std::hint::black_box(a.iter().zip(b).fold(0u8, |acc, (x, y)| acc | (x ^ y))) == 0
}

/// `N` bytes from the operating system's generator.
pub(crate) fn random_bytes<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0u8; N];
    let mut filled = 0;
    while filled < N {
        match getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
            Ok(n) => filled += n,
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => {
                return Err(Error::new(
                    ErrorKind::System,
                    "the operating system's random generator (getrandom) gave no bytes",
                )
                .with_source(std::io::Error::from(e)));
            }
        }
    }
    Ok(bytes)
}

fn update_framed(hasher: &mut blake3::Hasher, parts: &[&[u8]]) {
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_depend_on_key_part_borders_and_content() {
        let key = Key::from_bytes([7; 32]);
        let code = key.mac(&[b"ab", b"c"]);
        assert!(key.verify(&[b"ab", b"c"], &code));
        assert!(key.verify(&[b"ab", b"c"], &code[..16]));
        assert!(!key.verify(&[b"a", b"bc"], &code));
        assert!(!key.verify(&[b"ab", b"d"], &code));
        assert!(!key.verify(&[b"ab", b"c"], &[]));
        assert!(!Key::from_bytes([8; 32]).verify(&[b"ab", b"c"], &code));
        let mut wrong = code;
        wrong[31] ^= 1;
        assert!(!key.verify(&[b"ab", b"c"], &wrong));
    }

    #[test]
    fn derived_keys_differ_by_purpose_and_parts() {
        let key = Key::from_bytes([1; 32]);
        let a = key.derive("infiniccl test a", &[b"x"]);
        let b = key.derive("infiniccl test b", &[b"x"]);
        let c = key.derive("infiniccl test a", &[b"y"]);
        assert_ne!(a.bytes(), b.bytes());
        assert_ne!(a.bytes(), c.bytes());
        assert_ne!(a.bytes(), key.bytes());
    }

    #[test]
    fn keys_are_random_and_not_printed() {
        let key = Key::random().unwrap();
        assert_ne!(key.bytes(), Key::random().unwrap().bytes());
        assert_eq!(format!("{key:?}"), "Key(redacted)");
    }
}
