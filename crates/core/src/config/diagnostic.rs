//! What is wrong with a configuration: place, message, suggestion, and the picture of the line.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, ErrorKind};

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The configuration cannot be used.
    Error,
    /// It can be used, but hardly as it was meant.
    Warning,
}

/// What the problem is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A place in the file.
    File {
        /// The file, as it was named.
        path: Arc<Path>,
        /// The line, from 1.
        line: usize,
        /// The character in the line, from 1.
        column: usize,
    },
    /// The file as a whole.
    WholeFile(Arc<Path>),
    /// An environment variable.
    Variable(String),
    /// A call of [`Config::set`](super::Config::set), or an entry that the program added.
    Api,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File { path, line, column } => write!(f, "{}:{line}:{column}", path.display()),
            Place::WholeFile(path) => write!(f, "{}", path.display()),
            Place::Variable(name) => write!(f, "variable {}", name.escape_debug()),
            Place::Api => f.write_str("API"),
        }
    }
}

/// One problem. `Display` is one line; [`Diagnostic::render`] draws the line of the file as well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// Where it is.
    pub place: Place,
    /// The key that it is about, as far as it is about one: `timeouts.connect`, `plugin[0].path`.
    pub key: Option<String>,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub suggestion: Option<String>,
    pub(super) picture: Option<Picture>,
}

/// The line of the file, and the part of it that is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Picture {
    /// The line, without control characters.
    pub(super) line: String,
    /// How many characters stand before the part.
    pub(super) before: usize,
    /// How many characters the part has.
    pub(super) width: usize,
}

impl Diagnostic {
    pub(super) fn new(severity: Severity, place: Place, message: impl Into<String>) -> Self {
        Diagnostic {
            severity,
            place,
            key: None,
            message: message.into(),
            suggestion: None,
            picture: None,
        }
    }

    /// The file, where it is about one.
    pub fn file(&self) -> Option<&Path> {
        match &self.place {
            Place::File { path, .. } | Place::WholeFile(path) => Some(path),
            Place::Variable(_) | Place::Api => None,
        }
    }

    /// The line in the file, from 1.
    pub fn line(&self) -> Option<usize> {
        match self.place {
            Place::File { line, .. } => Some(line),
            _ => None,
        }
    }

    /// The character in the line, from 1.
    pub fn column(&self) -> Option<usize> {
        match self.place {
            Place::File { column, .. } => Some(column),
            _ => None,
        }
    }

    /// Several lines: the message, the place, the line of the file with the part underlined, the suggestion.
    pub fn render(&self) -> String {
        let title = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let gutter = self.line().map_or(1, |line| line.to_string().len());
        let mut out = format!("{title}: {}\n", self.message);
        out.push_str(&format!("{:gutter$}--> {}\n", "", self.place));
        if let (Some(line), Some(picture)) = (self.line(), &self.picture) {
            // Tabs are repeated, so that the marks stand under the part whatever a tab's width.
            let indent: String = picture
                .line
                .chars()
                .take(picture.before)
                .map(|c| if c == '\t' { '\t' } else { ' ' })
                .collect();
            out.push_str(&format!("{:gutter$} |\n", ""));
            out.push_str(&format!("{line:gutter$} | {}\n", picture.line));
            out.push_str(&format!(
                "{:gutter$} | {indent}{}\n",
                "",
                "^".repeat(picture.width.max(1))
            ));
        }
        if let Some(suggestion) = &self.suggestion {
            out.push_str(&format!("{:gutter$} = help: {suggestion}\n", ""));
        }
        out
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)?;
        match &self.suggestion {
            Some(suggestion) => write!(f, " ({suggestion})"),
            None => Ok(()),
        }
    }
}

/// Everything that is wrong with one configuration; at least one problem.
#[derive(Debug, Clone)]
pub struct Diagnostics(Vec<Diagnostic>);

impl Diagnostics {
    pub(super) fn new(mut list: Vec<Diagnostic>) -> Self {
        list.sort_by_key(|d| (d.line().unwrap_or(usize::MAX), d.column().unwrap_or(usize::MAX)));
        Diagnostics(list)
    }

    /// Fails if there are any: for what [`Config::unknown_plugin_names`](super::Config::unknown_plugin_names) and
    /// [`Config::impossible_rules`](super::Config::impossible_rules) found.
    pub fn none_in(found: Vec<Diagnostic>) -> Result<(), Diagnostics> {
        if found.is_empty() {
            Ok(())
        } else {
            Err(Diagnostics::new(found))
        }
    }

    /// The problems, in the order of the file.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.0.iter()
    }

    /// The problems, in the order of the file.
    pub fn into_vec(self) -> Vec<Diagnostic> {
        self.0
    }

    /// All problems drawn, with an empty line after each.
    pub fn render(&self) -> String {
        self.0.iter().map(|d| d.render() + "\n").collect()
    }
}

/// One line with all problems.
impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// A file that is no configuration at all has thousands; the first ones tell that.
        const MOST: usize = 10;
        for (i, diagnostic) in self.0.iter().take(MOST).enumerate() {
            write!(f, "{}{diagnostic}", if i == 0 { "" } else { "; " })?;
        }
        match self.0.len().saturating_sub(MOST) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

impl std::error::Error for Diagnostics {}

/// Invalid usage, with the diagnostics as the source, from where a program can take them to draw them.
impl From<Diagnostics> for Error {
    fn from(diagnostics: Diagnostics) -> Self {
        let message = match diagnostics.0.len() {
            1 => "the configuration has a problem".to_owned(),
            n => format!("the configuration has {n} problems"),
        };
        Error::new(ErrorKind::InvalidUsage, message).with_source(diagnostics)
    }
}
