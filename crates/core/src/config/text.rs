//! Readers of texts: paths, lists of words, the log's filter and file pattern, what a job is given in variables.

use std::fmt;
use std::path::{Path, PathBuf};

use super::declare::{Codec, Key, Shape};
use super::raw::{Item, Problem, Raw, quoted};
use super::suggest::did_you_mean;

/// The tiers of a path between two ranks, the best first.
pub const TIERS: &[&str] = &["vendor", "node", "direct", "staged", "tcp"];

/// The levels of the log, from nothing to everything.
const LEVELS: &[&str] = &["off", "error", "warn", "info", "debug", "trace"];

/// The text of `item`, refused if it is empty or has control characters.
pub(crate) fn plain<'a>(item: &'a Item, what: &str) -> Result<&'a str, Problem> {
    let Raw::Text(text) = &item.raw else {
        return Err(item.expected(&format!("{what} as a string")));
    };
    if text.trim().is_empty() {
        return Err(Problem::new(format!("expected {what}, found an empty string")).at(&item.span));
    }
    if text.chars().any(char::is_control) {
        return Err(Problem::new(format!("{what} cannot hold control characters")).at(&item.span));
    }
    Ok(text)
}

/// The items of a list; one string stands for a list of one.
pub(crate) fn items<'a>(item: &'a Item, what: &str) -> Result<&'a [Item], Problem> {
    match &item.raw {
        Raw::List(items) => Ok(items),
        Raw::Text(_) => Err(item.expected(what).suggest("write it in brackets: [\"…\"]")),
        _ => Err(item.expected(what)),
    }
}

/// The texts as a TOML list.
pub(crate) fn list<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    format!(
        "[{}]",
        texts.into_iter().map(quoted).collect::<Vec<_>>().join(", ")
    )
}

/// A file or folder, not empty.
pub(crate) struct FilePath;

impl Codec for FilePath {
    type Value = PathBuf;
    const TYPE: &'static str = "path";
    const SHAPE: Shape = Shape::Text;

    fn read(item: &Item, _key: &Key) -> Result<PathBuf, Problem> {
        plain(item, "a path").map(PathBuf::from)
    }

    fn show(value: &PathBuf) -> String {
        quoted(&value.to_string_lossy())
    }
}

/// Folders.
pub(crate) struct Folders;

impl Codec for Folders {
    type Value = Vec<PathBuf>;
    const TYPE: &'static str = "list of paths";
    const SHAPE: Shape = Shape::List;

    fn read(item: &Item, key: &Key) -> Result<Vec<PathBuf>, Problem> {
        items(item, "a list of folders")?
            .iter()
            .map(|item| FilePath::read(item, key))
            .collect()
    }

    fn show(value: &Vec<PathBuf>) -> String {
        let texts: Vec<_> = value.iter().map(|path| path.to_string_lossy()).collect();
        list(texts.iter().map(AsRef::as_ref))
    }
}

/// Tiers and names of plugins, the preferred first; names are checked later, when all plugins are known.
pub(crate) struct PathOrder;

impl Codec for PathOrder {
    type Value = Vec<String>;
    const TYPE: &'static str = "list of tiers and names of plugins";
    const SHAPE: Shape = Shape::List;

    fn read(item: &Item, _key: &Key) -> Result<Vec<String>, Problem> {
        let mut order: Vec<String> = Vec::new();
        for item in items(item, "a list of tiers and names of plugins")? {
            let word = plain(item, "a tier or the name of a plugin")?;
            if order.iter().any(|earlier| earlier == word) {
                return Err(Problem::new(format!("{} stands twice", quoted(word))).at(&item.span));
            }
            order.push(word.to_owned());
        }
        if order.is_empty() {
            let problem = Problem::new("the list is empty, so no path would be left").at(&item.span);
            return Err(problem.suggest(format!("the tiers are {}", TIERS.join(", "))));
        }
        Ok(order)
    }

    fn show(value: &Vec<String>) -> String {
        list(value.iter().map(String::as_str))
    }
}

/// A level, or levels by target: `warn`, `warn,infiniccl::exec=debug`.
pub(crate) struct LogFilter;

impl Codec for LogFilter {
    type Value = String;
    const TYPE: &'static str = "string: a level, or levels by target as in \"warn,infiniccl::exec=debug\"";
    const SHAPE: Shape = Shape::Text;

    fn read(item: &Item, _key: &Key) -> Result<String, Problem> {
        let text = plain(item, "a level of the log")?;
        let mut directives = Vec::new();
        for directive in text.split(',').map(str::trim) {
            let (target, level) = match directive.split_once('=') {
                Some((target, level)) => (Some(target.trim()), level.trim()),
                None => (None, directive),
            };
            let level = level.to_ascii_lowercase();
            if !LEVELS.contains(&level.as_str()) {
                let found = Problem::new(format!("{} is no level of the log", quoted(&level))).at(&item.span);
                let choices = format!("the levels are {}", LEVELS.join(", "));
                let hint = did_you_mean(&level, LEVELS.iter().copied(), quoted);
                return Err(found.suggest(hint.unwrap_or(choices)));
            }
            directives.push(match target {
                Some(target) if is_target(target) => format!("{target}={level}"),
                Some(target) => {
                    let problem = Problem::new(format!("{} is no target of the log", quoted(target)));
                    return Err(problem
                        .at(&item.span)
                        .suggest("write a module such as infiniccl::exec"));
                }
                None => level,
            });
        }
        Ok(directives.join(","))
    }

    fn show(value: &String) -> String {
        quoted(value)
    }
}

