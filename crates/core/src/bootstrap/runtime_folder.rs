//! Files and sockets that only this user's processes on this host may see.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::launch::Env;
use crate::{Error, ErrorKind, Result};

/// No file here is longer than this.
const MAX_FILE: u64 = 4096;

fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn unusable(path: &Path, why: &str) -> Error {
    Error::new(
        ErrorKind::System,
        format!("the runtime folder {} cannot be used: {why}", path.display()),
    )
}

/// The user's runtime folder: below XDG_RUNTIME_DIR where that is the user's own, else `/tmp/infiniccl-UID`. It is made
/// when it is missing.
///
/// # Errors
/// `System` when it cannot be made, or belongs to or is open to others.
pub(crate) fn runtime_folder(env: Env<'_>) -> Result<PathBuf> {
    let private = |path: &PathBuf| path.is_absolute() && check_private(path).is_ok();
    let folder = match env("XDG_RUNTIME_DIR").map(PathBuf::from).filter(private) {
        Some(folder) => folder.join("infiniccl"),
        None => PathBuf::from(format!("/tmp/infiniccl-{}", own_user())),
    };
    match std::fs::DirBuilder::new().mode(0o700).create(&folder) {
        Ok(()) => {}
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(e) => return Err(unusable(&folder, "it cannot be made").with_source(e)),
    }
    check_private(&folder)?;
    Ok(folder)
}

/// Checks that a folder is no link, belongs to this user, and is open to nobody else.
fn check_private(folder: &Path) -> Result<()> {
    let meta = std::fs::symlink_metadata(folder).map_err(|e| unusable(folder, "no access").with_source(e))?;
    if !meta.is_dir() {
        return Err(unusable(folder, "it is not a folder"));
    }
    if meta.uid() != own_user() {
        return Err(unusable(folder, "it belongs to another user; remove it"));
    }
    if meta.permissions().mode() & 0o077 != 0 {
        return Err(unusable(folder, "other users have access; set its mode to 0700"));
    }
    Ok(())
}

/// Writes a file that appears under its name with all its content at once, readable by this user only.
pub(crate) fn write_private(path: &Path, content: &str) -> std::io::Result<()> {
    let draft = path.with_extension(format!("{}.new", std::process::id()));
    let _ = std::fs::remove_file(&draft);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&draft)?;
    let written = file
        .write_all(content.as_bytes())
        .and_then(|()| std::fs::rename(&draft, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&draft);
    }
    written
}

/// Reads a file that must be this user's and open to nobody else; `None` when there is none.
///
/// # Errors
/// `System` when it cannot be read, `InvalidUsage` when others could have written it or can read it.
pub(crate) fn read_private(path: &Path) -> Result<Option<String>> {
    let failed = |e: std::io::Error| {
        Error::new(ErrorKind::System, format!("cannot read {}", path.display())).with_source(e)
    };
    let flags = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or(0);
    let file: File = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(failed(e)),
    };
    let meta = file.metadata().map_err(failed)?;
    let problem = if !meta.is_file() {
        Some("is not a regular file")
    } else if meta.uid() != own_user() {
        Some("belongs to another user")
    } else if meta.permissions().mode() & 0o077 != 0 {
        Some("can be read by others: set its mode to 0600")
    } else {
        None
    };
    if let Some(problem) = problem {
        return Err(Error::new(
            ErrorKind::InvalidUsage,
            format!("{} {problem}", path.display()),
        ));
    }
    let mut text = String::new();
    file.take(MAX_FILE).read_to_string(&mut text).map_err(failed)?;
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn private_folder() -> tempfile::TempDir {
        let mode = std::fs::Permissions::from_mode(0o700);
        tempfile::Builder::new().permissions(mode).tempdir().unwrap()
    }

    fn folder_of(xdg: &Path) -> Result<PathBuf> {
        runtime_folder(&|name| (name == "XDG_RUNTIME_DIR").then(|| xdg.to_str().unwrap().to_owned()))
    }

    #[test]
    fn the_folder_is_private_and_used_again() {
        let xdg = private_folder();
        let folder = folder_of(xdg.path()).unwrap();
        assert_eq!(folder, xdg.path().join("infiniccl"));
        assert_eq!(
            std::fs::metadata(&folder).unwrap().permissions().mode() & 0o777,
            0o700
        );
        assert_eq!(folder_of(xdg.path()).unwrap(), folder);
    }

    #[test]
    fn folders_that_others_could_use_are_refused() {
        let xdg = private_folder();
        let folder = xdg.path().join("infiniccl");
        std::fs::create_dir(&folder).unwrap();
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert!(folder_of(xdg.path()).unwrap_err().message().contains("0700"));
        std::fs::remove_dir(&folder).unwrap();
        std::os::unix::fs::symlink("/tmp", &folder).unwrap();
        assert!(
            folder_of(xdg.path())
                .unwrap_err()
                .message()
                .contains("not a folder")
        );
        std::fs::set_permissions(xdg.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        let other = folder_of(xdg.path()).unwrap();
        assert!(
            other.to_string_lossy().starts_with("/tmp/infiniccl-"),
            "an open XDG_RUNTIME_DIR is passed over: {}",
            other.display()
        );
    }

    #[test]
    fn files_come_back_and_unsafe_ones_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        assert_eq!(read_private(&path).unwrap(), None);
        write_private(&path, "one").unwrap();
        write_private(&path, "two").unwrap();
        assert_eq!(read_private(&path).unwrap().as_deref(), Some("two"));
        assert_eq!(
            std::fs::read_dir(folder.path()).unwrap().count(),
            1,
            "no draft is left"
        );
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(read_private(&path).unwrap_err().message().contains("0600"));
        let link = folder.path().join("l");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(read_private(&link).is_err());
        assert!(read_private(folder.path()).is_err());
    }
}
