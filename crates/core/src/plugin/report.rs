//! The table of all plugins, loaded or not, each with its reason; what `infiniccl info` prints.

use super::listing::Listing;
use infiniccl_plugin_api::{PluginKind, PluginRootRef};
use serde::{Serialize, Serializer};
use std::fmt;
use std::path::PathBuf;

/// Whether a plugin is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum PluginStatus {
    /// In use.
    Loaded,
    /// Not loaded, or given up, because something is wrong with it.
    Refused,
    /// Sound, but of no use here: there is no such file, no library of the vendor, no device.
    Unavailable,
}

impl PluginStatus {
    /// The word that reports use.
    pub const fn name(self) -> &'static str {
        match self {
            PluginStatus::Loaded => "loaded",
            PluginStatus::Refused => "refused",
            PluginStatus::Unavailable => "unavailable",
        }
    }
}

impl fmt::Display for PluginStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One plugin that was listed or linked in, and what became of it. What is not known is empty.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct PluginRow {
    /// Its name in the configuration, or its own where it is not listed.
    pub name: String,
    /// `vendor`, `net`, or `vendor+net`.
    #[serde(serialize_with = "kind_text")]
    pub kind: PluginKind,
    /// Its version.
    pub version: String,
    /// The version of plugin-api that it was built with, `major.minor`.
    pub abi: String,
    /// How it was built: compiler, target, profile.
    pub build: String,
    /// The file; `None` for one that is linked in.
    pub path: Option<PathBuf>,
    /// What became of it.
    pub status: PluginStatus,
    /// Why, in one line.
    pub reason: String,
    /// Path and version of the vendor's library, where the plugin names one.
    pub library: String,
    /// Number of its devices.
    pub devices: Option<u32>,
    /// Whether the configuration calls it required.
    pub required: bool,
    /// The file is in use under another name, so that nothing is missing.
    #[serde(skip)]
    pub(super) duplicate: bool,
}

impl PluginRow {
    /// A row of a listing that is not loaded yet.
    pub(super) fn of(listing: &Listing) -> Self {
        PluginRow {
            name: listing.name.clone(),
            kind: listing.kind,
            version: String::new(),
            abi: String::new(),
            build: String::new(),
            path: None,
            status: PluginStatus::Refused,
            reason: String::new(),
            library: String::new(),
            devices: None,
            required: listing.required,
            duplicate: false,
        }
    }

    /// Fills in what the root says.
    pub(super) fn describe(&mut self, root: PluginRootRef) {
        self.kind = root.kind();
        self.version = root.version().as_str().to_owned();
        self.abi = format!("{}.{}", root.abi_major(), root.abi_minor());
        self.build = root.build().as_str().to_owned();
    }

    /// One line: loaded from where, or why not. A file that does not exist is no cause for alarm, since the
    /// shipped configuration lists every plugin of the project.
    pub(super) fn log(&self) {
        const TARGET: &str = "infiniccl::plugin";
        let (name, place) = (&self.name, self.place());
        match self.status {
            PluginStatus::Loaded => {
                tracing::info!(target: TARGET, "loaded plugin {name} {} from {place}", self.version);
            }
            PluginStatus::Unavailable => {
                tracing::info!(target: TARGET, "plugin {name} is not available: {place}: {}", self.reason);
            }
            PluginStatus::Refused => {
                tracing::warn!(target: TARGET, "refused plugin {name}: {place}: {}", self.reason);
            }
        }
    }

    /// The path of the file, or `built-in`.
    pub fn place(&self) -> String {
        self.path
            .as_ref()
            .map_or_else(|| "built-in".to_owned(), |path| path.display().to_string())
    }

    /// `vendor`, `net`, or `vendor+net`.
    pub fn kind_name(&self) -> &'static str {
        kind_name(self.kind)
    }
}

/// A plugin kind in words.
pub(super) fn kind_name(kind: PluginKind) -> &'static str {
    match (kind.contains(PluginKind::VENDOR), kind.contains(PluginKind::NET)) {
        (true, true) => "vendor+net",
        (true, false) => "vendor",
        (false, true) => "net",
        (false, false) => "unknown",
    }
}

fn kind_text<S: Serializer>(kind: &PluginKind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(kind_name(*kind))
}
