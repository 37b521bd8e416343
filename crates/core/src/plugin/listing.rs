//! One listed plugin: what the configuration says of it, and the file that it means.

use super::trust;
use crate::config::{self, Config, PluginEntry};
use crate::error::Result;
use infiniccl_plugin_api::PluginKind;
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// A plugin that somebody wants loaded: an entry of the configuration, resolved to absolute paths.
#[derive(Debug, Clone)]
pub struct Listing {
    /// What reports and other keys of the configuration call it; unique among the listings.
    pub name: String,
    /// What it must offer.
    pub kind: PluginKind,
    /// Absolute paths, of which the first that exists is meant.
    pub candidates: Vec<PathBuf>,
    /// Options, handed to the plugin as text.
    pub options: PluginOptions,
    /// Where two plugins could serve, the one with the higher number does.
    pub priority: i64,
    /// Whether it is an error when the plugin cannot be used.
    pub required: bool,
}

/// Options of a plugin. Debug shows the keys only, since a value may be a secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct PluginOptions(pub Vec<(String, String)>);

impl fmt::Debug for PluginOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.iter().map(|(key, _)| key)).finish()
    }
}

/// What a listing's candidates lead to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Located {
    /// This file, canonical, which nobody else may write.
    File(PathBuf),
    /// None of them exists.
    Missing(String),
    /// The file exists, but is not to be loaded.
    Refused(PathBuf, String),
}

impl Listing {
    /// A listing of one file, not required, without options.
    pub fn new(name: impl Into<String>, kind: PluginKind, path: impl Into<PathBuf>) -> Self {
        Listing {
            name: name.into(),
            kind,
            candidates: vec![path.into()],
            options: PluginOptions::default(),
            priority: 0,
            required: false,
        }
    }

    /// The entries of the configuration that are for `host`, highest priority first.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidUsage`](crate::ErrorKind::InvalidUsage) when two entries have the same name.
    pub fn all(config: &Config, host: &str) -> Result<Vec<Listing>> {
        let listing = |entry: &PluginEntry| Listing {
            name: entry.label(),
            kind: match entry.kind {
                config::PluginKind::Vendor => PluginKind::VENDOR,
                config::PluginKind::Net => PluginKind::NET,
            },
            candidates: config.resolve_plugin(entry),
            options: PluginOptions(
                entry
                    .options
                    .iter()
                    .map(|(key, value)| (key.clone(), value.to_string()))
                    .collect(),
            ),
            priority: entry.priority,
            required: entry.required,
        };
        Ok(config.plugins_for(host)?.into_iter().map(listing).collect())
    }

    /// Finds the file and checks who may write it.
    pub(super) fn locate(&self) -> Located {
        for candidate in &self.candidates {
            match fs::canonicalize(candidate) {
                Ok(path) => return judge(candidate, path),
                Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
                Err(e) => {
                    return Located::Refused(candidate.clone(), format!("the path cannot be followed: {e}"));
                }
            }
        }
        let looked: Vec<String> = self
            .candidates
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        Located::Missing(match looked.as_slice() {
            [] => "no such file: the listing has no path".to_owned(),
            [only] => format!("no such file: {only}"),
            more => format!("no such file, looked for {}", more.join(", ")),
        })
    }
}

fn judge(candidate: &Path, path: PathBuf) -> Located {
    if let Err(reason) = trust::check(&path) {
        return Located::Refused(path, reason);
    }
    // Where the last part is a link, whoever may write the folder of the link may also exchange what it leads to.
    let folder = candidate
        .parent()
        .and_then(|folder| fs::canonicalize(folder).ok());
    let link = folder
        .zip(candidate.file_name())
        .map(|(folder, name)| folder.join(name));
    if let Some(link) = link.filter(|link| *link != path)
        && let Err(reason) = trust::check_folder(&link)
    {
        return Located::Refused(path, reason);
    }
    Located::File(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn the_first_candidate_that_exists_is_taken_in_its_canonical_form() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path().canonicalize().unwrap();
        let mut listing = Listing::new("x", PluginKind::NET, base.join("none/libx.so"));
        listing.candidates.push(base.join("dangling"));
        symlink(base.join("nowhere"), base.join("dangling")).unwrap();
        let Located::Missing(text) = listing.locate() else {
            panic!("found")
        };
        assert!(
            text.contains("none/libx.so") && text.contains("dangling"),
            "{text}"
        );

        fs::write(base.join("real.so"), "x").unwrap();
        fs::set_permissions(base.join("real.so"), fs::Permissions::from_mode(0o644)).unwrap();
        symlink("real.so", base.join("link.so")).unwrap();
        listing.candidates.push(base.join("link.so"));
        assert_eq!(listing.locate(), Located::File(base.join("real.so")));
    }

    #[test]
    fn a_link_in_a_folder_that_others_may_write_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path().canonicalize().unwrap();
        fs::write(base.join("real.so"), "x").unwrap();
        fs::set_permissions(base.join("real.so"), fs::Permissions::from_mode(0o644)).unwrap();
        let open = base.join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        symlink(base.join("real.so"), open.join("link.so")).unwrap();
        let located = Listing::new("x", PluginKind::NET, open.join("link.so")).locate();
        let Located::Refused(_, text) = located else {
            panic!("{located:?}")
        };
        assert!(
            text.starts_with(&format!("{} may be written by everybody", open.display())),
            "{text}"
        );
    }

    #[test]
    fn entries_of_the_configuration_become_listings_of_their_hosts() {
        let mut here = PluginEntry::new(config::PluginKind::Vendor, "/opt/libinfiniccl_vendor_a.so");
        here.options
            .push(("lanes".to_owned(), config::OptionValue::Integer(4)));
        here.required = true;
        let mut first = PluginEntry::new(config::PluginKind::Net, "/opt/libinfiniccl_net_ib.so");
        first.priority = 5;
        let mut config = Config::built_in();
        config.plugins = vec![here, first];
        let listings = Listing::all(&config, "node1").unwrap();
        let names: Vec<&str> = listings.iter().map(|listing| listing.name.as_str()).collect();
        assert_eq!(names, ["net-ib", "vendor-a"]);
        assert_eq!(
            (listings[0].kind, listings[1].kind),
            (PluginKind::NET, PluginKind::VENDOR)
        );
        assert_eq!(
            listings[1].candidates,
            [PathBuf::from("/opt/libinfiniccl_vendor_a.so")]
        );
        assert_eq!(listings[1].options.0, [("lanes".to_owned(), "4".to_owned())]);
        assert_eq!((listings[0].priority, listings[1].required), (5, true));
    }

    #[test]
    fn debug_does_not_show_the_values_of_options() {
        let mut listing = Listing::new("x", PluginKind::NET, "/x.so");
        listing.options.0.push(("token".to_owned(), "hunter2".to_owned()));
        let text = format!("{listing:?}");
        assert!(text.contains("token") && !text.contains("hunter2"), "{text}");
    }
}
