//! Reads as much of an ELF file as is needed to tell a plugin from everything else, without running it.

use super::{LoadCause, LoadError};
use std::fs::File;
use std::os::unix::fs::FileExt;

const SHARED_OBJECT: u16 = 3;
const SEGMENT_LOAD: u32 = 1;
const SECTION_DYNSYM: u32 = 11;

/// Code of this machine in the ELF header; `None` where this crate does not know it.
const MACHINE: Option<u16> = if cfg!(target_arch = "x86_64") {
    Some(62)
} else if cfg!(target_arch = "aarch64") {
    Some(183)
} else if cfg!(target_arch = "riscv64") {
    Some(243)
} else if cfg!(target_arch = "loongarch64") {
    Some(258)
} else {
    None
};

/// Whether a file defines a symbol.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// It has no table of sections, so that only the dynamic linker can tell.
    Unknown,
    /// It does not.
    Absent,
    /// It does, with that many bytes; zero: not told.
    Size(u64),
}

/// Looks for `name` among the symbols that `file` defines.
///
/// # Errors
/// A [`LoadError`] when the file is no complete 64-bit shared object of this machine.
pub(super) fn find_symbol(file: &File, name: &str) -> Result<Found, LoadError> {
    let elf = Elf::open(file)?;
    elf.check_segments()?;
    elf.symbol(name)
}

struct Elf<'a> {
    file: &'a File,
    len: u64,
    header: Vec<u8>,
}

impl<'a> Elf<'a> {
    fn open(file: &'a File) -> Result<Self, LoadError> {
        let len = file.metadata().map_err(unreadable)?.len();
        if len == 0 {
            return Err(LoadError::new(LoadCause::NotElf, "the file is empty"));
        }
        let mut elf = Elf {
            file,
            len,
            header: Vec::new(),
        };
        let magic = elf.read(0, len.min(20))?;
        if !magic.starts_with(b"\x7fELF") {
            return Err(LoadError::new(
                LoadCause::NotElf,
                "it is no ELF file, so no shared library",
            ));
        }
        if len < 64 {
            return Err(cut_short(64, len));
        }
        if magic[4] != 2 {
            return Err(LoadError::new(
                LoadCause::WrongElf,
                "it is a 32-bit library, this program has 64 bits",
            ));
        }
        if (magic[5] == 1) != cfg!(target_endian = "little") {
            return Err(LoadError::new(
                LoadCause::WrongElf,
                "its byte order is not that of this machine",
            ));
        }
        let (kind, machine) = (u16_at(&magic, 16), u16_at(&magic, 18));
        if MACHINE.is_some_and(|own| own != machine) {
            return Err(LoadError::new(
                LoadCause::WrongElf,
                format!(
                    "it was built for {}, this program for {}",
                    machine_name(machine),
                    std::env::consts::ARCH
                ),
            ));
        }
        if kind != SHARED_OBJECT {
            let what = match kind {
                1 => "an object file that was not linked",
                2 => "a program",
                4 => "a core dump",
                _ => "of an unknown kind",
            };
            return Err(LoadError::new(
                LoadCause::WrongElf,
                format!("it is {what}, not a shared library"),
            ));
        }
        elf.header = elf.read(0, 64)?;
        Ok(elf)
    }

    /// A segment beyond the end of the file would be mapped all the same, and its first use would be a SIGBUS.
    fn check_segments(&self) -> Result<(), LoadError> {
        let (start, size, count) = (
            u64_at(&self.header, 32),
            u16_at(&self.header, 54),
            u16_at(&self.header, 56),
        );
        let table = self.table(start, size, 56, u64::from(count))?;
        for row in table.chunks_exact(usize::from(size.max(56))) {
            if u32_at(row, 0) == SEGMENT_LOAD {
                let end = u64_at(row, 8).saturating_add(u64_at(row, 32));
                if end > self.len {
                    return Err(cut_short(end, self.len));
                }
            }
        }
        Ok(())
    }

    fn symbol(&self, name: &str) -> Result<Found, LoadError> {
        let (start, size, count) = (
            u64_at(&self.header, 40),
            u16_at(&self.header, 58),
            u16_at(&self.header, 60),
        );
        if start == 0 || count == 0 {
            return Ok(Found::Unknown);
        }
        let table = self.table(start, size, 64, u64::from(count))?;
        let rows: Vec<&[u8]> = table.chunks_exact(usize::from(size)).collect();
        let Some(symbols) = rows.iter().find(|row| u32_at(row, 4) == SECTION_DYNSYM) else {
            return Ok(Found::Unknown);
        };
        let Some(strings) = usize::try_from(u32_at(symbols, 40))
            .ok()
            .and_then(|link| rows.get(link))
        else {
            return Ok(Found::Unknown);
        };
        let names = self.read(u64_at(strings, 24), u64_at(strings, 32))?;
        let symbols = self.read(u64_at(symbols, 24), u64_at(symbols, 32))?;
        for symbol in symbols.chunks_exact(24) {
            let defined = u16_at(symbol, 6) != 0;
            let text = usize::try_from(u32_at(symbol, 0))
                .ok()
                .and_then(|at| names.get(at..))
                .unwrap_or(&[]);
            if defined
                && text
                    .strip_prefix(name.as_bytes())
                    .is_some_and(|rest| rest.first() == Some(&0))
            {
                return Ok(Found::Size(u64_at(symbol, 16)));
            }
        }
        Ok(Found::Absent)
    }

