//! Safe handling of what the descriptors carry as raw pointers: strings, buffers, rows, out arguments.

use crate::{Buffer, HostServices, LogLevel, Property, PropertySink, Status, Str};
use std::fmt::Display;

/// Most rows that [`Rows`] keeps, and most bytes of one key or value: a plugin that runs wild fills no memory.
const MAX_ROWS: usize = 4096;
const MAX_TEXT: usize = 64 * 1024;

impl From<&str> for Str {
    /// Valid as long as `text` is borrowed; the type cannot say so.
    fn from(text: &str) -> Self {
        Str {
            ptr: text.as_ptr(),
            len: text.len() as u64,
        }
    }
}

impl Str {
    /// The text; `None` when it is no UTF-8, or null with a length.
    ///
    /// # Safety
    /// `len` bytes at `ptr` must be readable, unless `ptr` is null, and stay unchanged for `'a`.
    pub unsafe fn as_str<'a>(self) -> Option<&'a str> {
        // SAFETY: the caller's promise.
        let bytes = unsafe { slice(self.ptr, self.len) }.ok()?;
        std::str::from_utf8(bytes).ok()
    }
}

impl Buffer {
    /// A buffer that writes to `bytes` and `len`.
    pub fn over(bytes: &mut [u8], len: &mut u64) -> Self {
        Buffer {
            ptr: bytes.as_mut_ptr(),
            capacity: bytes.len() as u64,
            len,
        }
    }

    /// Writes all of `bytes`, or nothing: [`Status::TOO_SMALL`] when they do not fit. The length there is gets
    /// stored either way.
    ///
    /// # Safety
    /// `capacity` bytes at `ptr` and the word at `len` must be writable; each may be null.
    pub unsafe fn write(self, bytes: &[u8]) -> Status {
        if !self.len.is_null() {
            // SAFETY: the caller's promise.
            unsafe { self.len.write_unaligned(bytes.len() as u64) };
        }
        if bytes.is_empty() {
            return Status::OK;
        }
        if self.ptr.is_null() || (bytes.len() as u64) > self.capacity {
            return Status::TOO_SMALL;
        }
        // SAFETY: it fits, and a borrowed slice cannot overlap memory that the caller lent for writing.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.ptr, bytes.len()) };
        Status::OK
    }
}

impl Property {
    /// A row that borrows both texts.
    pub fn new(key: &str, value: &str) -> Self {
        Property {
            key: key.into(),
            value: value.into(),
        }
    }
}

/// The rows at `ptr` as pairs; a row that is no UTF-8 is left out, as an unknown key would be.
///
/// # Safety
/// `count` rows at `ptr`, unless it is null, and the texts they point to must stay valid for `'a`.
pub unsafe fn properties<'a>(
    ptr: *const Property,
    count: u64,
) -> impl Iterator<Item = (&'a str, &'a str)> + Clone {
    // SAFETY: the caller's promise.
    let rows = unsafe { slice(ptr, count) }.unwrap_or(&[]);
    // SAFETY: as above.
    rows.iter()
        .filter_map(|row| unsafe { Some((row.key.as_str()?, row.value.as_str()?)) })
}

/// `count` values at `ptr` as a slice; empty for no values, [`Status::USAGE`] for null with a count.
///
/// # Safety
/// Unless `ptr` is null, `count` values there must be valid, aligned, and stay unchanged for `'a`.
pub unsafe fn slice<'a, T>(ptr: *const T, count: u64) -> Result<&'a [T], Status> {
    if count == 0 {
        return Ok(&[]);
    }
    let count = usize::try_from(count).map_err(|_| Status::USAGE)?;
    let fits = count
        .checked_mul(size_of::<T>())
        .is_some_and(|bytes| isize::try_from(bytes).is_ok());
    if ptr.is_null() || !ptr.is_aligned() || !fits {
        return Err(Status::USAGE);
    }
    // SAFETY: the caller's promise; null, misaligned and oversized were refused.
    Ok(unsafe { std::slice::from_raw_parts(ptr, count) })
}

/// Stores the result of a function; [`Status::USAGE`] when the caller gave no place for it.
///
/// # Safety
/// `place` must be null or writable.
pub unsafe fn store<T>(place: *mut T, value: T) -> Status {
    if place.is_null() {
        return crate::fail(Status::USAGE, "no place for the result: null pointer");
    }
    // SAFETY: the caller's promise.
    unsafe { place.write(value) };
    Status::OK
}

impl PropertySink {
    /// Puts one row; the texts are copied before this returns.
    pub fn row(&self, key: &str, value: impl Display) {
        let value = value.to_string();
        (self.put)(self.context, key.into(), value.as_str().into());
    }
}

/// Collects the rows that a plugin puts; the host's end of a [`PropertySink`].
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Rows(Vec<(String, String)>);

