//! Keys and sections that do not belong where they stand: what was meant, and where it belongs.

use super::declare::{Key, Section};
use super::raw::{Entry, Item, Problem, Raw};
use super::schema::{SECTIONS, keys};
use super::suggest::{did_you_mean, nearest};

/// An unknown key of `section`, which is empty above all sections.
pub(super) fn unknown(section: &str, entry: &Entry) -> Problem {
    let name = entry.name.as_str();
    let shown = name.escape_debug();
    let is_section = section.is_empty() && is_table(&entry.item);
    let message = if is_section {
        format!("unknown section `{shown}`")
    } else if section.is_empty() {
        format!("unknown key `{shown}`")
    } else {
        format!("unknown key `{shown}` in {}", header(section))
    };
    let problem = Problem::new(message);
    if is_section {
        return match did_you_mean(name, section_names(), header) {
            Some(hint) => problem.suggest(hint),
            None => problem.suggest(format!("the sections are {}", all_headers())),
        };
    }
    match place_of(section, name) {
        Some(hint) => problem.suggest(hint),
        None => problem.suggest(format!(
            "the keys here are {}",
            names_in(section).collect::<Vec<_>>().join(", ")
        )),
    }
}

/// Where a key called `name` belongs, or which key was meant.
fn place_of(section: &str, name: &str) -> Option<String> {
    // `timeouts.connect` in quotes, or the right key in another section.
    if let Some(key) = keys().find(|key| key.path() == name) {
        return Some(belongs(key));
    }
    let elsewhere: Vec<&Key> = keys()
        .filter(|key| key.name() == name && key.section() != section)
        .collect();
    if !elsewhere.is_empty() {
        return Some(elsewhere.into_iter().map(belongs).collect::<Vec<_>>().join("; "));
    }
    let tick = |name: &str| format!("`{name}`");
    if let Some(hint) = did_you_mean(name, names_in(section), tick) {
        return Some(hint);
    }
    if section.is_empty()
        && let Some(hint) = did_you_mean(name, section_names(), header)
    {
        return Some(hint);
    }
    let near = nearest(name, keys().map(Key::name));
    let found: Vec<String> = keys()
        .filter(|key| key.section() != section && near.contains(&key.name()))
        .take(3)
        .map(|key| format!("`{}` {}", key.name(), whereabouts(key)))
        .collect();
    (!found.is_empty()).then(|| format!("did you mean {}?", found.join(" or ")))
}

fn belongs(key: &Key) -> String {
    match key.variable() {
        Some(variable) if from_variables(key.section()) => {
            format!(
                "`{}` is set by the variable {variable}, not in a file",
                key.name()
            )
        }
        _ => format!("`{}` belongs {}", key.name(), whereabouts(key)),
    }
}

fn whereabouts(key: &Key) -> String {
    match key.section() {
        "" => "above all sections".to_owned(),
        section => format!("in {}", header(section)),
    }
}

/// A section that is written as something else.
pub(super) fn wrong_section(section: &Section, item: &Item) -> Problem {
    let name = section.name;
    let message = match (&item.raw, section.repeated) {
        (Raw::Table(_), true) => {
            format!("`{name}` may stand several times, but is written as a single section")
        }
        (Raw::List(_), false) => format!("`{name}` is one section, but is written as a list"),
        _ => format!("`{name}` is a section, found {}", item.describe()),
    };
    Problem::new(message).suggest(format!("write {} and its keys below", section.header()))
}

/// A section whose keys do not come from a file.
pub(super) fn variables_only(section: &Section) -> Problem {
    let variables: Vec<&str> = keys()
        .filter(|key| key.section() == section.name)
        .filter_map(Key::variable)
        .collect();
    Problem::new(format!(
        "the keys of `{}` do not stand in a file, since they differ by job",
        section.name
    ))
    .suggest(format!("set the variables {}", variables.join(", ")))
}

fn is_table(item: &Item) -> bool {
    match &item.raw {
        Raw::Table(_) => true,
        Raw::List(items) => !items.is_empty() && items.iter().all(|item| matches!(item.raw, Raw::Table(_))),
        _ => false,
    }
}

fn from_variables(section: &str) -> bool {
    SECTIONS.iter().any(|s| s.name == section && s.variables_only)
}

fn names_in(section: &str) -> impl Iterator<Item = &'static str> {
    keys().filter(move |key| key.section() == section).map(Key::name)
}

fn section_names() -> impl Iterator<Item = &'static str> {
    SECTIONS
        .iter()
        .filter(|s| !s.name.is_empty() && !s.variables_only)
        .map(|s| s.name)
}

fn header(name: &str) -> String {
    SECTIONS
        .iter()
        .find(|s| s.name == name)
        .map_or_else(|| format!("[{name}]"), Section::header)
}

fn all_headers() -> String {
    section_names().map(header).collect::<Vec<_>>().join(", ")
}
