//! Why a plugin was not loaded: a cause to branch on, one line to print, and the details for the debug log.

use std::fmt;

/// The sort of reason for which a file was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LoadCause {
    /// There is no such file.
    NotFound,
    /// It is a directory, a device, a pipe.
    NotAFile,
    /// The file cannot be read.
    NotReadable,
    /// It is no ELF file.
    NotElf,
    /// It is an ELF file for another machine, or no shared object.
    WrongElf,
    /// It ends before its own tables say so.
    CutShort,
    /// A library that it needs is missing.
    MissingDependency,
    /// A symbol that it needs is missing.
    UndefinedSymbol,
    /// The dynamic linker refused it for another reason.
    Linker,
    /// It does not export the root.
    NoPlugin,
    /// The header before the root is not the expected one.
    BadHeader,
    /// Its plugin-api has another major version.
    Version,
    /// Its tables differ from those of this core.
    Layout,
    /// The function that makes its root failed.
    RootFailed,
    /// Its root is inconsistent.
    BadRoot,
}

/// A plugin that was not loaded. `Display` is one line that says what differs, without the path.
#[derive(Debug, Clone)]
pub struct LoadError {
    cause: LoadCause,
    line: String,
    dump: String,
}

impl LoadError {
    pub(crate) fn new(cause: LoadCause, line: impl Into<String>) -> Self {
        LoadError {
            cause,
            line: one_line(&line.into()),
            dump: String::new(),
        }
    }

    pub(crate) fn with_dump(mut self, dump: String) -> Self {
        self.dump = dump;
        self
    }

    /// The sort of reason.
    pub fn cause(&self) -> LoadCause {
        self.cause
    }

    /// Details of many lines for the debug log; empty when the line says all.
    pub fn dump(&self) -> &str {
        &self.dump
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line)
    }
}

impl std::error::Error for LoadError {}

/// The line for a plugin of another major version.
pub(super) fn version_line(found: &str) -> String {
    format!(
        "it was built with plugin-api {found}, this core has {}: the major versions must be equal, so rebuild the plugin",
        super::api_version()
    )
}

/// `text` with all runs of white space and control characters turned into single spaces.
fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for word in text
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|w| !w.is_empty())
    {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    line
}
