//! Misspelt keys, sections, words and variables: each is found, placed, and the right one is named.

use super::*;

/// All ways to get one letter wrong: one dropped, doubled, changed, or swapped with its neighbour.
fn misspellings(name: &str) -> Vec<String> {
    let letters: Vec<char> = name.chars().collect();
    let mut found = Vec::new();
    for at in 0..letters.len() {
        let mut dropped = letters.clone();
        dropped.remove(at);
        let mut doubled = letters.clone();
        doubled.insert(at, letters[at]);
        let mut changed = letters.clone();
        changed[at] = if letters[at] == 'x' { 'q' } else { 'x' };
        found.extend([dropped, doubled, changed]);
        if at > 0 && letters[at] != letters[at - 1] {
            let mut swapped = letters.clone();
            swapped.swap(at, at - 1);
            found.push(swapped);
        }
    }
    let mut found: Vec<String> = found.into_iter().map(String::from_iter).collect();
    found.retain(|word| !word.is_empty() && keys().all(|key| key.name() != word));
    found.sort();
    found.dedup();
    found
}

#[test]
fn each_key_misspelt_by_one_letter_is_named_with_line_and_column() {
    for key in file_keys() {
        for wrong in misspellings(key.name()) {
            let (text, line) = file_with(key, &wrong, &key.sample());
            // A required key is missing as well, when it is misspelt.
            let found: Vec<Diagnostic> = problems(&text)
                .into_iter()
                .filter(|d| d.message.contains("unknown key"))
                .collect();
            assert_eq!(found.len(), 1, "{text}\n{found:#?}");
            let diagnostic = &found[0];
            assert_eq!(
                (diagnostic.line(), diagnostic.column()),
                (Some(line), Some(3)),
                "{text}"
            );
            assert_eq!(diagnostic.file(), Some(Path::new(FILE)));
            assert!(diagnostic.message.contains(&format!("`{wrong}`")), "{diagnostic}");
            let suggestion = diagnostic.suggestion.as_deref().unwrap_or_default();
            assert!(
                suggestion.starts_with("did you mean ") && suggestion.contains(&format!("`{}`", key.name())),
                "{wrong} for {}: {suggestion}",
                key.path()
            );
        }
    }
}

#[test]
fn each_section_misspelt_by_one_letter_is_named() {
    for section in SECTIONS
        .iter()
        .filter(|s| !s.name.is_empty() && !s.variables_only)
    {
        for wrong in misspellings(section.name) {
            let header = section.header().replace(section.name, &wrong);
            let diagnostic = problem(&format!("\n{header}\n"));
            let column = if section.repeated { 3 } else { 2 };
            assert_eq!(
                (diagnostic.line(), diagnostic.column()),
                (Some(2), Some(column)),
                "{header}"
            );
            assert_eq!(diagnostic.message, format!("unknown section `{wrong}`"));
            let suggestion = diagnostic.suggestion.as_deref().unwrap_or_default();
            assert!(suggestion.contains(&section.header()), "{header}: {suggestion}");
        }
    }
}

#[test]
fn a_missing_letter_in_a_required_key_gives_both_problems() {
    let found = problems("[[plugin]]\nknid = \"net\"\npath = \"x.so\"\n");
    let texts: Vec<String> = found.iter().map(Diagnostic::to_string).collect();
    assert_eq!(
        texts,
        [
            "conf/test.toml:1:1: `kind` is missing in [[plugin]] (add a line such as kind = \"net\")",
            "conf/test.toml:2:1: unknown key `knid` in [[plugin]] (did you mean `kind`?)",
        ]
    );
}

#[test]
fn words_of_a_list_are_suggested() {
    for (text, want) in [
        ("check = \"of\"", "did you mean \"on\" or \"off\"?"),
        ("verify = \"allways\"", "did you mean \"always\"?"),
        ("numerics = \"Strict\"", "did you mean \"strict\"?"),
        ("[path]\nfallback = \"wran\"", "did you mean \"warn\"?"),
        (
            "[network]\naddress_family = \"ipv5\"",
            "did you mean \"ipv4\" or \"ipv6\"?",
        ),
        ("[log]\nlevel = \"wran\"", "did you mean \"warn\"?"),
        (
            "[log]\nlevel = \"warn,infiniccl::exec=debgu\"",
            "did you mean \"debug\"?",
        ),
        (
            "[[rule]]\ncollective = \"allreduce\"\nalgorithm = \"ring\"",
            "did you mean \"all_reduce\"?",
        ),
        (
            "[[rule]]\ncollective = \"*\"\nalgorithm = \"rnig\"",
            "did you mean \"ring\"?",
        ),
        ("[[override]]\naction = \"emulat\"", "did you mean \"emulate\"?"),
        (
            "[[override]]\naction = \"emulate\"\ndtype = \"flaot16\"",
            "did you mean \"float16\"?",
        ),
        (
            "[[override]]\naction = \"emulate\"\nop = \"summ\"",
            "did you mean \"sum\"?",
        ),
        (
            "[[plugin]]\nkind = \"vender\"\npath = \"x\"",
            "did you mean \"vendor\"?",
        ),
    ] {
        let diagnostic = problem(text);
        assert_eq!(
            diagnostic.suggestion.as_deref(),
            Some(want),
            "{text}: {diagnostic}"
        );
    }
}

#[test]
fn each_variable_misspelt_by_one_letter_is_a_warning_with_the_right_name() {
    let known: Vec<Variable> = variables().collect();
    assert_eq!(known.len(), 8);
    for variable in &known {
        let tail = variable.name.strip_prefix(PREFIX).expect("all have the prefix");
        for wrong in misspellings(tail) {
            let wrong = format!("{PREFIX}{wrong}");
            let env = LoadEnv {
                variables: vec![(wrong.clone().into(), "x".into())],
                ..LoadEnv::default()
            };
            let config = Config::load_from(&env).expect("a warning is no error");
            let warnings = config.warnings();
            assert_eq!(warnings.len(), 1, "{wrong}");
            assert_eq!(warnings[0].severity, Severity::Warning);
            assert_eq!(warnings[0].place, Place::Variable(wrong.clone()));
            assert!(warnings[0].message.contains(&wrong), "{}", warnings[0]);
            let suggestion = warnings[0].suggestion.as_deref().unwrap_or_default();
            assert!(suggestion.contains(variable.name), "{wrong}: {suggestion}");
        }
    }
    let env = LoadEnv {
        variables: vec![
            ("INFINICCL_PMI_RANK".into(), "1".into()),
            ("OTHER_TIMEOUT".into(), "x".into()),
        ],
        ..LoadEnv::default()
    };
    assert!(
        Config::load_from(&env)
            .expect("both are none of ours")
            .warnings()
            .is_empty()
    );
}
