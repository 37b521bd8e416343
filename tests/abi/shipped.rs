//! The plugins of this repository, linked in and as shared libraries: both ways they are found, probe and answer
//! alike, and the libraries export nothing but their root.

use crate::fixtures::{SYMBOL, repository, run};
use infiniccl::plugin::{Listing, PluginKind, PluginRow, PluginStatus, Registry};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

/// Name, kind, folder and file of each plugin that is linked in by default.
const SHIPPED: [(&str, PluginKind, &str); 2] = [
    ("host", PluginKind::VENDOR, "libinfiniccl_host.so"),
    ("net-tcp", PluginKind::NET, "libinfiniccl_net_tcp.so"),
];

/// The shared library of a plugin, built with the profile of this test where that was not done before.
fn library(name: &str, file: &str) -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let folder = BUILT.get_or_init(|| {
        // …/target/debug/deps/abi-0123: the folder above `deps` is named after the profile.
        let own = std::env::current_exe().unwrap();
        let folder = own.parent().and_then(Path::parent).unwrap().to_path_buf();
        let profile = folder.file_name().unwrap().to_str().unwrap();
        for (name, ..) in SHIPPED {
            let manifest = repository().join("plugins").join(name).join("cdylib/Cargo.toml");
            let mut cargo = Command::new(env!("CARGO"));
            cargo.args([
                "build",
                "--offline",
                "--profile",
                if profile == "debug" { "dev" } else { profile },
            ]);
            cargo
                .arg("--manifest-path")
                .arg(manifest)
                .arg("--target-dir")
                .arg(folder.parent().unwrap());
            run(cargo.current_dir(repository()), Duration::from_secs(600));
        }
        folder
    });
    let path = folder.join(file);
    assert!(path.is_file(), "{name} makes no {}", path.display());
    path
}

fn row<'a>(registry: &'a Registry, name: &str) -> &'a PluginRow {
    let rows: Vec<&PluginRow> = registry.rows().iter().filter(|row| row.name == name).collect();
    assert_eq!(rows.len(), 1, "one row for {name}");
    rows[0]
}

/// Number of plugins in use that call themselves `name`.
fn in_use(registry: &Registry, name: &str) -> usize {
    let vendors = registry.vendors().iter().map(|plugin| plugin.info().plugin());
    let nets = registry.nets().iter().map(|plugin| plugin.info().plugin());
    vendors.chain(nets).filter(|plugin| *plugin == name).count()
}

#[test]
fn the_shipped_plugins_are_linked_in() {
    let registry = Registry::survey(&[]);
    for (name, kind, _) in SHIPPED {
        let row = row(&registry, name);
        assert_eq!(
            (row.status, row.path.as_deref()),
            (PluginStatus::Loaded, None),
            "{}",
            row.reason
        );
        assert_eq!(row.kind, kind);
        assert_eq!(in_use(&registry, name), 1);
    }
    assert_eq!(registry.rows().len(), SHIPPED.len());
}

#[test]
fn a_listed_file_wins_over_the_linked_in_plugin_and_is_the_only_one_in_use() {
    let listings = SHIPPED.map(|(name, kind, file)| Listing::new(name, kind, library(name, file)));
    let (linked, registry) = (Registry::survey(&[]), Registry::survey(&listings));
    for (name, kind, file) in SHIPPED {
        let (built_in, row) = (row(&linked, name), row(&registry, name));
        assert_eq!(row.status, PluginStatus::Loaded, "{}", row.reason);
        assert_eq!(
            row.path.as_deref().unwrap(),
            library(name, file).canonicalize().unwrap()
        );
        assert_eq!(row.kind, kind);
        // The same code either way.
        assert_eq!(
            (&row.version, &row.abi, row.devices),
            (&built_in.version, &built_in.abi, built_in.devices)
        );
        assert_eq!((&row.reason, &row.library), (&built_in.reason, &built_in.library));
        assert_eq!(in_use(&registry, name), 1, "{name} must be loaded once");
    }
    for (a, b) in linked.nets().iter().zip(registry.nets()) {
        assert_eq!(a.device_count().unwrap(), b.device_count().unwrap());
        assert_eq!(a.device_attributes(0).unwrap(), b.device_attributes(0).unwrap());
    }
    for (a, b) in linked.vendors().iter().zip(registry.vendors()) {
        assert_eq!(a.device_attributes(0).unwrap(), b.device_attributes(0).unwrap());
    }
}

#[test]
fn a_shared_library_exports_its_root_and_nothing_else() {
    for (name, _, file) in SHIPPED {
        let path = library(name, file);
        let output = run(
            Command::new("nm").args(["-D", "--defined-only"]).arg(&path),
            Duration::from_secs(60),
        );
        let text = String::from_utf8(output.stdout).unwrap();
        let symbols: Vec<&str> = text
            .lines()
            .filter_map(|line| line.split_whitespace().nth(2))
            .collect();
        assert_eq!(symbols, [SYMBOL], "{}", path.display());
    }
}
