//! Files and folders: what is missing, unreadable, or open to others.

use crate::fixtures::{Fixtures, run};
use crate::{refusal, row, survey};
use infiniccl::ErrorKind;
use infiniccl::plugin::{Listing, PluginKind, PluginStatus, Registry};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

fn mode(path: &Path, bits: u32) {
    fs::set_permissions(path, Permissions::from_mode(bits)).unwrap();
}

const STRANGER: u32 = 54_321;

/// Whether this process may give files away, and so also become somebody else: root, outside of a user namespace.
fn rules_all_users() -> bool {
    let file = tempfile::NamedTempFile::new().unwrap();
    chown(file.path(), Some(STRANGER), None).is_ok()
}

/// A copy of the sound plugin in `folder/inner/`, all of it closed to others.
fn copy(folder: &Path) -> PathBuf {
    let inner = folder.join("inner");
    fs::create_dir(&inner).unwrap();
    mode(&inner, 0o755);
    let path = inner.join("plugin.so");
    fs::copy(Fixtures::get().plugin("present"), &path).unwrap();
    mode(&path, 0o755);
    path.canonicalize().unwrap()
}

#[test]
fn a_missing_file_is_a_row_and_an_error_where_it_is_required() {
    let mut listing = Listing::new("p0", PluginKind::VENDOR, "/nonexistent/libinfiniccl_vendor_z.so");
    let registry = Registry::discover(std::slice::from_ref(&listing)).unwrap();
    assert_eq!(row(&registry, 0).status, PluginStatus::Unavailable);
    assert_eq!(
        row(&registry, 0).reason,
        "no such file: /nonexistent/libinfiniccl_vendor_z.so"
    );
    listing.required = true;
    let error = Registry::discover(&[listing]).unwrap_err();
    assert_eq!(
        (error.kind(), error.get("plugin")),
        (ErrorKind::InvalidUsage, Some("p0"))
    );
    assert!(
        error.message().contains("/nonexistent/libinfiniccl_vendor_z.so"),
        "{error}"
    );
}

#[test]
fn a_required_plugin_that_is_refused_is_an_error_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("text.so");
    fs::write(&file, "no library").unwrap();
    let mut listing = Listing::new("p0", PluginKind::VENDOR, &file);
    listing.required = true;
    let error = Registry::discover(&[listing]).unwrap_err();
    assert!(
        error
            .message()
            .starts_with("the plugin p0 is required and refused: "),
        "{error}"
    );
    assert!(
        error
            .message()
            .ends_with("it is no ELF file, so no shared library"),
        "{error}"
    );
}

#[test]
fn a_file_or_folder_that_others_may_write_is_refused_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = copy(folder.path());
    let inner = file.parent().unwrap();
    assert_eq!(row(&survey(&[&file]), 0).status, PluginStatus::Loaded);
    for (part, open, closed) in [
        (file.as_path(), 0o757, 0o755),
        (inner, 0o757, 0o755),
        (inner, 0o1777, 0o755),
    ] {
        mode(part, open);
        let reason = refusal(&file);
        let named = format!("{} may be written by everybody (mode {open:04o})", part.display());
        assert!(reason.starts_with(&named), "{reason}");
        mode(part, closed);
    }
    if rules_all_users() {
        // A group with other members, and a stranger's file; only root can make them.
        chown(&file, None, Some(STRANGER)).unwrap();
        mode(&file, 0o775);
        assert!(
            refusal(&file).contains("may be written by its group 54321"),
            "{}",
            refusal(&file)
        );
        mode(&file, 0o755);
        chown(inner, Some(STRANGER), None).unwrap();
        assert!(
            refusal(&file).contains("may be written by its owner, user 54321"),
            "{}",
            refusal(&file)
        );
        chown(inner, Some(0), None).unwrap();
    }
    assert_eq!(row(&survey(&[&file]), 0).status, PluginStatus::Loaded);
}

#[test]
fn a_file_without_read_permission_is_refused_with_that_reason() {
    let expected = "no permission to read the file: look at its mode and owner";
    let folder = tempfile::tempdir().unwrap();
    let file = copy(folder.path());
    mode(&file, 0o300);
    if fs::File::open(&file).is_err() {
        assert_eq!(refusal(&file), expected);
        return;
    }
    // Root may read everything, so somebody else has to try.
    assert!(
        rules_all_users(),
        "run this test as a plain user, or as root outside of a user namespace"
    );
    mode(folder.path(), 0o755);
    let host = folder.path().join("host");
    fs::copy(Fixtures::get().newer_host(), &host).unwrap();
    mode(&host, 0o755);
    let output = run(
        Command::new(host).arg(&file).uid(65_534).gid(65_534),
        Duration::from_secs(60),
    );
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        format!("refused NotReadable: {expected}\n")
    );
}
