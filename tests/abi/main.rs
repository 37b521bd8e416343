//! The promise of the plugin ABI: old and new understand each other, what is broken is refused in one line, and
//! what goes wrong inside a plugin stays there.

mod broken;
mod containment;
mod evolution;
mod files;
mod fixtures;
mod shipped;

use infiniccl::plugin::{Listing, PluginKind, PluginRow, PluginStatus, Registry};
use std::path::Path;

/// A registry of vendor plugins in these files, each called by its place in the list: `p0`, `p1`, …
fn survey<P: AsRef<Path>>(files: &[P]) -> Registry {
    let listing = |(n, file): (usize, &P)| Listing::new(format!("p{n}"), PluginKind::VENDOR, file.as_ref());
    Registry::survey(&files.iter().enumerate().map(listing).collect::<Vec<_>>())
}

/// The row of the n-th file given to [`survey`].
fn row(registry: &Registry, n: usize) -> &PluginRow {
    let name = format!("p{n}");
    registry
        .rows()
        .iter()
        .find(|row| row.name == name)
        .unwrap_or_else(|| panic!("no row {name}"))
}

/// The reason for which one file is refused.
fn refusal(file: &Path) -> String {
    let registry = survey(&[file]);
    let row = row(&registry, 0);
    assert_eq!(
        row.status,
        PluginStatus::Refused,
        "{}: {}",
        file.display(),
        row.reason
    );
    assert!(!registry.vendors().iter().any(|plugin| plugin.name() == "p0"));
    row.reason.clone()
}
