//! What is known of a plugin in use, and how its failures become errors.

use super::host::{self, line};
use super::listing::{Listing, PluginOptions};
use crate::error::{Error, ErrorKind};
use infiniccl_plugin_api::{Buffer, HostServices, PluginKind, PluginRootRef, Property, Status};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Longest text or address that is taken from a plugin, in bytes.
const MAX_BYTES: usize = 64 * 1024;

/// A plugin in use.
pub struct PluginInfo {
    name: String,
    plugin: String,
    version: String,
    kind: PluginKind,
    path: Option<PathBuf>,
    options: PluginOptions,
    priority: i64,
    services: &'static HostServices,
    /// Index of the device behind each open handle, for messages.
    open: Mutex<Vec<(u64, u32)>>,
}

impl fmt::Debug for PluginInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PluginInfo")
            .field("name", &self.name)
            .field("plugin", &self.plugin)
            .field("version", &self.version)
            .field("path", &self.path)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl PluginInfo {
    pub(super) fn new(listing: &Listing, root: PluginRootRef, path: Option<PathBuf>) -> Self {
        PluginInfo {
            name: listing.name.clone(),
            plugin: root.name().as_str().to_owned(),
            version: root.version().as_str().to_owned(),
            kind: root.kind(),
            path,
            options: listing.options.clone(),
            priority: listing.priority,
            services: host::services(&listing.name),
            open: Mutex::default(),
        }
    }

    /// Its name in the configuration, or its own where it is not listed.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name that the plugin gives itself; equal for two files of the same plugin.
    pub fn plugin(&self) -> &str {
        &self.plugin
    }

    /// Its version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// What it offers.
    pub fn kind(&self) -> PluginKind {
        self.kind
    }

    /// The file it was loaded from; `None`: linked in.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Where two plugins could serve, the one with the higher number does.
    pub fn priority(&self) -> i64 {
        self.priority
    }

    /// The services that this plugin gets.
    pub(super) fn services(&self) -> &'static HostServices {
        self.services
    }

    /// Its options of the configuration, then `more`, as rows that borrow both.
    pub(super) fn rows<'a>(&'a self, more: &'a [(&str, &str)]) -> Vec<Property> {
        let own = self
            .options
            .0
            .iter()
            .map(|(key, value)| Property::new(key, value));
        own.chain(more.iter().map(|(key, value)| Property::new(key, value)))
            .collect()
    }

    /// Remembers which device a handle is.
    pub(super) fn opened(&self, handle: u64, index: u32) {
        self.open
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push((handle, index));
    }

    /// Forgets a handle.
    pub(super) fn closed(&self, handle: u64) {
        self.open
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|(open, _)| *open != handle);
    }

    /// The index of the device behind a handle.
    pub(super) fn device_of(&self, handle: u64) -> Option<u32> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.iter()
            .find(|(open, _)| *open == handle)
            .map(|(_, index)| *index)
    }

    /// The error for a function that answered `status`; asks the plugin for its words, so it must run on the
    /// thread that made the call, before the next one.
    #[cold]
    pub(super) fn error(
        &self,
        status: Status,
        function: &str,
        last_error: extern "C" fn(Buffer) -> Status,
    ) -> Error {
        let text = last_words(last_error);
        let message = match text.as_str() {
            "" => format!(
                "plugin {}: {function} failed ({}) without saying why",
                self.name,
                status.name()
            ),
            text => format!("plugin {}: {function} failed: {text}", self.name),
        };
        Error::new(ErrorKind::from(status), message)
            .with("plugin", &self.name)
            .with("function", function)
            .with("status", format_args!("{} {}", status.0, status.name()))
    }

    /// The error for a function that broke its own contract.
    #[cold]
    pub(super) fn broken(&self, function: &str, what: &str) -> Error {
        Error::new(
            ErrorKind::Internal,
            format!("plugin {}: {function} {what}: a defect of the plugin", self.name),
        )
        .with("plugin", &self.name)
        .with("function", function)
    }
}

/// The calling thread's last failure in the plugin's words, as one line; empty where it has none.
pub(super) fn last_words(last_error: extern "C" fn(Buffer) -> Status) -> String {
    let bytes = fetch(256, |buffer| last_error(buffer)).unwrap_or_default();
    line(&String::from_utf8_lossy(&bytes))
}

/// Gets bytes of unknown length from a plugin, with room for `guess` at first.
pub(super) fn fetch(guess: usize, mut call: impl FnMut(Buffer) -> Status) -> Result<Vec<u8>, Status> {
    let mut bytes = vec![0_u8; guess];
    // The length may grow between two calls, but not for ever.
    for _ in 0..4 {
        let mut len = 0_u64;
        let status = call(Buffer::over(&mut bytes, &mut len));
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        match status {
            Status::OK if len <= bytes.len() => {
                bytes.truncate(len);
                return Ok(bytes);
            }
            Status::TOO_SMALL if len > bytes.len() && len <= MAX_BYTES => bytes.resize(len, 0),
            Status::OK | Status::TOO_SMALL => return Err(Status::TOO_SMALL),
            other => return Err(other),
        }
    }
    Err(Status::TOO_SMALL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fetching_asks_again_with_room_and_distrusts_lengths() {
        let long = vec![7_u8; 300];
        let honest = |buffer: Buffer| {
            // SAFETY: `fetch` gives valid buffers.
            unsafe { buffer.write(&long) }
        };
        assert_eq!(fetch(16, honest), Ok(long.clone()));
        let lie = |claim: u64, status: Status| {
            fetch(16, move |buffer| {
                // SAFETY: as above.
                unsafe { buffer.len.write(claim) };
                status
            })
        };
        assert_eq!(lie(17, Status::OK), Err(Status::TOO_SMALL));
        assert_eq!(lie(3, Status::TOO_SMALL), Err(Status::TOO_SMALL));
        assert_eq!(lie(u64::MAX, Status::TOO_SMALL), Err(Status::TOO_SMALL));
        assert_eq!(lie(0, Status::REMOTE), Err(Status::REMOTE));
    }
}
