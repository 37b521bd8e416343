//! Tests of the configuration as a whole.

mod agreement;
mod files;
mod interface;
mod load;
mod places;
mod spelling;
mod values;

use std::path::Path;

use super::*;

/// The name of the file in all tests that read a text.
const FILE: &str = "conf/test.toml";

fn parse(text: &str) -> std::result::Result<Config, Diagnostics> {
    Config::parse(text, Path::new(FILE))
}

/// The configuration of a text that has no problem.
fn good(text: &str) -> Config {
    parse(text).unwrap_or_else(|found| panic!("{text}\n{}", found.render()))
}

/// The problems of a text, which must have some.
fn problems(text: &str) -> Vec<Diagnostic> {
    match parse(text) {
        Ok(_) => panic!("this must be refused:\n{text}"),
        Err(diagnostics) => diagnostics.into_vec(),
    }
}

/// The only problem of a text.
fn problem(text: &str) -> Diagnostic {
    let mut found = problems(text);
    assert_eq!(
        found.len(),
        1,
        "one problem expected in:\n{text}\nfound:\n{found:#?}"
    );
    found.remove(0)
}

/// The keys that may stand in a file.
fn file_keys() -> Vec<&'static Key> {
    let in_file = |key: &&Key| {
        SECTIONS
            .iter()
            .any(|s| s.name == key.section() && !s.variables_only)
    };
    let found: Vec<&Key> = keys().filter(in_file).collect();
    assert!(found.len() >= 30, "the schema has lost its keys");
    found
}

/// A file with the key of the schema written as `name = value`, everything else in it being right, and the
/// line of the key.
fn file_with(key: &Key, name: &str, value: &str) -> (String, usize) {
    let mut lines: Vec<String> = vec!["# a comment".to_owned(), String::new()];
    if let Some(section) = SECTIONS
        .iter()
        .find(|s| s.name == key.section() && !s.name.is_empty())
    {
        lines.push(section.header());
        if section.repeated {
            let needed = keys().filter(|k| k.section() == section.name && k.default_text().is_none());
            lines.extend(
                needed
                    .filter(|k| k.name() != key.name())
                    .map(|k| format!("{} = {}", k.name(), k.sample())),
            );
        }
    }
    lines.push(format!("  {name} = {value}"));
    let line = lines.len();
    (lines.join("\n") + "\n", line)
}
