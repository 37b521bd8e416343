//! The launcher's store of Open MPI and Slurm through PMIx, whose library is opened at run time.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Instant;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW, Symbol};

use super::launch::Env;
use super::mpi_presence::{self, Mpi};
use crate::{Error, ErrorKind, Result};

const KEY: &CStr = c"infiniccl-root";
const SONAME: &str = "libpmix.so.2";
/// Where distributions put the library when it is not on the loader's path.
const FOLDERS: [&str; 7] = [
    "/usr/lib/x86_64-linux-gnu/pmix2/lib",
    "/usr/lib/aarch64-linux-gnu/pmix2/lib",
    "/usr/lib/pmix2/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/opt/pmix/lib",
    "/usr/lib64/pmix/lib",
];

/// `pmix_proc_t` of PMIx 2 and later.
#[repr(C)]
#[derive(Clone, Copy)]
struct Proc {
    nspace: [c_char; 256],
    rank: u32,
}

/// `pmix_value_t`: a type, and a union of at most 24 bytes of which the string pointer is the first word.
#[repr(C)]
struct Value {
    kind: u16,
    string: *mut c_char,
    rest: [u64; 2],
}

const STRING: u16 = 3;
const GLOBAL: u8 = 3;

/// The functions that are used; the library they belong to is never closed, since its threads outlive calls.
struct Functions {
    init: Symbol<unsafe extern "C" fn(*mut Proc, *mut c_void, usize) -> c_int>,
    put: Symbol<unsafe extern "C" fn(u8, *const c_char, *mut Value) -> c_int>,
    commit: Symbol<unsafe extern "C" fn() -> c_int>,
    fence: Symbol<unsafe extern "C" fn(*const Proc, usize, *const c_void, usize) -> c_int>,
    get: Symbol<
        unsafe extern "C" fn(*const Proc, *const c_char, *const c_void, usize, *mut *mut Value) -> c_int,
    >,
    finalize: Symbol<unsafe extern "C" fn(*const c_void, usize) -> c_int>,
    error_string: Symbol<unsafe extern "C" fn(c_int) -> *const c_char>,
}

/// A reference to the PMIx client of this process, given back when it is dropped. Without that the launcher takes the
/// end of this process for a crash.
pub(super) struct Pmix(Functions);

/// Whether the environment offers a PMIx server that knows this process as `rank`.
pub(super) fn is_offered(env: Env<'_>, rank: u32) -> bool {
    env("PMIX_NAMESPACE").is_some() && env("PMIX_RANK").is_some_and(|text| text.trim() == rank.to_string())
}

/// Carries `value` of rank 0, which gives it, to all other ranks, which get it. The reference must be kept while MPI may
/// still be initialised in this process.
///
/// # Errors
/// `NotSupported` when there is no usable library, `Timeout` when not all ranks take part before `deadline`.
pub(super) fn exchange(value: Option<String>, deadline: Instant) -> Result<(String, Option<Pmix>)> {
    let functions = load()?;
    let (done, result) = channel();
    // A fence has no time limit of its own, so it runs on a thread that is left behind when it hangs.
    std::thread::Builder::new()
        .name("infiniccl-pmix".into())
        .spawn(move || {
            let _ = done.send(functions.exchange(value.as_deref()));
        })
        .map_err(|e| Error::new(ErrorKind::System, "cannot start a thread for PMIx").with_source(e))?;
    match result.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        Ok(result) => result,
        Err(RecvTimeoutError::Timeout) => Err(Error::new(
            ErrorKind::Timeout,
            "not all ranks took part in the launcher's PMIx exchange in time (timeouts.connect)",
        )),
        Err(RecvTimeoutError::Disconnected) => {
            Err(Error::new(ErrorKind::Internal, "the PMIx thread panicked"))
        }
    }
}

fn load() -> Result<Functions> {
    let mut tried = Vec::new();
    let paths = [SONAME.to_owned()].into_iter().chain(
        FOLDERS
            .iter()
            .map(|folder| format!("{folder}/{SONAME}"))
            .filter(|path| Path::new(path).exists()),
    );
    for path in paths {
        // SAFETY: opening libpmix runs its initialisers, which only prepare its own state.
        match unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_LOCAL) } {
            Ok(library) => return Functions::of(library),
            Err(e) => {
                let reason = std::error::Error::source(&e).map_or_else(|| e.to_string(), ToString::to_string);
                tried.push(format!("{path}: {reason}"));
            }
        }
    }
    Err(Error::new(
        ErrorKind::NotSupported,
        format!("the PMIx library cannot be opened ({})", tried.join("; ")),
    ))
}

