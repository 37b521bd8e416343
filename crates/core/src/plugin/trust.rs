//! Refuses plugin files that somebody else could have written or could exchange.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const GROUP_WRITE: u32 = 0o020;
const OTHER_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// Whether nobody but root and the current user may write the file `path`, the folder it lies in, and the
/// folders above; `path` must be canonical. The answer says which of them is open to whom, and what to change.
///
/// A folder above the containing one may be open to all when it is sticky, as `/tmp` is: others cannot exchange
/// in it what is not theirs. In a user namespace, owners outside of it all look like one unknown user; they
/// cannot be told apart there, so only the modes decide.
pub(super) fn check(path: &Path) -> Result<(), String> {
    let metadata = examine(path)?;
    judge(path, &metadata, &Viewer::current(), false)?;
    check_folder(path)
}

/// As [`check`], but for the folders alone.
pub(super) fn check_folder(path: &Path) -> Result<(), String> {
    let viewer = Viewer::current();
    for (level, folder) in path.ancestors().skip(1).enumerate() {
        judge(folder, &examine(folder)?, &viewer, level >= 1)?;
    }
    Ok(())
}

fn examine(path: &Path) -> Result<Metadata, String> {
    fs::symlink_metadata(path).map_err(|e| format!("{} cannot be examined: {e}", path.display()))
}

/// Who asks.
struct Viewer {
    own: u32,
    /// The user that stands for all who have no number in this user namespace.
    unknown: Option<u32>,
}

impl Viewer {
    fn current() -> Self {
        Viewer {
            own: rustix::process::geteuid().as_raw(),
            unknown: unmapped_owner(),
        }
    }
}

/// Says who else may write, and what changes it.
fn judge(path: &Path, metadata: &Metadata, viewer: &Viewer, sticky_is_enough: bool) -> Result<(), String> {
    let (owner, mode) = (metadata.uid(), metadata.mode());
    let (who, remedy) = if owner != 0 && owner != viewer.own && Some(owner) != viewer.unknown {
        (
            format!("its owner, user {owner}"),
            "copy the plugin to a folder of your own, or change the owner of",
        )
    } else if sticky_is_enough && mode & STICKY != 0 {
        return Ok(());
    } else if mode & OTHER_WRITE != 0 {
        (format!("everybody (mode {:04o})", mode & 0o7777), "chmod o-w")
    } else if mode & GROUP_WRITE != 0 {
        (
            format!("its group {} (mode {:04o})", metadata.gid(), mode & 0o7777),
            "chmod g-w",
        )
    } else {
        return Ok(());
    };
    let path = path.display();
    Err(format!(
        "{path} may be written by {who}, and plugins are loaded only from files and folders that nobody but root \
         and the current user may write: {remedy} {path}"
    ))
}

/// [`Viewer::unknown`], if there are such users.
fn unmapped_owner() -> Option<u32> {
    let map = fs::read_to_string("/proc/self/uid_map").ok()?;
    let mapped: u64 = map
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2)?.parse::<u64>().ok())
        .sum();
    if mapped >= u64::from(u32::MAX) {
        return None;
    }
    let overflow: io::Result<String> = fs::read_to_string("/proc/sys/fs/overflowuid");
    Some(
        overflow
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .unwrap_or(65534),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_file_or_a_folder_that_others_may_write_is_named() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path().canonicalize().unwrap();
        let folder = base.join("a/b");
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("libx.so");
        fs::write(&file, "x").unwrap();
        for part in [&base, &base.join("a"), &folder] {
            mode(part, 0o755);
        }
        mode(&file, 0o644);
        assert_eq!(check(&file), Ok(()));

        for (part, bits, sound, who, remedy) in [
            (file.clone(), 0o664, 0o644, "its group", "chmod g-w"),
            (file.clone(), 0o646, 0o644, "everybody", "chmod o-w"),
            (folder.clone(), 0o775, 0o755, "its group", "chmod g-w"),
            (folder.clone(), 0o1777, 0o755, "everybody", "chmod o-w"),
            (base.join("a"), 0o777, 0o755, "everybody", "chmod o-w"),
        ] {
            mode(&part, bits);
            let error = check(&file).unwrap_err();
            assert!(
                error.starts_with(&format!("{} may be written by {who}", part.display())),
                "{error}"
            );
            assert!(
                error.ends_with(&format!("{remedy} {}", part.display())),
                "{error}"
            );
            mode(&part, sound);
        }
        // As /tmp is: open to all, but nobody can exchange what is not theirs.
        mode(&base.join("a"), 0o1777);
        assert_eq!(check(&file), Ok(()));
    }

    #[test]
    fn a_strangers_file_is_refused_also_when_only_he_may_write_it() {
        let base = tempfile::tempdir().unwrap();
        let file = base.path().join("libx.so");
        fs::write(&file, "x").unwrap();
        mode(&file, 0o644);
        let judged = |own: u32, unknown: Option<u32>| {
            judge(
                &file,
                &fs::metadata(&file).unwrap(),
                &Viewer { own, unknown },
                false,
            )
        };
        if fs::metadata(&file).unwrap().uid() == 0 {
            assert_eq!(judged(7, None), Ok(()), "root may write everything anyway");
            std::os::unix::fs::chown(&file, Some(12345), None).unwrap();
        }
        let owner = fs::metadata(&file).unwrap().uid();
        assert_eq!(judged(owner, None), Ok(()));
        let error = judged(owner + 1, None).unwrap_err();
        assert!(
            error.contains(&format!("may be written by its owner, user {owner},")),
            "{error}"
        );
        assert_eq!(judged(owner + 1, Some(owner)), Ok(()));
    }
}
