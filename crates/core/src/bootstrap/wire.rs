//! The canonical little-endian encoding of the control plane, with bounded decoding.

use std::fmt;

/// Bytes that do not decode: what was expected, for logs about the peer that sent them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed message: {}", self.0)
    }
}

impl std::error::Error for Malformed {}

/// Appends values to a byte string.
#[derive(Debug, Default)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    /// An empty writer.
    pub(crate) fn new() -> Self {
        Writer(Vec::new())
    }

    /// The bytes written.
    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }

    pub(crate) fn u8(&mut self, v: u8) -> &mut Self {
        self.0.push(v);
        self
    }

    pub(crate) fn u16(&mut self, v: u16) -> &mut Self {
        self.0.extend_from_slice(&v.to_le_bytes());
        self
    }

    pub(crate) fn u32(&mut self, v: u32) -> &mut Self {
        self.0.extend_from_slice(&v.to_le_bytes());
        self
    }

    pub(crate) fn u64(&mut self, v: u64) -> &mut Self {
        self.0.extend_from_slice(&v.to_le_bytes());
        self
    }

    /// Bytes without a length.
    pub(crate) fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// A length of 32 bits, then the bytes. Longer strings than 4 GiB cannot be written.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        let len = u32::try_from(bytes.len()).expect("a message part is far below 4 GiB");
        self.u32(len).raw(bytes)
    }

    /// UTF-8 text as [`Writer::bytes`], cut at a character border after at most `max` bytes.
    pub(crate) fn text(&mut self, text: &str, max: usize) -> &mut Self {
        let mut end = text.len().min(max);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.bytes(&text.as_bytes()[..end])
    }

    /// One byte that says whether a value follows, then the value.
    pub(crate) fn option<T>(&mut self, value: Option<T>, put: impl FnOnce(&mut Self, T)) -> &mut Self {
        self.u8(u8::from(value.is_some()));
        if let Some(value) = value {
            put(self, value);
        }
        self
    }
}

/// Takes values from a byte string; every length is checked before anything is allocated.
#[derive(Debug)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// A reader of `bytes`.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Reader(bytes)
    }

    /// Bytes not read yet.
    pub(crate) fn remaining(&self) -> usize {
        self.0.len()
    }

    /// Fails when bytes are left over, so that each message has one encoding only.
    pub(crate) fn end(&self) -> Result<(), Malformed> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(Malformed("bytes after the end"))
        }
    }

    /// Exactly `n` bytes.
    pub(crate) fn raw(&mut self, n: usize) -> Result<&'a [u8], Malformed> {
        let (head, tail) = self.0.split_at_checked(n).ok_or(Malformed("too short"))?;
        self.0 = tail;
        Ok(head)
    }

    /// Exactly `N` bytes as an array.
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, tail) = self.0.split_first_chunk::<N>().ok_or(Malformed("too short"))?;
        self.0 = tail;
        Ok(*head)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A byte string of at most `max` bytes.
    pub(crate) fn bytes(&mut self, max: usize) -> Result<&'a [u8], Malformed> {
        let len = usize::try_from(self.u32()?).map_err(|_| Malformed("a length beyond the address space"))?;
        if len > max {
            return Err(Malformed("a part longer than its limit"));
        }
        self.raw(len)
    }

    /// UTF-8 text of at most `max` bytes.
    pub(crate) fn text(&mut self, max: usize) -> Result<String, Malformed> {
        let bytes = self.bytes(max)?;
        std::str::from_utf8(bytes)
            .map(str::to_owned)
            .map_err(|_| Malformed("text that is not UTF-8"))
    }

    /// A value that may be absent.
    pub(crate) fn option<T>(
        &mut self,
        get: impl FnOnce(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Option<T>, Malformed> {
        match self.u8()? {
            0 => Ok(None),
            1 => get(self).map(Some),
            _ => Err(Malformed("a presence byte that is neither 0 nor 1")),
        }
    }

    /// A list of at most `max` items; `get` reads one item.
    pub(crate) fn list<T>(
        &mut self,
        max: usize,
        mut get: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let len = usize::try_from(self.u32()?).map_err(|_| Malformed("a length beyond the address space"))?;
        // Each item takes at least one byte, so a length beyond what is left is a lie.
        if len > max || len > self.remaining() {
            return Err(Malformed("a list longer than its limit"));
        }
        (0..len).map(|_| get(self)).collect()
    }
}

/// Writes a list as [`Reader::list`] reads it.
pub(crate) fn put_list<T>(w: &mut Writer, items: &[T], mut put: impl FnMut(&mut Writer, &T)) {
    w.u32(u32::try_from(items.len()).expect("lists in messages are short"));
    for item in items {
        put(w, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let mut w = Writer::new();
        w.u8(9)
            .u16(0x1234)
            .u32(0xdead_beef)
            .u64(u64::MAX - 1)
            .bytes(b"abc")
            .text("größe", 4);
        w.option(Some(5u32), |w, v| {
            w.u32(v);
        })
        .option(None::<u32>, |w, v| {
            w.u32(v);
        });
        put_list(&mut w, &[1u16, 2, 3], |w, v| {
            w.u16(*v);
        });
        let bytes = w.finish();
        assert_eq!(&bytes[..3], &[9, 0x34, 0x12], "little-endian");
        let mut r = Reader::new(&bytes);
        assert_eq!(r.u8(), Ok(9));
        assert_eq!(r.array(), Ok([0x34, 0x12]));
        assert_eq!(r.u32(), Ok(0xdead_beef));
        assert_eq!(r.u64(), Ok(u64::MAX - 1));
        assert_eq!(r.bytes(3), Ok(&b"abc"[..]));
        assert_eq!(r.text(16).as_deref(), Ok("grö"), "cut at a character border");
        assert_eq!(r.option(|r| r.u32()), Ok(Some(5)));
        assert_eq!(r.option(|r| r.u32()), Ok(None));
        assert_eq!(
            r.list(3, |r| r.array().map(u16::from_le_bytes)),
            Ok(vec![1, 2, 3])
        );
        assert_eq!(r.end(), Ok(()));
    }

    #[test]
    fn lengths_are_bounded_before_anything_is_allocated() {
        let huge = [0xff, 0xff, 0xff, 0xff, 1, 2];
        assert!(Reader::new(&huge).bytes(usize::MAX).is_err());
        assert!(Reader::new(&huge).list(usize::MAX, |r| r.u8()).is_err());
        assert_eq!(
            Reader::new(&[5, 0, 0, 0, 1, 2, 3, 4, 5]).bytes(4),
            Err(Malformed("a part longer than its limit"))
        );
        assert!(Reader::new(&[2]).option(|r| r.u8()).is_err());
        assert!(Reader::new(&[1, 0, 0, 0, 0xff]).text(9).is_err());
        assert!(Reader::new(&[0]).end().is_err());
        assert!(Reader::new(&[1, 2, 3]).u32().is_err());
    }
}
