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

#[test]
fn the_shipped_file_holds_as_it_is_and_changes_nothing_but_the_plugins() {
    let config = good(&shipped_file());
    for value in config
        .values()
        .iter()
        .filter(|value| !value.key.starts_with("plugin["))
    {
        assert_eq!(value.origin, Origin::Default, "{}", value.key);
    }
    let plugins: Vec<_> = config
        .plugins
        .iter()
        .map(|e| (e.label(), e.kind, e.required))
        .collect();
    let want = [
        ("host", PluginKind::Vendor, false),
        ("net-tcp", PluginKind::Net, false),
    ];
    assert_eq!(
        plugins,
        want.map(|(name, kind, required)| (name.to_owned(), kind, required))
    );
    for entry in &config.plugins {
        let file = PluginEntry::new(entry.kind, &entry.path);
        assert_eq!(file.label(), entry.label(), "the name is what the file name says");
    }
}

#[test]
fn every_key_of_the_shipped_file_holds_without_its_mark() {
    let text: String = shipped_file()
        .lines()
        .map(|line| match line.strip_prefix('#') {
            Some(key) if !key.is_empty() && !key.starts_with(' ') => format!("{key}\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    let config = good(&text);
    let values = config.values();
    for key in file_keys() {
        let set = values.iter().any(|value| {
            let entry = value
                .key
                .strip_prefix(key.section())
                .and_then(|rest| rest.split_once("]."));
            let same = value.key == key.path() || entry.is_some_and(|(_, name)| name == key.name());
            same && matches!(value.origin, Origin::File { .. })
        });
        assert!(set, "{} is missing in the shipped file", key.path());
    }
    assert_eq!((config.overrides.len(), config.rules.len()), (1, 1));
}

#[test]
fn the_reference_explains_every_key_and_variable() {
    let text = reference_markdown();
    for key in file_keys() {
        assert!(text.contains(&format!("| `{}`", key.name())), "{}", key.path());
        assert!(key.help().len() > 10, "{} has no help", key.path());
    }
    for variable in variables() {
        assert!(
            text.contains(&format!("| `{}` |", variable.name)),
            "{}",
            variable.name
        );
    }
}
