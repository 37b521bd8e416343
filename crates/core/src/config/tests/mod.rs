//! Tests of the configuration as a whole.

mod files;

use std::path::Path;

use super::*;

/// The name of the file in all tests that read a text.
const FILE: &str = "conf/test.toml";

fn parse(text: &str) -> std::result::Result<Config, Diagnostics> {
    Config::parse(text, Path::new(FILE))
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
