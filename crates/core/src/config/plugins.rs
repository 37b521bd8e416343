//! Readers of `[[plugin]]` entries, and which of them apply to a host under which path.

use std::fmt;
use std::path::{Path, PathBuf};

use super::declare::{Codec, Key, Shape};
use super::glob::Glob;
use super::raw::{Item, Problem, Raw, quoted};
use super::schema::{Config, PluginEntry};
use super::text::{items, list, plain};
use crate::error::{Error, ErrorKind, Result};

/// A value of a plugin's option, handed to the plugin as text.
#[derive(Debug, Clone, PartialEq)]
pub enum OptionValue {
    /// A string.
    Text(String),
    /// An integer.
    Integer(i64),
    /// A number.
    Float(f64),
    /// A boolean.
    Bool(bool),
}

/// The text that the plugin gets.
impl fmt::Display for OptionValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionValue::Text(text) => f.write_str(text),
            OptionValue::Integer(value) => write!(f, "{value}"),
            OptionValue::Float(value) => write!(f, "{value:?}"),
            OptionValue::Bool(value) => write!(f, "{value}"),
        }
    }
}

/// The hosts that an entry is for.
#[derive(Debug, Clone)]
pub struct HostPatterns(Vec<HostPattern>);

#[derive(Debug, Clone)]
struct HostPattern {
    text: String,
    excludes: bool,
    glob: Glob,
}

impl HostPatterns {
    /// Every host.
    pub(crate) fn every() -> Self {
        HostPatterns(vec![HostPattern {
            text: "*".to_owned(),
            excludes: false,
            glob: Glob::everything(),
        }])
    }

    /// Whether the host is meant: by its full name or by the part before the first dot, in any letter case.
    /// A pattern with `!` takes hosts out, whatever else fits; with such patterns alone all others are meant.
    pub fn matches(&self, host: &str) -> bool {
        let full = host.to_lowercase();
        let short = full.split('.').next().unwrap_or("");
        let fits = |pattern: &HostPattern| pattern.glob.matches(&full) || pattern.glob.matches(short);
        let mut including = self.0.iter().filter(|pattern| !pattern.excludes).peekable();
        let included = including.peek().is_none() || including.any(fits);
        included && !self.0.iter().any(|pattern| pattern.excludes && fits(pattern))
    }
}

impl PluginEntry {
    /// An entry as the API adds it: no options, priority 0, not required, for every host.
    pub fn new(kind: super::PluginKind, path: impl Into<PathBuf>) -> Self {
        PluginEntry {
            name: String::new(),
            kind,
            path: path.into(),
            options: Vec::new(),
            priority: 0,
            required: false,
            hosts: HostPatterns::every(),
            places: super::Places::api(),
        }
    }

    /// The name by which other keys call this plugin: the given one, or what the file name says, so that
    /// `libinfiniccl_net_tcp.so` is `net-tcp`.
    pub fn label(&self) -> String {
        if !self.name.is_empty() {
            return self.name.clone();
        }
        let file = self.path.file_name().unwrap_or_default().to_string_lossy();
        let stem = file.split(".so").next().unwrap_or_default();
        let stem = stem.strip_prefix("lib").unwrap_or(stem);
        stem.strip_prefix("infiniccl_").unwrap_or(stem).replace('_', "-")
    }
}

impl Config {
    /// The entries that are for `host`, highest priority first, then in the order of the file.
    ///
    /// Fails (invalid usage) if two of them have the same name, since other keys could then mean either.
    pub fn plugins_for(&self, host: &str) -> Result<Vec<&PluginEntry>> {
        let mut entries: Vec<&PluginEntry> = self
            .plugins
            .iter()
            .filter(|entry| entry.hosts.matches(host))
            .collect();
        for (i, entry) in entries.iter().enumerate() {
            if let Some(earlier) = entries[..i]
                .iter()
                .find(|earlier| earlier.label() == entry.label())
            {
                return Err(Error::new(
                    ErrorKind::InvalidUsage,
                    format!(
                        "two plugins are called `{}` on host {host}: give one of them another `name`, \
                         or keep them apart with `hosts`",
                        entry.label()
                    ),
                )
                .with("first", earlier.places.entry())
                .with("second", entry.places.entry()));
            }
        }
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.priority));
        Ok(entries)
    }

    /// Where the file of a plugin is looked for, in this order: the folder of the configuration, each of
    /// `plugin_dirs` (relative ones from the folder of the configuration), the folder of the executable.
    ///
    /// An absolute path stands for itself. All results are absolute, so that the system's loader never
    /// searches folders of its own.
    pub fn resolve_plugin(&self, entry: &PluginEntry) -> Vec<PathBuf> {
        if entry.path.is_absolute() {
            return vec![entry.path.clone()];
        }
        let base = self.folder();
        let listed = self
            .plugin_dirs
            .iter()
            .map(|folder| base.unwrap_or(self.working_folder()).join(folder));
        let mut found: Vec<PathBuf> = Vec::new();
        let folders = base.map(Path::to_path_buf).into_iter().chain(listed);
        for folder in folders.chain(self.executable_folder().map(Path::to_path_buf)) {
            let candidate = folder.join(&entry.path);
            if candidate.is_absolute() && !found.contains(&candidate) {
                found.push(candidate);
            }
        }
        found
    }
}

