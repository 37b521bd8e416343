//! Keys in the wrong section, broken syntax, odd encodings, and how problems are drawn.

use super::*;
use crate::error::{Error, ErrorKind};

#[test]
fn each_key_in_a_wrong_section_is_sent_to_its_own() {
    for key in file_keys() {
        // A section that has no key of this name.
        let taken: Vec<&str> = keys()
            .filter(|k| k.name() == key.name())
            .map(Key::section)
            .collect();
        let wrong = ["progress", "timeouts"]
            .into_iter()
            .find(|s| !taken.contains(s))
            .expect("one is free");
        let text = format!("[{wrong}]\n\t{} = {}\n", key.name(), key.sample());
        let diagnostic = problem(&text);
        assert_eq!(
            (diagnostic.line(), diagnostic.column()),
            (Some(2), Some(2)),
            "{text}"
        );
        let right = match key.section() {
            "" => "above all sections".to_owned(),
            name => SECTIONS.iter().find(|s| s.name == name).expect("known").header(),
        };
        let suggestion = diagnostic.suggestion.as_deref().unwrap_or_default();
        assert!(
            suggestion.contains(&format!("`{}` belongs", key.name())),
            "{text}{suggestion}"
        );
        assert!(suggestion.contains(&right), "{text}{suggestion}");
    }
}

#[test]
fn sections_written_as_something_else_are_explained() {
    for (text, column, message, suggestion) in [
        (
            "timeouts = 5",
            1,
            "`timeouts` is a section, found the integer 5",
            "write [timeouts]",
        ),
        (
            "[[timeouts]]\nconnect = 5",
            3,
            "`timeouts` is one section, but is written as a list",
            "write [timeouts]",
        ),
        (
            "[plugin]\nkind = \"net\"",
            2,
            "may stand several times, but is written as a single section",
            "write [[plugin]]",
        ),
        (
            "rule = [1]",
            1,
            "`rule` is a section, found a list",
            "write [[rule]]",
        ),
        (
            "[job]\nsecret = \"hush\"",
            2,
            "the keys of `job` do not stand in a file",
            "INFINICCL_SECRET",
        ),
        (
            "secret = \"hush\"",
            1,
            "unknown key `secret`",
            "is set by the variable INFINICCL_SECRET, not in a file",
        ),
        (
            "[nonsense]\nx = 1",
            2,
            "unknown section `nonsense`",
            "the sections are [path], [network]",
        ),
        (
            "nonsense = 1",
            1,
            "unknown key `nonsense`",
            "the keys here are plugin_dirs, check",
        ),
        (
            "\"timeouts.connect\" = 1",
            1,
            "unknown key `timeouts.connect`",
            "`connect` belongs in [timeouts]",
        ),
        (
            "conect = 1",
            1,
            "unknown key `conect`",
            "did you mean `connect` in [timeouts]?",
        ),
    ] {
        let diagnostic = problem(text);
        assert_eq!(
            (diagnostic.line(), diagnostic.column()),
            (Some(1), Some(column)),
            "{text}"
        );
        assert!(diagnostic.message.contains(message), "{text}\n{diagnostic}");
        assert!(
            diagnostic
                .suggestion
                .as_deref()
                .unwrap_or_default()
                .contains(suggestion),
            "{text}\n{diagnostic}"
        );
    }
}

#[test]
fn broken_syntax_is_placed_and_the_rest_is_still_checked() {
    for (text, places) in [
        (
            "[timeouts]\nconnect = 1\nconnect = 2\n",
            &[(3, 1, "`connect` is set twice")][..],
        ),
        (
            "[timeouts]\n[log]\n[timeouts]\nconect = 1\n",
            &[(3, 2, "`timeouts` is set twice"), (4, 1, "unknown key `conect`")],
        ),
        ("[log]\nlevel = debug\n", &[(2, 9, "not valid TOML")]),
        (
            "[log]\nlevel = \"debug\n[timeouts]\nconect = 1\n",
            &[(2, 15, "not valid TOML"), (4, 1, "unknown key `conect`")],
        ),
        (
            "check = \n\n[timeouts]\nconnect = 0\n",
            &[(1, 9, "not valid TOML"), (4, 11, "0 is outside")],
        ),
        ("[log\nlevel = \"info\"\n", &[(1, 5, "not valid TOML")]),
        (
            "[[plugin]]\nkind = \"net\"\npath = lib.so\n",
            &[(3, 8, "not valid TOML")],
        ),
    ] {
        let found = problems(text);
        let got: Vec<_> = found
            .iter()
            .map(|d| (d.line().unwrap_or(0), d.column().unwrap_or(0), &d.message))
            .collect();
        assert_eq!(got.len(), places.len(), "{text}\n{got:#?}");
        for (got, want) in got.iter().zip(places) {
            assert!(
                (got.0, got.1) == (want.0, want.1) && got.2.contains(want.2),
                "{text}\ngot {got:?}\nwant {want:?}"
            );
        }
    }
}

