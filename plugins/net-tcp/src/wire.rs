//! The frame around each message: 16 bytes that say what follows and how long it is.
//!
//! ```text
//! offset  bytes
//!      0      8  length of the payload, little-endian
//!      8      4  the sender's `imm`, little-endian
//!     12      1  kind
//!     13      3  "ICT"
//! ```

/// Bytes of a header.
pub(crate) const HEADER: usize = 16;

/// Longest message that may be posted; a length beyond it on the wire is garbage.
pub(crate) const MAX_MESSAGE: u64 = 1 << 40;

const MARK: [u8; 3] = *b"ICT";

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A message; `length` bytes of payload follow.
    Data,
    /// The sender closes the channel in good order; nothing follows.
    Goodbye,
    /// The sender's receive had `length` bytes, which is not what the message had; nothing follows.
    WrongLength,
}

/// A decoded header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) length: u64,
    pub(crate) imm: u32,
}

impl Header {
    /// The bytes of the header.
    pub(crate) fn encode(self) -> [u8; HEADER] {
        let kind = match self.kind {
            Kind::Data => 1,
            Kind::Goodbye => 2,
            Kind::WrongLength => 3,
        };
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(&self.length.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.imm.to_le_bytes());
        bytes[12] = kind;
        bytes[13..].copy_from_slice(&MARK);
        bytes
    }

    /// The header in `bytes`; None when it is none.
    pub(crate) fn decode(bytes: &[u8; HEADER]) -> Option<Self> {
        let (length, rest) = bytes.split_first_chunk::<8>()?;
        let (imm, rest) = rest.split_first_chunk::<4>()?;
        let kind = match rest {
            [1, mark @ ..] if *mark == MARK => Kind::Data,
            [2, mark @ ..] if *mark == MARK => Kind::Goodbye,
            [3, mark @ ..] if *mark == MARK => Kind::WrongLength,
            _ => return None,
        };
        let length = u64::from_le_bytes(*length);
        (length <= MAX_MESSAGE).then_some(Self {
            kind,
            length,
            imm: u32::from_le_bytes(*imm),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_survive_the_wire() {
        for kind in [Kind::Data, Kind::Goodbye, Kind::WrongLength] {
            for length in [0, 1, u64::from(u32::MAX) + 7, MAX_MESSAGE] {
                let header = Header {
                    kind,
                    length,
                    imm: 0xdead_beef,
                };
                assert_eq!(Header::decode(&header.encode()), Some(header));
            }
        }
    }

    #[test]
    fn garbage_is_no_header() {
        let good = Header {
            kind: Kind::Data,
            length: 5,
            imm: 1,
        }
        .encode();
        for position in 12..16 {
            let mut bytes = good;
            bytes[position] ^= 0x40;
            assert_eq!(Header::decode(&bytes), None, "byte {position}");
        }
        assert_eq!(
            Header::decode(
                &Header {
                    kind: Kind::Data,
                    length: MAX_MESSAGE + 1,
                    imm: 0
                }
                .encode()
            ),
            None
        );
        assert_eq!(Header::decode(b"GET / HTTP/1.1\r\n"), None);
    }
}
