//! The two files that are written from the declarations.

use std::path::PathBuf;

use super::*;

/// Compares a file of the repository with the generated text, or writes it if `UPDATE_DOCS` is set.
fn compare(path: &str, generated: &str) {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&file, generated).expect("the file of the repository can be written");
    }
    let found = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{path}: {error}"));
    let differs = found.lines().zip(generated.lines()).position(|(a, b)| a != b);
    assert!(
        found == generated,
        "{path} is not what the declarations say (first other line: {:?}): run UPDATE_DOCS=1 cargo test -p infiniccl config",
        differs.map(|line| line + 1)
    );
}

#[test]
fn the_reference_is_what_the_declarations_say() {
    compare("docs/configuration.md", &reference_markdown());
}

#[test]
fn the_shipped_file_is_what_the_declarations_say() {
    compare("conf/infiniccl.toml", &shipped_file());
}
