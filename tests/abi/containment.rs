//! What goes wrong inside a plugin stays there: panics become errors, and only that plugin is out of use.

use crate::fixtures::Fixtures;
use crate::{row, survey};
use infiniccl::ErrorKind;
use infiniccl::plugin::{Listing, PluginKind, PluginStatus, Registry, VendorPlugin};
use std::fs;
use std::path::{Path, PathBuf};

/// A copy of the sound plugin, whose statics are its own.
fn copy(folder: &Path, name: &str) -> PathBuf {
    let path = folder.join(name);
    fs::copy(Fixtures::get().plugin("present"), &path).unwrap();
    path
}

fn plugin<'a>(registry: &'a Registry, name: &str) -> &'a VendorPlugin {
    registry
        .vendors()
        .iter()
        .find(|plugin| plugin.name() == name)
        .unwrap()
}

#[test]
fn a_panic_in_a_probe_is_a_row_with_its_text() {
    let folder = tempfile::tempdir().unwrap();
    let mut listing = Listing::new("p0", PluginKind::VENDOR, copy(folder.path(), "probe.so"));
    listing
        .options
        .0
        .push(("panic".to_owned(), "on the line".to_owned()));
    let registry = Registry::survey(&[listing]);
    assert_eq!(row(&registry, 0).status, PluginStatus::Refused);
    assert_eq!(
        row(&registry, 0).reason,
        "its probe failed (panicked): panic in probe: probe was asked to panic: on the line"
    );
}

#[test]
fn a_panic_in_a_function_is_an_error_and_poisons_that_plugin_only() {
    let folder = tempfile::tempdir().unwrap();
    let registry = survey(&[copy(folder.path(), "a.so"), copy(folder.path(), "b.so")]);
    let (broken, sound) = (plugin(&registry, "p0"), plugin(&registry, "p1"));
    let first = broken.device_attributes(13).unwrap_err();
    assert_eq!(
        (first.kind(), first.get("device")),
        (ErrorKind::Internal, Some("13"))
    );
    assert_eq!(first.get("status"), Some("500 panicked"));
    assert!(
        first.message().contains("panic in device_attributes: "),
        "{first}"
    );
    assert!(first.message().contains("device 13 brings bad luck"), "{first}");

    let later =
        std::thread::scope(|scope| scope.spawn(|| broken.device_count().unwrap_err()).join().unwrap());
    assert_eq!(later.kind(), ErrorKind::Internal);
    assert!(
        later
            .message()
            .starts_with("plugin p0: device_count failed: panic in device_attributes"),
        "{later}"
    );
    assert_eq!(sound.device_count().unwrap(), 1);
    assert_eq!(
        sound.device_attributes(12).unwrap().get("name"),
        Some("fixture device 12")
    );
}

#[test]
fn several_plugins_of_one_type_live_side_by_side_and_keep_their_own_state() {
    let folder = tempfile::tempdir().unwrap();
    let names: Vec<String> = (0..8).map(|n| format!("copy{n}.so")).collect();
    let files: Vec<PathBuf> = names.iter().map(|name| copy(folder.path(), name)).collect();
    let registry = survey(&files);
    for n in 0..8 {
        assert_eq!(
            row(&registry, n).status,
            PluginStatus::Loaded,
            "{}",
            row(&registry, n).reason
        );
    }
    for n in 0..8_u64 {
        let plugin = plugin(&registry, &format!("p{n}"));
        for expected in 1..=n + 1 {
            assert_eq!(
                plugin.device_open(0).unwrap(),
                expected,
                "the counter of p{n} is its own"
            );
        }
        assert_eq!(plugin.info().plugin(), "fixture");
    }
    // Plugins are opened with local scope, so their symbols serve nobody else.
    let everywhere = libloading::os::unix::Library::this();
    // SAFETY: the symbol is looked up, not used.
    let symbol = unsafe { everywhere.get::<*const u8>(crate::fixtures::SYMBOL) };
    assert!(
        symbol.is_err(),
        "the symbol of a plugin is visible to the whole process"
    );
}

#[test]
fn a_file_that_is_listed_twice_is_loaded_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = copy(folder.path(), "once.so");
    let link = folder.path().join("link.so");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let hard = folder.path().join("hard.so");
    fs::hard_link(&file, &hard).unwrap();
    let mut listings: Vec<Listing> = [file, link, hard]
        .into_iter()
        .enumerate()
        .map(|(n, file)| Listing::new(format!("p{n}"), PluginKind::VENDOR, file))
        .collect();
    listings[1].required = true;
    let registry = Registry::discover(&listings).unwrap();
    assert_eq!(row(&registry, 0).status, PluginStatus::Loaded);
    for n in [1, 2] {
        let reason = &row(&registry, n).reason;
        assert_eq!(
            reason,
            "it is the same file as plugin p0, which is loaded already"
        );
    }
    let ours = registry
        .vendors()
        .iter()
        .filter(|plugin| plugin.info().plugin() == "fixture");
    assert_eq!(ours.count(), 1);
}

#[test]
fn a_plugin_of_another_kind_than_listed_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let listing = Listing::new("p0", PluginKind::NET, copy(folder.path(), "kind.so"));
    let registry = Registry::survey(&[listing]);
    assert_eq!(
        row(&registry, 0).reason,
        "it is listed as net, but it is a vendor plugin"
    );
    assert_eq!(row(&registry, 0).status, PluginStatus::Refused);
}
