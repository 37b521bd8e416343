//! Loads one plugin from a file, or says in one line why not; what the core and other hosts use.
//!
//! The file is inspected before the dynamic linker sees it, so that no code of a file that is no plugin runs.
//! Then the layouts of the tables are compared in both directions, since an older plugin is right in a newer host
//! and the other way round, and the root is checked before anything of it is called. A library stays loaded for
//! the life of the process, also when it was refused: unloading code that may have started threads is not safe.

mod elf;
mod error;
mod layout;
mod root;

pub use error::{LoadCause, LoadError};
pub use root::check_root;

use crate::PluginRootRef;
use abi_stable::library::{
    AbiHeader, LibHeader, LibraryError, ROOT_MODULE_LOADER_NAME, RootModule, RootModuleError,
    lib_header_from_path,
};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::io::ErrorKind;
use std::path::Path;

/// Loads the plugin in the file `path`.
///
/// Blocks while the dynamic linker and the library's constructors run. Calling it again with the same file gives
/// the same root; other files give other plugins, also when their names are equal. `path` should be canonical.
///
/// # Errors
/// [`LoadError`], whose Display is one line without the path.
pub fn load(path: &Path) -> Result<PluginRootRef, LoadError> {
    inspect_file(path)?;
    open(path)?;
    let header = lib_header_from_path(path).map_err(describe)?;
    layout::check(header)?;
    // SAFETY: the layouts were compared just now, and one side's is a prefix of the other's.
    let root =
        unsafe { header.init_root_module_with_unchecked_layout::<PluginRootRef>() }.map_err(describe)?;
    check_root(root)?;
    Ok(root)
}

/// Whether there is a file, and whether it is a shared object of this machine that holds a plugin.
fn inspect_file(path: &Path) -> Result<(), LoadError> {
    let unreadable = |e: std::io::Error| match e.kind() {
        ErrorKind::NotFound => LoadError::new(LoadCause::NotFound, "no such file"),
        ErrorKind::PermissionDenied => LoadError::new(
            LoadCause::NotReadable,
            "no permission to read the file: look at its mode and owner",
        ),
        _ => LoadError::new(LoadCause::NotReadable, format!("the file cannot be read: {e}")),
    };
    let kind = std::fs::metadata(path).map_err(unreadable)?.file_type();
    if kind.is_dir() {
        return Err(LoadError::new(
            LoadCause::NotAFile,
            "it is a directory, not a file",
        ));
    }
    if !kind.is_file() {
        return Err(LoadError::new(LoadCause::NotAFile, "it is no regular file"));
    }
    let file = std::fs::File::open(path).map_err(unreadable)?;
    match elf::find_symbol(&file, ROOT_MODULE_LOADER_NAME)? {
        // Without section headers only the dynamic linker can tell.
        elf::Found::Unknown => Ok(()),
        elf::Found::Absent => Err(no_symbol()),
        elf::Found::Size(size) if size != 0 && size < size_of::<LibHeader>() as u64 => Err(LoadError::new(
            LoadCause::BadHeader,
            format!(
                "its header is {size} bytes, this core needs {}: it was built with another plugin-api",
                size_of::<LibHeader>()
            ),
        )),
        elf::Found::Size(_) => Ok(()),
    }
}

fn no_symbol() -> LoadError {
    LoadError::new(
        LoadCause::NoPlugin,
        format!("it is no InfiniCCL plugin: it does not define {ROOT_MODULE_LOADER_NAME}"),
    )
}

/// Opens the library with all its symbols bound, and leaves it open.
///
/// Binding now, and not at the first call, turns a symbol that a dependency lacks into an error here; later it
/// would end the process.
fn open(path: &Path) -> Result<(), LoadError> {
    // SAFETY: loading a plugin runs its constructors, which the operator asked for by listing the file.
    let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.map_err(|e| {
        // The reason is in the source; the error itself says only that dlopen failed.
        let text = std::error::Error::source(&e).map_or_else(|| e.to_string(), ToString::to_string);
        let prefix = format!("{}: ", path.display());
        let text = text.strip_prefix(&prefix).unwrap_or(&text);
        linker_error(text)
    })?;
    // SAFETY: the symbol is only looked up, not read.
    let symbol = unsafe { library.get::<*const AbiHeader>(ROOT_MODULE_LOADER_NAME) };
    let defined = symbol.is_ok_and(|symbol| !symbol.as_raw_ptr().is_null());
    std::mem::forget(library);
    if defined { Ok(()) } else { Err(no_symbol()) }
}