    fn table(&self, start: u64, size: u16, least: u16, count: u64) -> Result<Vec<u8>, LoadError> {
        if count != 0 && size < least {
            return Err(LoadError::new(LoadCause::NotElf, "its ELF header is damaged"));
        }
        self.read(start, u64::from(size) * count)
    }

    fn read(&self, start: u64, len: u64) -> Result<Vec<u8>, LoadError> {
        let end = start.saturating_add(len);
        if end > self.len {
            return Err(cut_short(end, self.len));
        }
        let len = usize::try_from(len).map_err(|_| cut_short(end, self.len))?;
        let mut bytes = vec![0; len];
        self.file.read_exact_at(&mut bytes, start).map_err(unreadable)?;
        Ok(bytes)
    }
}

fn unreadable(e: std::io::Error) -> LoadError {
    LoadError::new(LoadCause::NotReadable, format!("the file cannot be read: {e}"))
}

fn cut_short(needed: u64, len: u64) -> LoadError {
    LoadError::new(
        LoadCause::CutShort,
        format!("the file is cut short: its tables reach to byte {needed}, but it has {len}; copy it again"),
    )
}

fn machine_name(machine: u16) -> String {
    match machine {
        3 => "x86".to_owned(),
        21 => "powerpc64".to_owned(),
        22 => "s390x".to_owned(),
        40 => "arm".to_owned(),
        62 => "x86_64".to_owned(),
        183 => "aarch64".to_owned(),
        243 => "riscv64".to_owned(),
        258 => "loongarch64".to_owned(),
        other => format!("machine {other}"),
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(std::array::from_fn(|i| bytes[at + i]))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(std::array::from_fn(|i| bytes[at + i]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn of(bytes: &[u8]) -> Result<Found, LoadError> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        find_symbol(&file, "root")
    }

    fn header(kind: u16, machine: u16) -> Vec<u8> {
        let mut bytes = vec![0_u8; 64];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[16..18].copy_from_slice(&kind.to_ne_bytes());
        bytes[18..20].copy_from_slice(&machine.to_ne_bytes());
        bytes
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn each_sort_of_wrong_file_has_its_cause() {
        let own = MACHINE.unwrap_or(0);
        let cause = |bytes: &[u8]| of(bytes).unwrap_err().cause();
        assert_eq!(cause(b""), LoadCause::NotElf);
        assert_eq!(cause(b"#!/bin/sh\nexit 0\n"), LoadCause::NotElf);
        assert_eq!(cause(b"\x7fELF\x02\x01"), LoadCause::CutShort);
        let mut narrow = header(3, 3);
        narrow[4] = 1;
        assert_eq!(cause(&narrow), LoadCause::WrongElf);
        let mut swapped = header(3, own);
        swapped[5] = 2;
        assert_eq!(cause(&swapped), LoadCause::WrongElf);
        assert_eq!(cause(&header(1, own)), LoadCause::WrongElf);
        let foreign = of(&header(3, 22)).unwrap_err();
        if MACHINE.is_some() {
            assert!(foreign.to_string().contains("s390x"), "{foreign}");
        }
        assert_eq!(of(&header(3, own)).unwrap(), Found::Unknown);
        let mut segments = header(3, own);
        segments[32..40].copy_from_slice(&64_u64.to_ne_bytes());
        segments[54..56].copy_from_slice(&56_u16.to_ne_bytes());
        segments[56..58].copy_from_slice(&1_u16.to_ne_bytes());
        assert_eq!(cause(&segments), LoadCause::CutShort);
    }

    #[test]
    fn no_prefix_of_a_real_library_reads_out_of_bounds() {
        let whole = std::fs::read("/proc/self/exe").unwrap();
        let step = (whole.len() / 200).max(1);
        for len in (0..4096).step_by(61).chain((4096..whole.len()).step_by(step)) {
            // Any answer is right, a panic is not; what is cut must not be taken for whole.
            if let Ok(found) = of(&whole[..len]) {
                assert_eq!(found, Found::Unknown, "{len} bytes");
            }
        }
    }

    #[test]
    fn damaged_tables_are_refused_or_unknown_but_never_a_panic() {
        let mut bytes = header(3, MACHINE.unwrap_or(0));
        bytes.resize(4096, 0xa5);
        for field in [32, 40, 54, 56, 58, 60] {
            for value in [0_u8, 1, 0x40, 0xff] {
                let mut damaged = bytes.clone();
                damaged[field] = value;
                damaged[field + 1] = value;
                let _ = of(&damaged);
            }
        }
    }
}
