//! From the text of a file to values: every problem is found and placed, none is passed over.

use std::ops::Range;
use std::path::Path;

use toml::de::DeTable;

use super::declare::{Codec, Key};
use super::diagnostic::{Diagnostic, Diagnostics};
use super::misplaced;
use super::origin::{Places, Source};
use super::raw::{self, Entry, Item, Problem, Raw};
use super::report::Report;
use super::schema::{Config, OverrideEntry, PluginEntry, RuleEntry, SCALARS, entry_keys, section};

impl Config {
    /// Reads the text of a file called `path`, without touching the system.
    ///
    /// Relative paths in it start at the folder of `path`. Fails with everything that is wrong.
    pub fn parse(text: &str, path: &Path) -> Result<Config, Diagnostics> {
        let mut config = Config::defaults();
        config.meta.source = Source::File(path.to_path_buf());
        config.meta.folder = path.parent().map(Path::to_path_buf);
        let found = config.read(text, path);
        if found.is_empty() {
            Ok(config)
        } else {
            Err(Diagnostics::new(found))
        }
    }

    /// Reads the text of a file into this configuration and returns everything that is wrong.
    pub(super) fn read(&mut self, text: &str, path: &Path) -> Vec<Diagnostic> {
        // Editors of some systems put a byte-order mark in front; it says nothing in UTF-8.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut report = Report::new(path, text);
        let (parsed, errors) = DeTable::parse_recoverable(text);
        for error in &errors {
            report.syntax(error);
        }
        for entry in raw::table(parsed.get_ref()) {
            self.read_top(&entry, &mut report);
        }
        report.into_found()
    }

    fn read_top(&mut self, entry: &Entry, report: &mut Report<'_>) {
        let Some(section) = section(&entry.name) else {
            return self.read_scalar("", entry, report);
        };
        if section.variables_only {
            return report.add(
                &entry.span,
                Some(entry.name.clone()),
                misplaced::variables_only(section),
            );
        }
        match (&entry.item.raw, section.repeated) {
            (Raw::Table(entries), false) => {
                for inner in entries {
                    self.read_scalar(section.name, inner, report);
                }
            }
            (Raw::List(items), true) if items.iter().all(|item| matches!(item.raw, Raw::Table(_))) => {
                for (index, item) in items.iter().enumerate() {
                    self.read_item(section.name, index, item, report);
                }
            }
            _ => report.add(
                &entry.span,
                Some(entry.name.clone()),
                misplaced::wrong_section(section, &entry.item),
            ),
        }
    }

    fn read_scalar(&mut self, section: &str, entry: &Entry, report: &mut Report<'_>) {
        let fits = |key: &Key| key.section() == section && key.name() == entry.name;
        let Some(index) = SCALARS.iter().position(|scalar| fits(&scalar.key)) else {
            let key = path_of(section, &entry.name);
            return report.add(&entry.span, Some(key), misplaced::unknown(section, entry));
        };
        let scalar = &SCALARS[index];
        match (scalar.read)(self, &entry.item, &scalar.key) {
            Ok(()) => self.meta.set(index, report.origin(&entry.span)),
            Err(problem) => {
                let key = scalar.key.path();
                report.add(&entry.item.span, Some(key.clone()), about(&key, problem));
            }
        }
    }

    fn read_item(&mut self, table: &'static str, index: usize, item: &Item, report: &mut Report<'_>) {
        let Raw::Table(entries) = &item.raw else { return };
        let mut reader = TableReader {
            report,
            table,
            keys: entry_keys(table),
            entries,
            header: &item.span,
            label: format!("{table}[{index}]"),
            problems: Vec::new(),
        };
        reader.find_unknown();
        self.read_entry(table, &mut reader);
        for (span, key, problem) in reader.problems {
            report.add(&span, Some(key), problem);
        }
    }
}

/// Reads one entry of an array of tables.
pub(crate) struct TableReader<'a> {
    report: &'a Report<'a>,
    table: &'static str,
    keys: &'static [Key],
    entries: &'a [Entry],
    header: &'a Range<usize>,
    /// The entry in messages, such as `plugin[0]`.
    label: String,
    problems: Vec<(Range<usize>, String, Problem)>,
}

impl TableReader<'_> {
    fn find_unknown(&mut self) {
        for entry in self.entries {
            if !self.keys.iter().any(|key| key.name() == entry.name) {
                let key = format!("{}.{}", self.label, entry.name.escape_debug());
                self.problems
                    .push((entry.span.clone(), key, misplaced::unknown(self.table, entry)));
            }
        }
    }

    /// The value of the key `name`, the default where it is not written; `None` after a problem.
    pub(super) fn take<C: Codec>(
        &mut self,
        name: &'static str,
        default: Option<C::Value>,
    ) -> Option<C::Value> {
        let path = format!("{}.{name}", self.label);
        let key = self.keys.iter().find(|key| key.name() == name)?;
        let Some(entry) = self.entries.iter().find(|entry| entry.name == name) else {
            // Behind an error of syntax the key may well be there.
            if default.is_none() && !self.report.has_broken_syntax() {
                let problem = Problem::new(format!("`{name}` is missing in {}", self.header_text()))
                    .suggest(format!("add a line such as {name} = {}", key.sample()));
                self.problems.push((self.header.clone(), path, problem));
            }
            return default;
        };
        match C::read(&entry.item, key) {
            Ok(value) => Some(value),
            Err(problem) => {
                self.problems
                    .push((entry.item.span.clone(), path, about(&key.path(), problem)));
                None
            }
        }
    }

    /// Where the entry and its keys are written.
    pub(super) fn places(&self) -> Places {
        let written = |key: &'static Key| {
            let entry = self.entries.iter().find(|entry| entry.name == key.name())?;
            Some((key.name(), self.report.origin(&entry.span)))
        };
        Places::new(
            self.report.origin(self.header),
            self.keys.iter().filter_map(written).collect(),
        )
    }

    /// Whether the keys of the entry make sense together.
    pub(super) fn check(&mut self, entry: &impl Checked) -> bool {
        let Some((name, problem)) = entry.problem() else {
            return true;
        };
        let span = self
            .entries
            .iter()
            .find(|entry| entry.name == name)
            .map(|entry| entry.item.span.clone());
        self.problems.push((
            span.unwrap_or(self.header.clone()),
            format!("{}.{name}", self.label),
            about(&format!("{}.{name}", self.table), problem),
        ));
        false
    }

    fn header_text(&self) -> String {
        section(self.table).map_or(self.table.to_owned(), |section| section.header())
    }
}

/// An entry whose keys depend on each other.
pub(super) trait Checked {
    /// The key that does not fit the others, and why.
    fn problem(&self) -> Option<(&'static str, Problem)>;
}

impl Checked for PluginEntry {
    fn problem(&self) -> Option<(&'static str, Problem)> {
        None
    }
}

impl Checked for OverrideEntry {
    fn problem(&self) -> Option<(&'static str, Problem)> {
        self.contradiction()
    }
}

impl Checked for RuleEntry {
    fn problem(&self) -> Option<(&'static str, Problem)> {
        self.contradiction()
    }
}

/// The problem with the key in front.
pub(super) fn about(key: &str, problem: Problem) -> Problem {
    Problem {
        message: format!("`{key}`: {}", problem.message),
        ..problem
    }
}

/// The path of a key as it is written, fit for a message.
fn path_of(section: &str, name: &str) -> String {
    let name = name.escape_debug();
    if section.is_empty() {
        name.to_string()
    } else {
        format!("{section}.{name}")
    }
}