/// The shipped file with a few bytes changed at random, so that every part of it is broken once.
#[test]
fn no_text_breaks_the_reader_and_every_problem_has_a_place_in_it() {
    const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
    const ROUNDS: usize = 1500;
    let whole = shipped_file().replace("\n#", "\n");
    let mut state = SEED;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 33).expect("31 bits") % below
    };
    let noise = [
        "[", "]", "[[", "\"", "'", "=", ".", "#", "\n", "\r", "\t", "{", "}", ",", "é", "\0", "\\", "1e",
        "\"\"\"",
    ];
    let mut refused = 0;
    for round in 0..ROUNDS {
        let start = random(whole.len() - 400);
        let mut text: String = whole.chars().skip(start).take(400).collect();
        for _ in 0..1 + random(4) {
            let at = (0..=random(text.len()))
                .rev()
                .find(|at| text.is_char_boundary(*at))
                .unwrap_or(0);
            text.insert_str(at, noise[random(noise.len())]);
        }
        let Err(found) = parse(&text) else { continue };
        refused += 1;
        let lines = text.split('\n').count();
        for diagnostic in found.iter() {
            let line = diagnostic.line().expect("a place in the file");
            assert!(
                (1..=lines).contains(&line),
                "round {round}, seed {SEED:#x}: {diagnostic}\n{text}"
            );
            assert!(diagnostic.column().is_some_and(|column| column >= 1) && !diagnostic.render().is_empty());
        }
    }
    assert!(
        refused > ROUNDS / 2,
        "only {refused} of {ROUNDS} texts were refused"
    );
}

#[test]
fn all_problems_are_reported_in_the_order_of_the_file() {
    let text = "chek = \"on\"\nverify = \"maybe\"\n[timeouts]\nconnect = \"1s\"\nnone = 1\n[[rule]]\nalgorithm = \"rong\"\n";
    let found = problems(text);
    let lines: Vec<_> = found.iter().map(|d| d.line().unwrap_or(0)).collect();
    assert_eq!(lines, [1, 2, 4, 5, 6, 7], "{found:#?}");
    let keys: Vec<_> = found.iter().map(|d| d.key.as_deref().unwrap_or("-")).collect();
    assert_eq!(
        keys,
        [
            "chek",
            "verify",
            "timeouts.connect",
            "timeouts.none",
            "rule[0].collective",
            "rule[0].algorithm"
        ]
    );
}

#[test]
fn byte_order_marks_and_line_ends_of_other_systems_do_not_shift_places() {
    let marked = problem("\u{feff}chek = \"on\"\n");
    assert_eq!((marked.line(), marked.column()), (Some(1), Some(1)));
    assert_eq!(
        good("\u{feff}check = \"off\"\r\n[timeouts]\r\nconnect = 2\r\n").check,
        Check::Off
    );
    let carriage = problem("check = \"on\"\r\n[timeouts]\r\n\tconect = 2\r\n");
    assert_eq!((carriage.line(), carriage.column()), (Some(3), Some(2)));
    assert!(!carriage.render().contains('\r'), "{:?}", carriage.render());
    // Characters count, not bytes.
    let wide = problem("[[plugin]]\nkind = \"net\"\npath = \"x\"\noptions = { \"größe\" = 1, b = [] }\n");
    assert_eq!((wide.line(), wide.column()), (Some(4), Some(30)), "{wide}");
}

#[test]
fn problems_are_drawn_with_the_line_and_a_mark() {
    let text = "# one\n[timeouts]\n\tconect = 30  # a tab\ncollective = \"5min\"\n";
    let found = Config::parse(text, Path::new("conf/infiniccl.toml")).expect_err("two problems");
    let want = "\
error: unknown key `conect` in [timeouts]
 --> conf/infiniccl.toml:3:2
  |
3 | \tconect = 30  # a tab
  | \t^^^^^^
  = help: did you mean `connect`?

error: `timeouts.collective`: expected a number of seconds, found the string \"5min\"
 --> conf/infiniccl.toml:4:14
  |
4 | collective = \"5min\"
  |              ^^^^^^
  = help: write 300, without a unit: the unit is seconds

";
    assert_eq!(found.render(), want);
    let error = Error::from(found);
    assert_eq!(error.kind(), ErrorKind::InvalidUsage);
    assert_eq!(
        error.to_string(),
        "invalid usage: the configuration has 2 problems: conf/infiniccl.toml:3:2: unknown key `conect` in \
         [timeouts] (did you mean `connect`?); conf/infiniccl.toml:4:14: `timeouts.collective`: expected a number \
         of seconds, found the string \"5min\" (write 300, without a unit: the unit is seconds)"
    );
    let source = std::error::Error::source(&error).and_then(|s| s.downcast_ref::<Diagnostics>());
    assert_eq!(source.map(|d| d.iter().count()), Some(2));
}

#[test]
fn a_line_with_two_digits_keeps_its_gutter_straight() {
    let text = format!("{}chek = 1\n", "\n".repeat(9));
    let want = "\
error: unknown key `chek`
  --> conf/test.toml:10:1
   |
10 | chek = 1
   | ^^^^
   = help: did you mean `check`?
";
    assert_eq!(problem(&text).render(), want);
}

#[test]
fn control_characters_and_floods_do_not_reach_the_terminal() {
    let diagnostic = problem("\"a\\u001b[31m\" = 1\n");
    assert!(
        !diagnostic.render().contains('\u{1b}'),
        "{:?}",
        diagnostic.render()
    );
    let long = problem(&format!("chek = \"{}\"\n", "x".repeat(5000)));
    assert!(long.render().len() < 500, "{}", long.render().len());
    let noise: String = (0..3000).map(|i| format!("]{i}\n")).collect();
    let found = parse(&noise).expect_err("no configuration");
    assert!(
        found.to_string().len() < 4000 && found.to_string().ends_with("more"),
        "{found}"
    );
}
