//! Where values come from, and what else a configuration remembers about its making.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::diagnostic::Diagnostic;
use super::schema::Config;

/// Where a value was set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Nowhere: it is the default.
    Default,
    /// In the file.
    File {
        /// The file, as it was named.
        path: Arc<Path>,
        /// The line, from 1.
        line: usize,
        /// The character in the line, from 1.
        column: usize,
    },
    /// By this environment variable.
    Variable(&'static str),
    /// By the program, through [`Config::set`].
    Api,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File { path, line, .. } => write!(f, "{}:{line}", path.display()),
            Origin::Variable(name) => write!(f, "variable {name}"),
            Origin::Api => f.write_str("API"),
        }
    }
}

/// The file that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// No file was found: all defaults, and the plugins that are compiled in.
    BuiltIn,
    /// This file, as it was named or as it stands in the search order.
    File(PathBuf),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::BuiltIn => f.write_str("built-in"),
            Source::File(path) => path.display().fmt(f),
        }
    }
}

/// Where an entry of an array of tables and its keys were written.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    entry: Origin,
    keys: Vec<(&'static str, Origin)>,
}

impl Places {
    pub(super) fn new(entry: Origin, keys: Vec<(&'static str, Origin)>) -> Self {
        Places { entry, keys }
    }

    /// Of an entry that the program made.
    pub(super) fn api() -> Self {
        Places {
            entry: Origin::Api,
            keys: Vec::new(),
        }
    }

    /// Where the entry begins.
    pub(super) fn entry(&self) -> &Origin {
        &self.entry
    }

    /// Where the key was set in this entry.
    pub(super) fn of(&self, key: &str) -> Origin {
        let written = self
            .keys
            .iter()
            .find(|(name, _)| *name == key)
            .map(|(_, origin)| origin.clone());
        written.unwrap_or(if self.entry == Origin::Api {
            Origin::Api
        } else {
            Origin::Default
        })
    }
}

/// What a configuration knows beside its values.
#[derive(Debug, Clone)]
pub(super) struct Meta {
    /// For each scalar of the schema, where it was set; the last place wins.
    places: Vec<Vec<Origin>>,
    pub(super) source: Source,
    pub(super) folder: Option<PathBuf>,
    pub(super) working_folder: PathBuf,
    pub(super) executable_folder: Option<PathBuf>,
    pub(super) warnings: Vec<Diagnostic>,
}

impl Meta {
    pub(super) fn new(scalars: usize) -> Self {
        Meta {
            places: vec![Vec::new(); scalars],
            source: Source::BuiltIn,
            folder: None,
            working_folder: PathBuf::new(),
            executable_folder: None,
            warnings: Vec::new(),
        }
    }

    /// Notes that the scalar at `index` of the schema was set.
    pub(super) fn set(&mut self, index: usize, origin: Origin) {
        self.places[index].push(origin);
    }

    /// Where the scalar was set last, and where its value was that this one replaced.
    pub(super) fn origin(&self, index: usize) -> (Origin, Option<Origin>) {
        let mut places = self.places[index].iter().rev();
        (
            places.next().cloned().unwrap_or(Origin::Default),
            places.next().cloned(),
        )
    }
}

impl Config {
    /// The file that was taken, for printing.
    pub fn origin(&self) -> &Source {
        &self.meta.source
    }

    /// The folder of the file, from which relative paths in it start; `None` without a file.
    pub fn folder(&self) -> Option<&Path> {
        self.meta.folder.as_deref()
    }

    /// The folder in which the configuration was loaded.
    pub(super) fn working_folder(&self) -> &Path {
        &self.meta.working_folder
    }

    pub(super) fn executable_folder(&self) -> Option<&Path> {
        self.meta.executable_folder.as_deref()
    }

    /// What is suspicious but no error, such as a variable with our prefix that nothing reads.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.meta.warnings
    }

    /// Logs the warnings, and the values that a variable took from the file, each once.
    ///
    /// Loading does not do this, since the log itself is set up from the configuration.
    pub fn log_warnings(&self) {
        for warning in self.warnings() {
            tracing::warn!("{warning}");
        }
        for value in self.values() {
            if let (Origin::Variable(_), Some(replaced)) = (&value.origin, &value.replaced) {
                tracing::info!(
                    "{} = {} by {}, in place of {replaced}",
                    value.key,
                    value.value,
                    value.origin
                );
            }
        }
    }
}