/// Sorts what the dynamic linker said.
fn linker_error(text: &str) -> LoadError {
    if let Some((library, reason)) = text.split_once(": cannot open shared object file: ") {
        return LoadError::new(
            LoadCause::MissingDependency,
            format!("it needs {library}, which the dynamic linker does not find ({reason})"),
        );
    }
    if let Some(symbol) = text.split_once("undefined symbol: ").map(|(_, symbol)| symbol) {
        return LoadError::new(
            LoadCause::UndefinedSymbol,
            format!(
                "it needs the symbol {symbol}, which none of its libraries defines: one of them has another version"
            ),
        );
    }
    LoadError::new(
        LoadCause::Linker,
        format!("the dynamic linker refuses it: {text}"),
    )
}

/// Turns abi_stable's errors, which are pages long, into one line.
fn describe(error: LibraryError) -> LoadError {
    let dump = error.to_string();
    let (cause, line) = match error {
        LibraryError::InvalidAbiHeader(found) if found.magic_string != AbiHeader::VALUE.magic_string => (
            LoadCause::BadHeader,
            "its header has the wrong magic: it is damaged, or no plugin".to_owned(),
        ),
        LibraryError::InvalidAbiHeader(found) => (
            LoadCause::BadHeader,
            format!(
                "it was built with abi_stable {}.{}, this core with {}.{}: rebuild it with this major version of plugin-api",
                found.abi_major,
                found.abi_minor,
                AbiHeader::VALUE.abi_major,
                AbiHeader::VALUE.abi_minor
            ),
        ),
        LibraryError::InvalidCAbi { .. } => (
            LoadCause::BadHeader,
            "its compiler passes arguments in another way than this core's".to_owned(),
        ),
        LibraryError::ParseVersionError(_) => (
            LoadCause::Version,
            "the version of its plugin-api is no version number".to_owned(),
        ),
        LibraryError::IncompatibleVersionNumber { actual_version, .. } => (
            LoadCause::Version,
            error::version_line(&actual_version.to_string()),
        ),
        LibraryError::RootModule {
            err: RootModuleError::Unwound,
            ..
        } => (LoadCause::RootFailed, "its root function panicked".to_owned()),
        LibraryError::RootModule {
            err: RootModuleError::Returned(text),
            ..
        } => (LoadCause::RootFailed, format!("its root function failed: {text}")),
        LibraryError::GetSymbolError { .. } => return no_symbol(),
        LibraryError::OpenError { err, .. } => return linker_error(&err.to_string()),
        other => (LoadCause::Linker, format!("abi_stable refuses it: {other}")),
    };
    LoadError::new(cause, line).with_dump(dump)
}

/// Version of the plugin-api that this host was built with, `major.minor.patch`.
pub fn api_version() -> &'static str {
    PluginRootRef::VERSION_STRINGS.version.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_linker_says_is_sorted_and_names_the_missing_part() {
        let missing = linker_error("libnccl.so.2: cannot open shared object file: No such file or directory");
        assert_eq!(missing.cause(), LoadCause::MissingDependency);
        assert!(missing.to_string().contains("libnccl.so.2"), "{missing}");
        let undefined = linker_error("undefined symbol: ncclCommShrink");
        assert_eq!(undefined.cause(), LoadCause::UndefinedSymbol);
        assert!(undefined.to_string().contains("ncclCommShrink"), "{undefined}");
        let other = linker_error("version `GLIBC_9.9' not found\n(required by x)");
        assert_eq!(other.cause(), LoadCause::Linker);
        assert_eq!(other.to_string().lines().count(), 1);
    }

    #[test]
    fn files_that_are_none_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(
            load(&dir.path().join("no.so")).unwrap_err().cause(),
            LoadCause::NotFound
        );
        assert_eq!(load(dir.path()).unwrap_err().cause(), LoadCause::NotAFile);
        assert_eq!(
            load(Path::new("/dev/null")).unwrap_err().cause(),
            LoadCause::NotAFile
        );
    }
}
