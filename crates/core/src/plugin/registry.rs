//! Finds, loads and probes all plugins once, and keeps the table of what became of each.

use super::builtin;
use super::found::PluginInfo;
use super::listing::{Listing, Located};
use super::net::NetPlugin;
use super::probe::probe;
use super::report::{PluginRow, PluginStatus, kind_name};
use super::vendor::VendorPlugin;
use crate::config::Config;
use crate::error::{Error, ErrorKind, Result};
use infiniccl_plugin_api::{PluginRootRef, loader};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A probe is meant to be cheap; a vendor's library that needs longer than this to be opened hangs.
const PROBE_LIMIT: Duration = Duration::from_secs(30);

/// All plugins of a process: those in use, and a row for each that was listed or linked in.
///
/// Cheap to share behind an `Arc`; plugins stay loaded when it is dropped.
#[derive(Debug, Default)]
pub struct Registry {
    rows: Vec<PluginRow>,
    vendors: Vec<VendorPlugin>,
    nets: Vec<NetPlugin>,
    /// Device and inode of each loaded file, with the name it was listed under.
    files: Vec<((u64, u64), String)>,
}

impl Registry {
    /// Loads and probes what is listed, highest priority first, then the linked-in plugins that no listing
    /// replaced.
    ///
    /// Blocks while the dynamic linker and the probes run, each at most 30 s.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidUsage`] when a listing is required and its plugin cannot be used. Everything else that
    /// goes wrong is a row.
    pub fn discover(listings: &[Listing]) -> Result<Registry> {
        let registry = Registry::survey(listings);
        registry.check_required()?;
        Ok(registry)
    }

    /// Discovers what the configuration lists for the host that this process runs on.
    ///
    /// # Errors
    /// As [`Self::discover`], and when two entries for this host have the same name.
    pub fn from_config(config: &Config) -> Result<Registry> {
        let name = rustix::system::uname();
        Registry::discover(&Listing::all(config, &name.nodename().to_string_lossy())?)
    }

    /// As [`Self::discover`], but a required plugin that cannot be used is a row like the others; for reports.
    pub fn survey(listings: &[Listing]) -> Registry {
        Registry::survey_within(listings, builtin::roots(), PROBE_LIMIT)
    }

    fn survey_within(listings: &[Listing], builtins: Vec<PluginRootRef>, limit: Duration) -> Registry {
        let mut registry = Registry::default();
        let mut builtins: Vec<Option<PluginRootRef>> = builtins.into_iter().map(Some).collect();
        let mut sorted: Vec<&Listing> = listings.iter().collect();
        sorted.sort_by_key(|listing| std::cmp::Reverse(listing.priority));
        for listing in sorted {
            let row = registry.list(listing, &mut builtins, limit);
            registry.rows.push(row);
        }
        for root in builtins.into_iter().flatten() {
            let listing = Listing::new(root.name().as_str(), root.kind(), PathBuf::new());
            let row = registry.embed(&listing, root, limit);
            registry.rows.push(row);
        }
        registry
            .vendors
            .sort_by_key(|plugin| std::cmp::Reverse(plugin.info().priority()));
        registry
            .nets
            .sort_by_key(|plugin| std::cmp::Reverse(plugin.info().priority()));
        registry.rows.iter().for_each(PluginRow::log);
        registry
    }

    /// The table: one row for each listing, and for each linked-in plugin that is used.
    pub fn rows(&self) -> &[PluginRow] {
        &self.rows
    }

    /// Vendor plugins in use, highest priority first.
    pub fn vendors(&self) -> &[VendorPlugin] {
        &self.vendors
    }

    /// Network plugins in use, highest priority first.
    pub fn nets(&self) -> &[NetPlugin] {
        &self.nets
    }

    /// Whether all that is required is in use.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidUsage`] that names the first plugin that is not, and why.
    pub fn check_required(&self) -> Result<()> {
        let unusable =
            |row: &&PluginRow| row.required && row.status != PluginStatus::Loaded && !row.duplicate;
        match self.rows.iter().find(unusable) {
            None => Ok(()),
            Some(row) => Err(Error::new(
                ErrorKind::InvalidUsage,
                format!(
                    "the plugin {} is required and {}: {}: {}",
                    row.name,
                    row.status,
                    row.place(),
                    row.reason
                ),
            )
            .with("plugin", &row.name)),
        }
    }

    fn list(
        &mut self,
        listing: &Listing,
        builtins: &mut [Option<PluginRootRef>],
        limit: Duration,
    ) -> PluginRow {
        let mut row = PluginRow::of(listing);
        match listing.locate() {
            Located::File(path) => {
                row.path = Some(path.clone());
                if let Some(root) = self.load(listing, &path, &mut row) {
                    // The listing wins over the linked-in plugin of the same name.
                    take(builtins, root.name().as_str());
                    return self.enter(listing, root, row, limit);
                }
            }
            Located::Refused(path, reason) => {
                row.path = Some(path);
                row.reason = reason;
            }
            Located::Missing(reason) => {
                // What is linked in needs no file; the listing still gives it name, options and priority.
                if let Some(root) = take(builtins, &listing.name) {
                    let mut row = self.embed(listing, root, limit);
                    let separator = if row.reason.is_empty() { "" } else { "; " };
                    row.reason = format!(
                        "{}{separator}the built-in one, since there is {reason}",
                        row.reason
                    );
                    return row;
                }
                row.path = listing.candidates.first().cloned();
                row.status = PluginStatus::Unavailable;
                row.reason = reason;
            }
        }
        row
    }

