//! Old plugin × new host and the other way round; what changed where it must not is refused.

use crate::fixtures::{Fixtures, run};
use crate::{refusal, row, survey};
use infiniccl::plugin::PluginStatus;
use std::process::Command;
use std::time::Duration;

/// The core of this repository, as the older and the equal host.
#[test]
fn this_core_loads_plugins_of_its_own_and_of_a_later_version_side_by_side() {
    let fixtures = Fixtures::get();
    let registry = survey(&[fixtures.plugin("present"), fixtures.plugin("newer")]);
    let (present, newer) = (row(&registry, 0), row(&registry, 1));
    assert_eq!(present.status, PluginStatus::Loaded, "{}", present.reason);
    assert_eq!(newer.status, PluginStatus::Loaded, "{}", newer.reason);
    assert_eq!((present.abi.as_str(), newer.abi.as_str()), ("1.0", "1.1"));
    assert_eq!(
        (present.reason.as_str(), newer.reason.as_str()),
        ("fixture 7.0.1", "fixture 7.0.4")
    );
    assert_eq!((present.devices, newer.devices), (Some(1), Some(4)));
    assert!(present.build.starts_with("rustc 1."), "{}", present.build);
    let plugin = registry
        .vendors()
        .iter()
        .find(|plugin| plugin.name() == "p1")
        .unwrap();
    assert_eq!(
        plugin.device_attributes(3).unwrap().get("name"),
        Some("fixture device 3")
    );
}

/// A later host, built against a plugin-api whose tables got a function.
#[test]
fn a_later_host_loads_older_plugins_and_reads_none_where_they_lack_a_function() {
    let fixtures = Fixtures::get();
    let files = ["present", "newer", "signature", "structure", "major"].map(|name| fixtures.plugin(name));
    let output = run(
        Command::new(fixtures.newer_host()).args(files),
        Duration::from_secs(60),
    );
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "loaded fixture abi 1.0 devices 1 appended None");
    assert_eq!(lines[1], "loaded fixture abi 1.1 devices 4 appended Some(4711)");
    assert!(lines[2].starts_with("refused Layout: "), "{}", lines[2]);
    assert!(lines[3].starts_with("refused Layout: "), "{}", lines[3]);
    assert!(lines[4].starts_with("refused Version: "), "{}", lines[4]);
    assert_eq!(lines.len(), 5, "one line for each file:\n{text}");
}

#[test]
fn a_changed_function_is_refused_with_its_name() {
    let reason = refusal(&Fixtures::get().plugin("signature"));
    assert!(
        reason.starts_with("its tables (plugin-api 1.0.1) differ from those of this core (1.0.0): "),
        "{reason}"
    );
    assert!(
        reason.ends_with("vendor.mem_free.param_1: type MemKind expected, *mut found"),
        "{reason}"
    );
    assert!(reason.len() < 400, "{} bytes: {reason}", reason.len());
}

#[test]
fn a_struct_that_grew_is_refused_with_its_place() {
    let reason = refusal(&Fixtures::get().plugin("structure"));
    assert!(
        reason.starts_with("its tables (plugin-api 1.0.2) differ from those of this core (1.0.0): "),
        "{reason}"
    );
    assert!(
        reason.contains("vendor.copy.param_2: 48 bytes expected, 56 found"),
        "{reason}"
    );
    assert!(reason.len() < 400, "{} bytes: {reason}", reason.len());
}

#[test]
fn another_major_version_is_refused_with_both_versions() {
    assert_eq!(
        refusal(&Fixtures::get().plugin("major")),
        "it was built with plugin-api 2.0.0, this core has 1.0.0: the major versions must be equal, so rebuild the plugin"
    );
}
