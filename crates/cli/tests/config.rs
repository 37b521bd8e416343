//! `infiniccl config check`: each key of the schema misspelt once, and what else goes wrong with files.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use infiniccl::config::{SECTIONS, keys};
use serde_json::Value;

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("infiniccl-config-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn check(&self, text: &[u8], more: &[&str]) -> Output {
        fs::write(self.0.join("test.toml"), text).unwrap();
        self.infiniccl(&[&["config", "check", "--config", "test.toml"], more].concat())
    }

    fn infiniccl(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_infiniccl"))
            .args(arguments)
            .current_dir(&self.0)
            .env_remove("INFINICCL_CONFIG")
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn problems(output: &Output) -> Vec<Value> {
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(object["ok"] == true, output.status.success());
    object["problems"].as_array().unwrap().clone()
}

/// The name with two letters exchanged, or one more where it has but one.
fn misspelt(name: &str) -> String {
    let mut letters: Vec<char> = name.chars().collect();
    let last = letters.len() - 1;
    match letters.windows(2).rposition(|pair| pair[0] != pair[1]) {
        Some(at) => letters.swap(at, at + 1),
        None => letters.push(letters[last]),
    }
    letters.into_iter().collect()
}

#[test]
fn each_key_misspelt_once_is_named_with_line_column_and_the_right_key() {
    let folder = Folder::new("misspelt");
    let mut tried = 0;
    for key in keys() {
        let section = SECTIONS
            .iter()
            .find(|s| s.name == key.section())
            .expect("the section of a key");
        if section.variables_only {
            continue;
        }
        let wrong = misspelt(key.name());
        let header = if section.name.is_empty() {
            String::new()
        } else {
            section.header() + "\n"
        };
        let text = format!("# one line above\n{header}  {wrong} = 1\n");
        let line = text.lines().count();
        let found = problems(&folder.check(text.as_bytes(), &["--json"]));
        let problem = found
            .iter()
            .find(|p| p["line"] == line)
            .unwrap_or_else(|| panic!("{}: no problem in line {line}: {found:?}", key.path()));
        assert_eq!(problem["column"], 3, "{}: {problem}", key.path());
        let words = format!("{} {}", problem["message"], problem["suggestion"]);
        assert!(
            words.contains(&wrong) && words.contains(&format!("`{}`", key.name())),
            "{}: {words}",
            key.path()
        );
        tried += 1;
    }
    assert!(tried > 20, "only {tried} keys");
}

#[test]
fn a_person_sees_the_place_the_line_and_the_remedy() {
    let folder = Folder::new("picture");
    let output = folder.check(b"[timeouts]\nconect = 3\n", &[]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    for part in [
        "configuration: test.toml",
        "test.toml:2:1",
        "conect = 3",
        "^^^^^^",
        "connect",
        "1 error",
    ] {
        assert!(text.contains(part), "no '{part}' in: {text}");
    }
}

#[test]
fn files_that_are_none_and_files_that_are_well() {
    let folder = Folder::new("files");
    assert!(
        folder
            .check(b"[timeouts]\r\nconnect = 3.5\r\n", &[])
            .status
            .success()
    );
    assert!(
        !folder
            .check(b"[timeouts]\nconnect = \xff\n", &[])
            .status
            .success()
    );
    assert!(
        !folder
            .check(b"[timeouts]\nconnect = 1\nconnect = 2\n", &[])
            .status
            .success()
    );
    assert!(
        !folder
            .check(
                b"[[plugin]]\nkind = \"vendor\"\npath = \"libnone.so\"\nrequired = true\n",
                &[]
            )
            .status
            .success()
    );

    let missing = folder.infiniccl(&["config", "check", "--config", "absent.toml"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&missing.stdout).contains("absent.toml"));

    fs::remove_file(folder.0.join("test.toml")).unwrap();
    let default = folder.infiniccl(&["config", "check"]);
    assert!(default.status.success());
    assert!(String::from_utf8_lossy(&default.stdout).contains("configuration: "));
}
