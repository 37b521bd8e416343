//! Whether an MPI library lives in this process, since it shares the launcher's store with us.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

/// The state of MPI in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mpi {
    /// No MPI library is loaded.
    Absent,
    /// One is loaded and was not initialised yet.
    Idle,
    /// It is initialised.
    Active,
    /// It was finalised.
    Finalized,
}

type Query = unsafe extern "C" fn(*mut c_int) -> c_int;

/// Looks for MPI among what is loaded, without loading anything.
pub(super) fn look() -> Mpi {
    let Some(initialized) = find(c"MPI_Initialized") else {
        return Mpi::Absent;
    };
    if !ask(initialized) {
        return Mpi::Idle;
    }
    match find(c"MPI_Finalized") {
        Some(finalized) if ask(finalized) => Mpi::Finalized,
        _ => Mpi::Active,
    }
}

fn ask(query: Query) -> bool {
    let mut flag = 0;
    // SAFETY: both queries may be called at any time, from any thread, and write one int.
    unsafe { query(&raw mut flag) == 0 && flag != 0 }
}

/// A function of MPI: from the program itself, or from a library called `libmpi*` that a plugin opened for itself.
fn find(name: &CStr) -> Option<Query> {
    // SAFETY: a look-up of a NUL-terminated name among the program's global symbols.
    let global = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    query(global).or_else(|| {
        loaded_libraries()
            .iter()
            .find_map(|path| query(symbol_of(path, name)))
    })
}

fn query(symbol: *mut c_void) -> Option<Query> {
    // SAFETY: a symbol of this name is the MPI function, whose signature all implementations share.
    (!symbol.is_null()).then(|| unsafe { std::mem::transmute::<*mut c_void, Query>(symbol) })
}

/// A symbol of a library that is loaded already.
fn symbol_of(path: &CStr, name: &CStr) -> *mut c_void {
    // SAFETY: RTLD_NOLOAD only finds what is loaded; the extra reference is given back, and the library stays loaded
    // through whoever loaded it.
    unsafe {
        let handle = libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if handle.is_null() {
            return std::ptr::null_mut();
        }
        let symbol = libc::dlsym(handle, name.as_ptr());
        libc::dlclose(handle);
        symbol
    }
}

/// Paths of loaded libraries whose name begins with `libmpi`.
fn loaded_libraries() -> Vec<CString> {
    unsafe extern "C" fn note(info: *mut libc::dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
        // SAFETY: the loader passes a valid entry, and `found` is the vector given below.
        let (name, found) = unsafe {
            (
                (*info).dlpi_name as *const c_char,
                &mut *found.cast::<Vec<CString>>(),
            )
        };
        if !name.is_null() {
            // SAFETY: the loader's names are NUL-terminated.
            let path = unsafe { CStr::from_ptr(name) };
            let bytes = path.to_bytes();
            let file = bytes.rsplit(|byte| *byte == b'/').next().unwrap_or(bytes);
            if file.starts_with(b"libmpi") {
                found.push(path.to_owned());
            }
        }
        0
    }
    let mut found: Vec<CString> = Vec::new();
    // SAFETY: `note` matches the callback's signature and runs only during the call, with `found` as its data.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut found).cast()) };
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_no_mpi_in_this_test() {
        assert_eq!(look(), Mpi::Absent);
        assert!(loaded_libraries().is_empty());
        assert!(symbol_of(c"libsurely-not-loaded.so", c"x").is_null());
    }
}
