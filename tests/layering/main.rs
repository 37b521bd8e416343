//! Holds the shape of the code: who may use whom in the core, where unsafe code and abi_stable stay, file sizes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The modules of the core and those they may use. Data flows one way: api, plan, schedule, exec, plugin.
/// `capability` and `topology` feed the plan alone; `call` (what is asked), `error`, `config` and `trace` are leaves.
const EDGES: &[(&str, &[&str])] = &[
    ("error", &[]),
    ("call", &["error"]),
    ("config", &["error"]),
    ("trace", &["error", "config"]),
    ("schedule", &["error"]),
    ("algo", &["schedule", "error"]),
    ("topology", &["error"]),
    ("capability", &["call", "error"]),
    (
        "plan",
        &["capability", "topology", "algo", "schedule", "call", "error"],
    ),
    ("plugin", &["config", "trace", "error"]),
    ("bootstrap", &["config", "trace", "error"]),
    (
        "exec",
        &[
            "schedule",
            "plugin",
            "bootstrap",
            "call",
            "config",
            "trace",
            "error",
        ],
    ),
    (
        "api",
        &[
            "plan",
            "exec",
            "schedule",
            "bootstrap",
            "capability",
            "topology",
            "plugin",
            "call",
            "config",
            "trace",
            "error",
        ],
    ),
];

/// Names that the root of the core re-exports, and the module that each comes from; `None` for other crates.
const REEXPORTS: &[(&str, Option<&str>)] = &[
    ("DataType", None),
    ("ReduceOp", None),
    ("Error", Some("error")),
    ("ErrorKind", Some("error")),
    ("Result", Some("error")),
    ("UniqueId", Some("bootstrap")),
    ("Collective", Some("call")),
    ("RedOp", Some("call")),
    ("Element", None),
    ("F8E4M3", None),
    ("F8E5M2", None),
];

/// Modules that are pure functions of plain data.
const WITHOUT_UNSAFE: &[&str] = &["plan", "algo", "schedule", "capability", "topology"];

/// A file that is longer wants to be split by job.
const LONGEST_FILE: usize = 500;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_path_buf()
}

/// All Rust files of the repository below `folder`.
fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() && !name.starts_with('.') && name != "target" {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// The code of a file without its comments and without what only tests compile.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let mut kept = String::new();
    for line in text.lines() {
        // Unit tests stand at the end of a file.
        if line.starts_with("#[cfg(test)]") {
            break;
        }
        kept += line.split("//").next().unwrap();
        kept.push('\n');
    }
    kept
}

/// Whether only tests compile the file: a module declared under `cfg(test)`, or a part of one.
fn is_test_file(path: &Path, core: &Path) -> bool {
    let mut part = path.to_path_buf();
    while part != core {
        let stem = part.file_stem().unwrap().to_str().unwrap().to_string();
        part.pop();
        for parent in [
            part.join("mod.rs"),
            part.with_extension("rs"),
            part.join("lib.rs"),
        ] {
            let text = fs::read_to_string(parent).unwrap_or_default();
            let mut lines = text.lines().map(str::trim);
            while let Some(line) = lines.next() {
                let declares = |l: &str| l.trim_start_matches("pub(crate) ") == format!("mod {stem};");
                if line.starts_with("#[cfg(test)]") && lines.next().is_some_and(declares) {
                    return true;
                }
            }
        }
    }
    false
}

/// The names right behind each `crate::` in `code`: of a path, or of each path of a list in braces.
fn used_names(code: &str) -> Vec<String> {
    let identifier = |text: &str| -> String {
        text.chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect()
    };
    let mut names = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let boundary = code[..at].chars().next_back();
        if boundary.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '$') {
            continue;
        }
        let rest = &code[at + "crate::".len()..];
        let Some(list) = rest.strip_prefix('{') else {
            names.push(identifier(rest));
            continue;
        };
        let mut depth = 0;
        let mut start = 0;
        for (i, c) in list.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth > 0 => depth -= 1,
                ',' | '}' if depth == 0 => {
                    names.push(identifier(list[start..i].trim_start()));
                    start = i + 1;
                    if c == '}' {
                        break;
                    }
                }
                _ => {}
            }
        }
    }
    names.retain(|name| !name.is_empty() && name != "self");
    names
}

/// The module of the core that a file belongs to; `None` for the root.
fn module_of(path: &Path, core: &Path) -> Option<String> {
    let first = path.strip_prefix(core).unwrap().components().next().unwrap();
    let name = Path::new(first.as_os_str())
        .file_stem()
        .unwrap()
        .to_str()
        .unwrap();
    (name != "lib").then(|| name.to_string())
}