impl Functions {
    fn of(library: Library) -> Result<Self> {
        let missing = |e: libloading::Error| {
            Error::new(ErrorKind::NotSupported, "the PMIx library lacks a function").with_source(e)
        };
        // SAFETY: the signatures are those of PMIx 2 to 6, and the library is leaked below, so the symbols stay valid.
        let functions = unsafe {
            Functions {
                init: library.get(b"PMIx_Init\0").map_err(missing)?,
                put: library.get(b"PMIx_Put\0").map_err(missing)?,
                commit: library.get(b"PMIx_Commit\0").map_err(missing)?,
                fence: library.get(b"PMIx_Fence\0").map_err(missing)?,
                get: library.get(b"PMIx_Get\0").map_err(missing)?,
                finalize: library.get(b"PMIx_Finalize\0").map_err(missing)?,
                error_string: library.get(b"PMIx_Error_string\0").map_err(missing)?,
            }
        };
        std::mem::forget(library);
        Ok(functions)
    }

    fn check(&self, what: &str, status: c_int) -> Result<()> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: returns a static string for any status.
        let text = unsafe { (self.error_string)(status) };
        let text = if text.is_null() {
            String::new()
        } else {
            // SAFETY: not null, NUL-terminated and static.
            unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
        };
        Err(Error::new(
            ErrorKind::System,
            format!("{what} of the launcher's PMIx store failed: {text} ({status})"),
        ))
    }

    fn exchange(self, value: Option<&str>) -> Result<(String, Option<Pmix>)> {
        let mut me = Proc {
            nspace: [0; 256],
            rank: 0,
        };
        // SAFETY: `me` is a valid place for the answer; no further information is given.
        self.check("PMIx_Init", unsafe {
            (self.init)(&raw mut me, std::ptr::null_mut(), 0)
        })?;
        let pmix = Pmix(self);
        let value = pmix.through(me, value)?;
        // MPI could not be initialised any more after the last reference is gone, so it is kept where MPI is loaded.
        Ok((value, (mpi_presence::look() != Mpi::Absent).then_some(pmix)))
    }
}

impl Pmix {
    fn through(&self, me: Proc, value: Option<&str>) -> Result<String> {
        let Pmix(f) = self;
        if let Some(value) = value {
            let text =
                CString::new(value).map_err(|e| Error::new(ErrorKind::Internal, "a value").with_source(e))?;
            let mut put = Value {
                kind: STRING,
                string: text.as_ptr().cast_mut(),
                rest: [0; 2],
            };
            // SAFETY: key and value are valid for the call, which copies them.
            f.check("PMIx_Put", unsafe { (f.put)(GLOBAL, KEY.as_ptr(), &raw mut put) })?;
            // SAFETY: takes no arguments.
            f.check("PMIx_Commit", unsafe { (f.commit)() })?;
        }
        // SAFETY: no list of processes means all of this job, no information is given.
        f.check("PMIx_Fence", unsafe {
            (f.fence)(std::ptr::null(), 0, std::ptr::null(), 0)
        })?;
        if let Some(value) = value {
            return Ok(value.to_owned());
        }
        let root = Proc { rank: 0, ..me };
        let mut got: *mut Value = std::ptr::null_mut();
        // SAFETY: `root` and the key are valid for the call; on success `got` points to a value that is ours.
        f.check("PMIx_Get", unsafe {
            (f.get)(&raw const root, KEY.as_ptr(), std::ptr::null(), 0, &raw mut got)
        })?;
        if got.is_null() {
            return Err(Error::new(
                ErrorKind::System,
                "the launcher's PMIx store returned no value of rank 0",
            ));
        }
        // SAFETY: the library allocated value and string with malloc and left them to us; the type says which it is.
        unsafe {
            let found = if (*got).kind == STRING && !(*got).string.is_null() {
                let text = CStr::from_ptr((*got).string).to_string_lossy().into_owned();
                libc::free((*got).string.cast());
                Some(text)
            } else {
                None
            };
            libc::free(got.cast());
            found.ok_or_else(|| {
                Error::new(
                    ErrorKind::System,
                    "the launcher's PMIx store returned no text of rank 0",
                )
            })
        }
    }
}

impl Drop for Pmix {
    fn drop(&mut self) {
        // SAFETY: matches the successful PMIx_Init that made this reference.
        let status = unsafe { (self.0.finalize)(std::ptr::null(), 0) };
        if let Err(e) = self.0.check("PMIx_Finalize", status) {
            tracing::debug!("{e}");
        }
    }
}