fn is_target(text: &str) -> bool {
    let inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '-');
    !text.is_empty() && text.chars().all(inside)
}

/// The pattern of the log file's path; empty for standard error.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogFile(String);

impl LogFile {
    /// The path for this process: `%h` becomes the host, `%p` the process id, `%r` the rank (`-` before it is
    /// known), `%%` a percent sign. `None` where the log goes to standard error.
    pub fn path(&self, host: &str, process: u32, rank: Option<u64>) -> Option<PathBuf> {
        if self.0.is_empty() {
            return None;
        }
        let mut out = String::new();
        let mut rest = self.0.chars();
        while let Some(c) = rest.next() {
            match (c, if c == '%' { rest.next() } else { None }) {
                ('%', Some('h')) => out.push_str(host),
                ('%', Some('p')) => out.push_str(&process.to_string()),
                ('%', Some('r')) => out.push_str(&rank.map_or("-".to_owned(), |rank| rank.to_string())),
                ('%', Some(other)) => out.push(other),
                (c, _) => out.push(c),
            }
        }
        Some(PathBuf::from(out))
    }

    /// Whether the path differs by rank, so that it cannot be opened before the rank is known.
    pub fn needs_rank(&self) -> bool {
        self.0.replace("%%", "").contains("%r")
    }
}

/// Reads a [`LogFile`].
pub(crate) struct LogPattern;

impl Codec for LogPattern {
    type Value = LogFile;
    const TYPE: &'static str = "path with %h (host), %p (process id), %r (rank); empty for standard error";
    const SHAPE: Shape = Shape::Text;

    fn read(item: &Item, _key: &Key) -> Result<LogFile, Problem> {
        if matches!(&item.raw, Raw::Text(text) if text.is_empty()) {
            return Ok(LogFile::default());
        }
        let text = plain(item, "a path")?;
        let mut rest = text.chars();
        while let Some(c) = rest.next() {
            if c == '%' && !matches!(rest.next(), Some('h' | 'p' | 'r' | '%')) {
                let problem = Problem::new(format!("{} has a `%` that stands for nothing", quoted(text)));
                return Err(problem
                    .at(&item.span)
                    .suggest("use %h, %p, %r, or %% for a percent sign"));
            }
        }
        Ok(LogFile(text.to_owned()))
    }

    fn show(value: &LogFile) -> String {
        quoted(&value.0)
    }
}

/// A text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Secret(text.into())
    }

    /// The text itself: for deriving keys, never for messages.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// The secret of a job, if it was given.
pub(crate) struct JobSecret;

impl Codec for JobSecret {
    type Value = Option<Secret>;
    const TYPE: &'static str = "text, never shown";
    const SHAPE: Shape = Shape::Text;

    fn read(item: &Item, _key: &Key) -> Result<Option<Secret>, Problem> {
        match &item.raw {
            Raw::Text(text) if !text.is_empty() => Ok(Some(Secret::new(text.as_str()))),
            // The value itself must not appear in the message.
            _ => Err(Problem::new("expected a text that is not empty")),
        }
    }

    fn show(value: &Option<Secret>) -> String {
        match value {
            Some(_) => "(set, not shown)".to_owned(),
            None => quoted(""),
        }
    }
}

/// The file that holds the secret, if one was given.
pub(crate) struct SecretFile;

impl Codec for SecretFile {
    type Value = Option<PathBuf>;
    const TYPE: &'static str = "path";
    const SHAPE: Shape = Shape::Text;

    fn read(item: &Item, _key: &Key) -> Result<Option<PathBuf>, Problem> {
        plain(item, "a path").map(|text| Some(PathBuf::from(text)))
    }

    fn show(value: &Option<PathBuf>) -> String {
        quoted(&value.as_deref().unwrap_or(Path::new("")).to_string_lossy())
    }
}

/// Where rank 0 listens, if it was given: a host and a port.
pub(crate) struct RootAddress;

impl Codec for RootAddress {
    type Value = Option<String>;
    const TYPE: &'static str = "host and port, as in 10.9.0.1:29400 or [fd00::1]:29400";
    const SHAPE: Shape = Shape::Text;

    fn read(item: &Item, _key: &Key) -> Result<Option<String>, Problem> {
        let text = plain(item, "a host and a port")?.trim();
        let (host, port) = text.rsplit_once(':').unwrap_or((text, ""));
        if !matches!(port.parse::<u16>(), Ok(1..)) || host.is_empty() {
            let problem = item.expected("a host and a port between 1 and 65535");
            return Err(problem.suggest("write it as in 10.9.0.1:29400"));
        }
        if host.contains(':') && !(host.starts_with('[') && host.ends_with(']')) {
            return Err(item
                .expected("a host and a port")
                .suggest(format!("write [{host}]:{port}")));
        }
        Ok(Some(text.to_owned()))
    }

    fn show(value: &Option<String>) -> String {
        quoted(value.as_deref().unwrap_or(""))
    }
}

/// The label of this rank's node, if one was given.
pub(crate) struct NodeLabel;

impl Codec for NodeLabel {
    type Value = Option<String>;
    const TYPE: &'static str = "text of at most 255 bytes";
    const SHAPE: Shape = Shape::Text;

    fn read(item: &Item, _key: &Key) -> Result<Option<String>, Problem> {
        let text = plain(item, "a label")?;
        if text.len() > 255 {
            return Err(Problem::new(format!(
                "the label has {} bytes, the most is 255",
                text.len()
            )));
        }
        Ok(Some(text.to_owned()))
    }

    fn show(value: &Option<String>) -> String {
        quoted(value.as_deref().unwrap_or(""))
    }
}