impl Rows {
    /// No rows yet.
    pub fn new() -> Self {
        Rows::default()
    }

    /// The sink to hand to a plugin; valid while `self` is borrowed and not moved.
    pub fn sink(&mut self) -> PropertySink {
        PropertySink {
            context: std::ptr::from_mut(self).cast(),
            put: put_row,
        }
    }

    /// The first value of `key`.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(k, _)| k == key)
            .map(|(_, value)| value.as_str())
    }

    /// All rows, in the order they were put.
    pub fn into_pairs(self) -> Vec<(String, String)> {
        self.0
    }
}

extern "C" fn put_row(context: *mut std::ffi::c_void, key: Str, value: Str) {
    // SAFETY: `Rows::sink` made the context, and the plugin may use it only while that call lasts.
    let Some(rows) = (unsafe { context.cast::<Rows>().as_mut() }) else {
        return;
    };
    // SAFETY: the plugin lends both texts for this call.
    let (Some(key), Some(value)) = (unsafe { (key.as_str(), value.as_str()) }) else {
        return;
    };
    if rows.0.len() < MAX_ROWS && key.len() <= MAX_TEXT && value.len() <= MAX_TEXT {
        rows.0.push((key.to_owned(), value.to_owned()));
    }
}

impl HostServices {
    /// Writes one log line; `target` names the part of the plugin.
    pub fn write_log(&self, level: LogLevel, target: &str, message: impl Display) {
        let message = message.to_string();
        (self.log)(self.context, level, target.into(), message.as_str().into());
    }

    /// Monotonic time of the host in ns.
    pub fn time_ns(&self) -> u64 {
        (self.now)(self.context)
    }

    /// Whether waits should end, since the process is shutting its communicators down.
    pub fn aborting(&self) -> bool {
        (self.is_aborting)(self.context) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_that_are_null_or_no_utf8_are_refused() {
        // SAFETY: all pointers are null or point to literals.
        unsafe {
            assert_eq!(Str::from("grün").as_str(), Some("grün"));
            assert_eq!(
                Str {
                    ptr: std::ptr::null(),
                    len: 0
                }
                .as_str(),
                Some("")
            );
            assert_eq!(
                Str {
                    ptr: std::ptr::null(),
                    len: 1
                }
                .as_str(),
                None
            );
            assert_eq!(
                Str {
                    ptr: b"a\xff".as_ptr(),
                    len: 2
                }
                .as_str(),
                None
            );
            assert_eq!(
                Str {
                    ptr: b"a".as_ptr(),
                    len: u64::MAX
                }
                .as_str(),
                None
            );
        }
    }

    #[test]
    fn a_buffer_takes_all_or_nothing() {
        let (mut bytes, mut len) = (*b"....", 9);
        // SAFETY: the buffers are over live arrays, or null.
        unsafe {
            assert_eq!(
                Buffer::over(&mut bytes, &mut len).write(b"abcde"),
                Status::TOO_SMALL
            );
            assert_eq!((&bytes, len), (b"....", 5));
            assert_eq!(Buffer::over(&mut bytes, &mut len).write(b"abcd"), Status::OK);
            assert_eq!((&bytes, len), (b"abcd", 4));
            let none = Buffer {
                ptr: std::ptr::null_mut(),
                capacity: 8,
                len: std::ptr::null_mut(),
            };
            assert_eq!(
                (none.write(b"x"), none.write(b"")),
                (Status::TOO_SMALL, Status::OK)
            );
        }
    }

    #[test]
    fn rows_cross_and_malformed_ones_are_left_out() {
        let mut rows = Rows::new();
        let sink = rows.sink();
        sink.row("name", "lo0");
        sink.row("mtu", 1500);
        (sink.put)(
            sink.context,
            Str {
                ptr: b"\xff".as_ptr(),
                len: 1,
            },
            "x".into(),
        );
        let pairs = rows.clone().into_pairs();
        let list: Vec<Property> = pairs.iter().map(|(k, v)| Property::new(k, v)).collect();
        // SAFETY: `list` and `pairs` outlive the iterator.
        let read: Vec<_> = unsafe { properties(list.as_ptr(), list.len() as u64) }.collect();
        assert_eq!(read, [("name", "lo0"), ("mtu", "1500")]);
        assert_eq!(rows.get("mtu"), Some("1500"));
        // SAFETY: null is allowed.
        assert_eq!(unsafe { properties(std::ptr::null(), 3) }.count(), 0);
    }

    #[test]
    fn a_result_needs_a_place() {
        let mut place = 0_u32;
        // SAFETY: one live place, one null.
        unsafe {
            assert_eq!(store(&mut place, 7), Status::OK);
            assert_eq!(store(std::ptr::null_mut::<u32>(), 7), Status::USAGE);
        }
        assert_eq!(place, 7);
    }
}
