//! Refuses plugin files that somebody else could have written or could exchange.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const GROUP_WRITE: u32 = 0o020;
const OTHER_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// Whether nobody but root and the current user may write the file `path`, the folder it lies in, and the
/// folders above; `path` must be canonical. The answer says which of them is open to whom, and what to change.
///
/// Writing by a group is no harm where the owner is its only member, as in the groups that many systems make for
/// each user. A folder above the containing one may be open to all when it is sticky, as `/tmp` is: others cannot exchange
/// in it what is not theirs. In a user namespace, owners outside of it all look like one unknown user; they
/// cannot be told apart there, so only the modes decide.
pub(super) fn check(path: &Path) -> Result<(), String> {
    judge(path, examine(path)?, &Viewer::current(), false)?;
    check_folder(path)
}

/// As [`check`], but for the folders alone.
pub(super) fn check_folder(path: &Path) -> Result<(), String> {
    let viewer = Viewer::current();
    for (level, folder) in path.ancestors().skip(1).enumerate() {
        judge(folder, examine(folder)?, &viewer, level >= 1)?;
    }
    Ok(())
}

/// Who owns a file, and who may do what with it.
#[derive(Clone, Copy)]
struct Rights {
    owner: u32,
    group: u32,
    mode: u32,
}

fn examine(path: &Path) -> Result<Rights, String> {
    let metadata =
        fs::symlink_metadata(path).map_err(|e| format!("{} cannot be examined: {e}", path.display()))?;
    Ok(Rights {
        owner: metadata.uid(),
        group: metadata.gid(),
        mode: metadata.mode(),
    })
}

/// Who asks.
struct Viewer {
    own: u32,
    /// The user that stands for all who have no number in this user namespace.
    unknown: Option<u32>,
    /// The text of `/etc/passwd` and `/etc/group`; empty where there is none.
    users: String,
    groups: String,
}

impl Viewer {
    fn current() -> Self {
        let text = |file: &str| fs::read_to_string(file).unwrap_or_default();
        Viewer {
            own: rustix::process::geteuid().as_raw(),
            unknown: unmapped_owner(),
            users: text("/etc/passwd"),
            groups: text("/etc/group"),
        }
    }

    /// Whether `owner` is the only member of the group. Users and groups of a directory service are not seen; a
    /// group that is not in the file is never private.
    fn is_private(&self, group: u32, owner: u32) -> bool {
        fn field(line: &str, n: usize) -> &str {
            line.split(':').nth(n).unwrap_or_default()
        }
        let number = |line: &str, n: usize| field(line, n).parse::<u32>().ok();
        let own_row = self.users.lines().find(|line| number(line, 2) == Some(owner));
        let Some(owner_name) = own_row.map(|line| field(line, 0)) else {
            return false;
        };
        let mut rows = self
            .groups
            .lines()
            .filter(|line| number(line, 2) == Some(group))
            .peekable();
        let known = rows.peek().is_some();
        let mut members = rows.flat_map(|line| field(line, 3).split(','));
        let mut primary = self.users.lines().filter(|line| number(line, 3) == Some(group));
        known
            && members.all(|member| member.is_empty() || member == owner_name)
            && primary.all(|line| number(line, 2) == Some(owner))
    }
}

/// Says who else may write, and what changes it.
fn judge(path: &Path, rights: Rights, viewer: &Viewer, sticky_is_enough: bool) -> Result<(), String> {
    let Rights { owner, group, mode } = rights;
    let (who, remedy) = if owner != 0 && owner != viewer.own && Some(owner) != viewer.unknown {
        (
            format!("its owner, user {owner}"),
            "copy the plugin to a folder of your own, or change the owner of",
        )
    } else if sticky_is_enough && mode & STICKY != 0 {
        return Ok(());
    } else if mode & OTHER_WRITE != 0 {
        (format!("everybody (mode {:04o})", mode & 0o7777), "chmod o-w")
    } else if mode & GROUP_WRITE != 0 && !viewer.is_private(group, owner) {
        (
            format!("its group {group} (mode {:04o})", mode & 0o7777),
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
            (file.clone(), 0o646, 0o644, "everybody", "chmod o-w"),
            (folder.clone(), 0o757, 0o755, "everybody", "chmod o-w"),
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
        let judged = |owner: u32, own: u32, unknown: Option<u32>| {
            let viewer = Viewer {
                own,
                unknown,
                users: String::new(),
                groups: String::new(),
            };
            judge(
                Path::new("/x.so"),
                Rights {
                    owner,
                    group: 7,
                    mode: 0o100_644,
                },
                &viewer,
                false,
            )
        };
        assert_eq!(judged(0, 1000, None), Ok(()), "root may write everything anyway");
        assert_eq!(judged(1000, 1000, None), Ok(()));
        let error = judged(1001, 1000, None).unwrap_err();
        assert!(
            error.starts_with("/x.so may be written by its owner, user 1001, and"),
            "{error}"
        );
        assert!(error.ends_with("change the owner of /x.so"), "{error}");
        assert_eq!(
            judged(65534, 1000, Some(65534)),
            Ok(()),
            "owners outside of a user namespace"
        );
    }

    #[test]
    fn a_group_may_write_only_where_the_owner_is_alone_in_it() {
        let viewer = Viewer {
            own: 1000,
            unknown: None,
            users: "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/:/bin/sh\nbob:x:1001:1001::/:/bin/sh\n\
                    eve:x:1002:100::/:/bin/sh\nmax:x:1003:1003::/:/bin/sh\ntom:x:1004:1003::/:/bin/sh\n"
                .to_owned(),
            groups: "root:x:0:\nann:x:1000:\nbob:x:1001:bob,eve\nusers:x:100:ann\nmax:x:1003:\n".to_owned(),
        };
        assert!(viewer.is_private(1000, 1000), "ann's own group");
        assert!(viewer.is_private(0, 0));
        assert!(!viewer.is_private(1000, 1001), "a group of somebody else");
        assert!(!viewer.is_private(1001, 1001), "eve is in bob's group");
        assert!(!viewer.is_private(100, 1000), "eve's primary group");
        assert!(
            !viewer.is_private(1003, 1003),
            "tom has max's group as his primary one"
        );
        assert!(!viewer.is_private(4711, 1000), "an unknown group");

        let judged = |owner, group| {
            judge(
                Path::new("/x.so"),
                Rights {
                    owner,
                    group,
                    mode: 0o100_664,
                },
                &viewer,
                false,
            )
        };
        assert_eq!(judged(1000, 1000), Ok(()));
        let error = judged(1000, 100).unwrap_err();
        assert!(error.contains("by its group 100 (mode 0664)"), "{error}");
        assert!(error.ends_with(": chmod g-w /x.so"), "{error}");
    }
}