    fn load(&mut self, listing: &Listing, path: &Path, row: &mut PluginRow) -> Option<PluginRootRef> {
        let identity = fs::metadata(path).ok().map(|m| (m.dev(), m.ino()));
        if let Some((_, name)) = self.files.iter().find(|(file, _)| Some(*file) == identity) {
            row.reason = format!("it is the same file as plugin {name}, which is loaded already");
            row.duplicate = true;
            return None;
        }
        let root = match loader::load(path) {
            Ok(root) => root,
            Err(error) => {
                if !error.dump().is_empty() {
                    tracing::debug!(target: "infiniccl::plugin", path = %path.display(), "{}", error.dump());
                }
                row.reason = error.to_string();
                return None;
            }
        };
        row.describe(root);
        if !root.kind().contains(listing.kind) {
            row.reason = format!(
                "it is listed as {}, but it is a {} plugin",
                kind_name(listing.kind),
                kind_name(root.kind())
            );
            return None;
        }
        self.files
            .extend(identity.map(|identity| (identity, listing.name.clone())));
        Some(root)
    }

    /// Takes a linked-in plugin into use.
    fn embed(&mut self, listing: &Listing, root: PluginRootRef, limit: Duration) -> PluginRow {
        let mut row = PluginRow::of(listing);
        if let Err(error) = loader::check_root(root) {
            row.reason = error.to_string();
            return row;
        }
        row.describe(root);
        self.enter(listing, root, row, limit)
    }

    /// Probes a sound plugin and takes it into use.
    fn enter(
        &mut self,
        listing: &Listing,
        root: PluginRootRef,
        mut row: PluginRow,
        limit: Duration,
    ) -> PluginRow {
        let probed = probe(&row.name, root, &listing.options, limit);
        row.status = probed.status;
        row.reason = probed.reason;
        row.library = probed.library;
        row.devices = probed.devices;
        if probed.status == PluginStatus::Loaded {
            let info = || PluginInfo::new(listing, root, row.path.clone());
            self.vendors.extend(
                root.vendor()
                    .into_option()
                    .map(|table| VendorPlugin::new(info(), table)),
            );
            self.nets.extend(
                root.net()
                    .into_option()
                    .map(|table| NetPlugin::new(info(), table)),
            );
        }
        row
    }
}

/// Takes the linked-in plugin of that name out of the list.
fn take(builtins: &mut [Option<PluginRootRef>], name: &str) -> Option<PluginRootRef> {
    builtins
        .iter_mut()
        .find(|root| root.is_some_and(|root| root.name().as_str() == name))?
        .take()
}

#[cfg(test)]
mod tests {
    use super::super::fake;
    use super::*;
    use infiniccl_plugin_api::{ChannelParams, ChannelState, PluginKind, Status};
    use std::time::Instant;

    const LIMIT: Duration = Duration::from_secs(20);

    fn listing(name: &str, options: &[(&str, &str)]) -> Listing {
        let mut listing = Listing::new(name, PluginKind::NET, format!("/nonexistent/lib{name}.so"));
        listing.options.0 = options
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        listing
    }

    fn survey(listings: &[Listing]) -> Registry {
        Registry::survey_within(
            listings,
            vec![fake::first::plugin_root(), fake::second::plugin_root()],
            LIMIT,
        )
    }

    #[test]
    fn linked_in_plugins_are_used_without_a_listing() {
        let registry = survey(&[]);
        let names: Vec<&str> = registry.nets().iter().map(|net| net.name()).collect();
        assert_eq!(names, ["first", "second"]);
        let row = &registry.rows()[1];
        assert_eq!(
            (row.status, row.place().as_str()),
            (PluginStatus::Loaded, "built-in")
        );
        assert_eq!(
            (row.version.as_str(), row.abi.as_str(), row.kind_name()),
            ("4.5.6", "1.0", "net")
        );
        assert_eq!(row.devices, Some(3));
    }