/// Reads [`HostPatterns`].
pub(crate) struct Hosts;

impl Codec for Hosts {
    type Value = HostPatterns;
    const TYPE: &'static str = "list of patterns with `*`, `?`, `[a-z]`; `!` in front excludes";
    const SHAPE: Shape = Shape::List;

    fn read(item: &Item, _key: &Key) -> std::result::Result<HostPatterns, Problem> {
        let mut patterns = Vec::new();
        for item in items(item, "a list of host patterns")? {
            let text = plain(item, "a host pattern")?.trim();
            let (excludes, pattern) = match text.strip_prefix('!') {
                Some(pattern) => (true, pattern.trim_start()),
                None => (false, text),
            };
            if pattern.is_empty() || pattern.contains([',', ' ', '/']) {
                return Err(Problem::new(format!("{} is no host pattern", quoted(text)))
                    .at(&item.span)
                    .suggest("write one pattern in each string, such as \"node*\" or \"!login*\""));
            }
            let glob = Glob::parse(&pattern.to_lowercase()).map_err(|m| Problem::new(m).at(&item.span))?;
            patterns.push(HostPattern {
                text: text.to_owned(),
                excludes,
                glob,
            });
        }
        if patterns.is_empty() {
            let problem =
                Problem::new("the list is empty, so the plugin would be for no host").at(&item.span);
            return Err(problem.suggest("write [\"*\"] for every host"));
        }
        Ok(HostPatterns(patterns))
    }

    fn show(value: &HostPatterns) -> String {
        list(value.0.iter().map(|pattern| pattern.text.as_str()))
    }
}

/// The name of a plugin; empty where the file name gives it.
pub(crate) struct PluginName;

impl Codec for PluginName {
    type Value = String;
    const TYPE: &'static str = "string of letters, digits, `-` and `_`";
    const SHAPE: Shape = Shape::Text;

    fn read(item: &Item, _key: &Key) -> std::result::Result<String, Problem> {
        if matches!(&item.raw, Raw::Text(text) if text.is_empty()) {
            return Ok(String::new());
        }
        let text = plain(item, "a name")?;
        if !text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
        {
            return Err(item.expected("a name of letters, digits, `-` and `_`"));
        }
        if super::TIERS.contains(&text) {
            return Err(Problem::new(format!("{} is the name of a tier", quoted(text)))
                .at(&item.span)
                .suggest("choose another name, so that path.order can tell them apart"));
        }
        Ok(text.to_owned())
    }

    fn show(value: &String) -> String {
        quoted(value)
    }
}

/// The options of a plugin: any keys, each with a plain value.
pub(crate) struct Options;

impl Codec for Options {
    type Value = Vec<(String, OptionValue)>;
    const TYPE: &'static str = "table of strings, integers, numbers and booleans";
    const SHAPE: Shape = Shape::Text;

    fn read(item: &Item, _key: &Key) -> std::result::Result<Self::Value, Problem> {
        let Raw::Table(entries) = &item.raw else {
            return Err(item.expected("a table").suggest("write { key = \"value\" }"));
        };
        let mut options = Vec::new();
        for entry in entries {
            let value = match &entry.item.raw {
                Raw::Text(text) => OptionValue::Text(text.clone()),
                Raw::Bool(value) => OptionValue::Bool(*value),
                Raw::Float(value) => OptionValue::Float(*value),
                Raw::Integer(value) => i64::try_from(*value)
                    .map(OptionValue::Integer)
                    .map_err(|_| entry.item.expected("an integer of 64 bits"))?,
                Raw::Date(_) | Raw::List(_) | Raw::Table(_) => {
                    let problem = entry.item.expected("a string, an integer, a number or a boolean");
                    return Err(problem.suggest(format!("write the option `{}` as a string", entry.name)));
                }
            };
            options.push((entry.name.clone(), value));
        }
        Ok(options)
    }

    fn show(value: &Self::Value) -> String {
        if value.is_empty() {
            return "{}".to_owned();
        }
        let pairs: Vec<String> = value
            .iter()
            .map(|(key, value)| {
                let bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
                let key = if !key.is_empty() && key.chars().all(bare) {
                    key.clone()
                } else {
                    quoted(key)
                };
                match value {
                    OptionValue::Text(text) => format!("{key} = {}", quoted(text)),
                    other => format!("{key} = {other}"),
                }
            })
            .collect();
        format!("{{ {} }}", pairs.join(", "))
    }
}
