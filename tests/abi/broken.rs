//! Broken plugins: each is refused in exactly one line that tells it from all others, and none brings the process
//! down.

use crate::fixtures::{Fixtures, SYMBOL, c_library, compile};
use crate::survey;
use infiniccl::plugin::{PluginRow, PluginStatus};
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

/// An ELF header of 64 bytes, and nothing behind it.
fn elf_header(class: u8, machine: u16) -> Vec<u8> {
    let mut bytes = vec![0_u8; 64];
    bytes[..7].copy_from_slice(&[
        0x7f,
        b'E',
        b'L',
        b'F',
        class,
        if cfg!(target_endian = "little") { 1 } else { 2 },
        1,
    ]);
    bytes[16..18].copy_from_slice(&3_u16.to_ne_bytes());
    bytes[18..20].copy_from_slice(&machine.to_ne_bytes());
    bytes
}

/// C source of a library that exports the symbol of a plugin, with a header that begins like this.
fn c_header(magic: &str, major: u32, minor: u32) -> String {
    format!(
        "struct {{ char magic[32]; unsigned major, minor; char rest[4096]; }} {SYMBOL} = \
         {{ \"{magic}\", {major}, {minor}, {{0}} }};\n"
    )
}

/// What the plugins of this file are built from.
struct Workshop {
    folder: tempfile::TempDir,
    cases: Vec<(PathBuf, &'static str)>,
}

impl Workshop {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn bytes(&mut self, name: &str, bytes: &[u8], reason: &'static str) {
        let path = self.path(name);
        fs::write(&path, bytes).unwrap();
        self.cases.push((path, reason));
    }

    fn c(&mut self, name: &str, source: &str, arguments: &[&str], reason: &'static str) {
        let path = c_library(self.folder.path(), name, source, arguments);
        self.cases.push((path, reason));
    }

    fn variant(&mut self, name: &str, reason: &'static str) {
        self.cases.push((Fixtures::get().variant(name), reason));
    }
}

#[test]
fn every_broken_plugin_is_refused_in_one_line_of_its_own() {
    let mut shop = Workshop {
        folder: tempfile::tempdir().unwrap(),
        cases: Vec::new(),
    };
    let sound = fs::read(Fixtures::get().plugin("present")).unwrap();

    // Files that are no libraries of this machine.
    shop.bytes("empty.so", b"", "the file is empty");
    shop.bytes("text.so", b"#!/bin/sh\nexit 0\n", "it is no ELF file");
    let folder = shop.path("folder.so");
    fs::create_dir(&folder).unwrap();
    shop.cases.push((folder, "it is a directory"));
    shop.bytes("narrow.so", &elf_header(1, 3), "it is a 32-bit library");
    shop.bytes("foreign.so", &elf_header(2, 22), "it was built for s390x");
    shop.bytes("cut.so", &sound[..sound.len() / 2], "the file is cut short");
    let object = shop.path("object.so");
    compile("int nothing;\n", &object, &["-c"]);
    shop.cases
        .push((object, "it is an object file that was not linked"));

    // Libraries that the dynamic linker refuses.
    let needed = c_library(
        shop.folder.path(),
        "needed_for_test",
        "int needed(void) { return 1; }\n",
        &[],
    );
    let header = c_header("", 0, 0);
    let uses = format!("int needed(void);\nint use(void) {{ return needed(); }}\n{header}");
    shop.c(
        "orphan",
        &uses,
        &[needed.to_str().unwrap(), "-Wl,-soname,liborphan.so"],
        "it needs ",
    );
    fs::remove_file(&needed).unwrap();
    let uses =
        format!("int nobody_defines_me(void);\nint use(void) {{ return nobody_defines_me(); }}\n{header}");
    shop.c("undefined", &uses, &[], "it needs the symbol nobody_defines_me");

    // Libraries that are no plugins, or were plugins in another life. No code of a stranger runs.
    let stranger = "__attribute__((constructor)) static void start(void) { __builtin_trap(); }\n";
    shop.c("stranger", stranger, &[], "it is no InfiniCCL plugin");
    shop.c(
        "small",
        &format!("long {SYMBOL} = 1;\n"),
        &[],
        "its header is 8 bytes",
    );
    shop.c("magic", &header, &[], "its header has the wrong magic");
    let old = c_header("abi stable library for Rust     ", 0, 10);
    shop.c("old", &old, &[], "it was built with abi_stable 0.10");

    // Plugins that break the rules of the ABI.
    shop.cases.push((
        Fixtures::get().plugin("signature"),
        "its tables (plugin-api 1.0.1) differ",
    ));
    shop.cases.push((
        Fixtures::get().plugin("structure"),
        "its tables (plugin-api 1.0.2) differ",
    ));
    shop.cases.push((
        Fixtures::get().plugin("major"),
        "it was built with plugin-api 2.0.0",
    ));
    shop.variant("abi_zero", "it was built with plugin-api 0.0");
    shop.variant("no_layout", "it carries no description of its tables");
    shop.variant("root_panics", "its root function panicked");
    shop.variant("bad_name", "its name \"Bad Name\" has characters");
    shop.variant("no_table", "its kind says vendor, but it lacks the vendor table");
    shop.variant("no_kind", "it is of kind 64");
    shop.variant("null_entry", "the entry `comm_abort` of its vendor table is null");

    let files: Vec<&Path> = shop.cases.iter().map(|(path, _)| path.as_path()).collect();
    let registry = survey(&files);
    let rows: Vec<&PluginRow> = (0..files.len()).map(|n| crate::row(&registry, n)).collect();
    let mut seen = HashSet::new();
    for (row, (path, reason)) in rows.iter().zip(&shop.cases) {
        assert_eq!(
            row.status,
            PluginStatus::Refused,
            "{}: {}",
            path.display(),
            row.reason
        );
        assert!(
            row.reason.starts_with(reason),
            "{}: {}",
            path.display(),
            row.reason
        );
        assert_eq!(row.reason.lines().count(), 1, "{}", row.reason);
        assert!(row.reason.len() < 400, "{}", row.reason);
        assert!(
            seen.insert(row.reason.clone()),
            "two plugins are refused with the same line: {}",
            row.reason
        );
        assert_eq!(row.path.as_deref(), Some(path.canonicalize().unwrap().as_path()));
    }
    assert!(seen.len() >= 12);
    assert!(
        rows.iter()
            .all(|row| registry.vendors().iter().all(|plugin| plugin.name() != row.name))
    );

    // The process and its loader are sound: a good plugin still loads.
    let registry = survey(&[Fixtures::get().plugin("present")]);
    assert_eq!(crate::row(&registry, 0).status, PluginStatus::Loaded);
}