#[test]
fn modules_of_the_core_use_only_what_lies_below_them() {
    let core = root().join("crates/core/src");
    let allowed: BTreeMap<_, _> = EDGES.iter().copied().collect();
    let mut wrong = BTreeSet::new();
    let mut files = 0;
    for path in rust_files(&core) {
        let Some(module) = module_of(&path, &core) else {
            continue;
        };
        if is_test_file(&path, &core) {
            continue;
        }
        files += 1;
        let shown = path.strip_prefix(&core).unwrap().display().to_string();
        let Some(below) = allowed.get(module.as_str()) else {
            wrong.insert(format!("{shown}: module '{module}' is not in the table of EDGES"));
            continue;
        };
        for name in used_names(&code(&path)) {
            let target = match REEXPORTS.iter().find(|(n, _)| *n == name) {
                Some((_, None)) => continue,
                Some((_, Some(module))) => module.to_string(),
                None => name,
            };
            if target != module && !below.contains(&target.as_str()) {
                wrong.insert(format!("{shown}: '{module}' uses '{target}'"));
            }
        }
    }
    assert!(files > 50, "only {files} files looked at");
    assert!(
        wrong.is_empty(),
        "{}",
        wrong.into_iter().collect::<Vec<_>>().join("\n")
    );
}

#[test]
fn the_table_itself_has_no_way_up() {
    for (i, (module, below)) in EDGES.iter().enumerate() {
        for target in *below {
            let at = EDGES
                .iter()
                .position(|(m, _)| m == target)
                .expect("a module of the table");
            assert!(at < i, "'{module}' uses '{target}', which stands above it");
        }
    }
}

#[test]
fn pure_modules_forbid_unsafe_code() {
    let core = root().join("crates/core/src");
    for module in WITHOUT_UNSAFE {
        let file = [
            core.join(format!("{module}/mod.rs")),
            core.join(format!("{module}.rs")),
        ]
        .into_iter()
        .find(|f| f.is_file());
        let file = file.unwrap_or_else(|| panic!("the core has no module '{module}'"));
        let text = fs::read_to_string(&file).unwrap();
        assert!(
            text.contains("#![forbid(unsafe_code)]"),
            "{} does not forbid unsafe code",
            file.display()
        );
    }
}

#[test]
fn only_plugin_api_names_abi_stable() {
    let root = root();
    let mut manifests = 0;
    for folder in ["crates", "plugins", "tests", "xtask", "benches"] {
        let mut folders = vec![root.join(folder)];
        while let Some(folder) = folders.pop() {
            let Ok(entries) = fs::read_dir(&folder) else {
                continue;
            };
            for path in entries.map(|e| e.unwrap().path()) {
                if path.is_dir() && !path.ends_with("target") {
                    folders.push(path);
                } else if path.ends_with("Cargo.toml") {
                    manifests += 1;
                    let named = fs::read_to_string(&path).unwrap().contains("abi_stable");
                    let ours = path.ends_with("plugin-api/Cargo.toml");
                    assert_eq!(named, ours, "{}", path.display());
                }
            }
        }
    }
    assert!(manifests >= 6, "only {manifests} manifests looked at");
    for path in [
        "crates/core/src",
        "crates/cli/src",
        "crates/testkit/src",
        "plugins",
    ]
    .map(|p| root.join(p))
    {
        for file in rust_files(&path) {
            assert!(
                !code(&file).contains("abi_stable::"),
                "{} names abi_stable",
                file.display()
            );
        }
    }
}

#[test]
fn files_are_short_and_begin_with_their_job() {
    let root = root();
    let mut wrong = Vec::new();
    for folder in ["crates", "plugins", "tests", "xtask", "benches", "examples"] {
        if !root.join(folder).is_dir() {
            continue;
        }
        for path in rust_files(&root.join(folder)) {
            let text = fs::read_to_string(&path).unwrap();
            let shown = path.strip_prefix(&root).unwrap().display();
            let lines = text.lines().count();
            if lines > LONGEST_FILE {
                wrong.push(format!("{shown} has {lines} lines"));
            }
            if !text.starts_with("//! ") {
                wrong.push(format!("{shown} does not begin with a line that says its job"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_reader_of_paths_sees_them_all() {
    let text = "use crate::a::B; use crate::{c::{D, E}, f, G}; crate::h::i(); $crate::j; mycrate::k;";
    assert_eq!(used_names(text), ["a", "c", "f", "G", "h"]);
}