    #[test]
    fn a_listing_without_a_file_gives_options_and_priority_to_the_linked_in_plugin() {
        let mut high = listing("second", &[("reason", "two ports"), ("library", "libx 7")]);
        high.priority = 3;
        high.required = true;
        let registry = survey(&[listing("other", &[]), high]);
        let names: Vec<&str> = registry.rows().iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["second", "other", "first"]);
        let (second, other) = (&registry.rows()[0], &registry.rows()[1]);
        assert!(
            second.reason.starts_with("two ports; the built-in one, since"),
            "{}",
            second.reason
        );
        assert_eq!(second.library, "libx 7");
        assert_eq!(registry.nets()[0].info().priority(), 3);
        assert_eq!(other.status, PluginStatus::Unavailable);
        assert_eq!(other.reason, "no such file: /nonexistent/libother.so");
        registry.check_required().unwrap();
    }

    #[test]
    fn a_probe_that_fails_is_a_row_with_its_reason() {
        let registry = survey(&[
            listing("first", &[("status", "400"), ("reason", "no ACTIVE port")]),
            listing("second", &[("status", "200"), ("words", "the driver\nis asleep")]),
        ]);
        assert!(registry.nets().is_empty());
        let (first, second) = (&registry.rows()[0], &registry.rows()[1]);
        assert_eq!(first.status, PluginStatus::Unavailable);
        assert!(first.reason.starts_with("no ACTIVE port;"), "{}", first.reason);
        assert_eq!(second.status, PluginStatus::Refused);
        assert!(
            second
                .reason
                .starts_with("its probe failed (system): the driver is asleep;"),
            "{}",
            second.reason
        );
    }

    #[test]
    fn a_probe_that_hangs_costs_only_its_plugin() {
        let roots = vec![fake::first::plugin_root(), fake::second::plugin_root()];
        let started = Instant::now();
        let hanging = listing("first", &[("sleep_ms", "5000")]);
        let registry = Registry::survey_within(&[hanging], roots, Duration::from_millis(300));
        assert!(started.elapsed() < Duration::from_secs(4));
        assert!(
            registry.rows()[0]
                .reason
                .starts_with("its probe did not end within 0.3 s")
        );
        assert_eq!(registry.nets().len(), 1);
    }

    #[test]
    fn a_required_plugin_that_cannot_be_used_is_an_error_that_names_it() {
        let mut required = listing("ib", &[]);
        required.required = true;
        let registry = survey(&[required]);
        let error = registry.check_required().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidUsage);
        assert_eq!(
            error.message(),
            "the plugin ib is required and unavailable: /nonexistent/libib.so: no such file: /nonexistent/libib.so"
        );
    }

    #[test]
    fn a_linked_in_plugin_that_breaks_the_rules_is_refused() {
        let registry = Registry::survey_within(&[], vec![fake::misnamed::plugin_root()], LIMIT);
        assert_eq!(registry.rows()[0].status, PluginStatus::Refused);
        assert!(
            registry.rows()[0].reason.contains("characters other than"),
            "{}",
            registry.rows()[0].reason
        );
    }

    #[test]
    fn failures_become_errors_with_plugin_function_device_and_words() {
        let registry = survey(&[listing("first", &[("proxy", "x")])]);
        let net = &registry.nets()[0];
        let worker = net.worker_open(1, &[("rank", "4")]).unwrap();
        let params = |remote_rank| ChannelParams {
            local_rank: 4,
            remote_rank,
            lane: 0,
            flags: 0,
            timeout_ns: 1,
            reserved: [0; 2],
        };
        assert_eq!(net.connect(worker, b"address", &params(5)).unwrap(), 5);
        let error = net.connect(worker, b"address", &params(9)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Remote);
        assert_eq!(
            error.message(),
            "plugin first: connect failed: peer 9 closed the door"
        );
        for (key, value) in [
            ("plugin", "first"),
            ("function", "connect"),
            ("device", "1"),
            ("peer", "9"),
        ] {
            assert_eq!(error.get(key), Some(value));
        }
        let error = net.accept(worker, &params(5)).unwrap_err();
        assert_eq!(
            (error.kind(), error.get("status")),
            (ErrorKind::NotSupported, Some("450 unsupported"))
        );
        let error = net.device_attributes(7).unwrap_err();
        assert_eq!(
            (error.kind(), error.get("device")),
            (ErrorKind::InvalidUsage, Some("7"))
        );
        let error = net.worker_open(0, &[("refuse", "")]).unwrap_err();
        assert_eq!(
            error.message(),
            "plugin first: worker_open failed: options proxy refuse"
        );
        assert_eq!(net.device_attributes(2).unwrap().get("name"), Some("fake2"));
    }

    #[test]
    fn what_a_plugin_claims_is_bounded_by_what_it_was_given() {
        let registry = survey(&[]);
        let net = &registry.nets()[0];
        let error = net.connect(
            1,
            b"",
            &ChannelParams {
                local_rank: 0,
                remote_rank: 8,
                lane: 0,
                flags: 0,
                timeout_ns: 0,
                reserved: [0; 2],
            },
        );
        assert!(error.unwrap_err().message().contains("handle zero"));
        assert_eq!(net.listen(1).unwrap(), vec![2; 200]);
        assert!(
            net.listen(2)
                .unwrap_err()
                .message()
                .contains("more than 256 bytes")
        );
        assert_eq!(net.post(1, &[]), (Status::OK, 0));
        assert_eq!(net.poll(1, &mut []), (Status::OK, 0));
        assert_eq!(net.wait_fd(1), None);
        assert_eq!(
            net.channel_state(1, 1),
            (ChannelState::READY, "10.0.0.1 → 10.0.0.2".to_owned())
        );
        assert_eq!(
            net.channel_state(1, 2),
            (ChannelState::FAILED, "no such channel".to_owned())
        );
    }
}
