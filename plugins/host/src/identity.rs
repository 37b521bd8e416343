//! Who can share memory with this process: the text that ranks of one island have in common.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Where the kernel tells one boot of one machine from all others.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Equal for two processes if, and only if, they are likely able to share memory: same boot of the same kernel, same
/// user, and the same mount of `/dev/shm`. Without that mount, the same network namespace, through which anonymous
/// memory is handed over. A communicator proves it before it relies on it.
pub(crate) fn island() -> String {
    let Some(boot) = read(BOOT_ID) else {
        return alone();
    };
    let user = real_user(
        rustix::process::geteuid().as_raw(),
        &fs::read_to_string("/proc/self/uid_map").unwrap_or_default(),
    );
    let place = place(Path::new("/dev/shm"), Path::new("/proc/self/ns/net"));
    format!("boot {boot} user {user} {place}")
}

/// The boot id, if it can be read.
pub(crate) fn boot_id() -> Option<String> {
    read(BOOT_ID)
}

/// Nothing tells this machine from another, so the process shares with itself only.
fn alone() -> String {
    let start = read("/proc/self/stat")
        .and_then(|stat| {
            stat.rsplit(')')
                .next()?
                .split_whitespace()
                .nth(19)
                .map(str::to_owned)
        })
        .unwrap_or_default();
    format!("process {} started {start}", std::process::id())
}

fn read(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

fn place(shm: &Path, net: &Path) -> String {
    match fs::metadata(shm) {
        Ok(directory) if directory.is_dir() => format!("shm {}:{}", directory.dev(), directory.ino()),
        _ => match fs::read_link(net) {
            Ok(namespace) => namespace.display().to_string(),
            Err(_) => alone(),
        },
    }
}

/// The user outside of this process's user namespace: equal numbers inside two containers may be different users.
fn real_user(user: u32, map: &str) -> u64 {
    for line in map.lines() {
        let mut fields = line.split_whitespace().map(str::parse::<u64>);
        if let (Some(Ok(inside)), Some(Ok(outside)), Some(Ok(count))) =
            (fields.next(), fields.next(), fields.next())
            && let Some(offset) = u64::from(user)
                .checked_sub(inside)
                .filter(|offset| *offset < count)
        {
            return outside + offset;
        }
    }
    user.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_stable_within_a_process() {
        assert_eq!(island(), island());
        assert!(!alone().is_empty());
    }

    #[test]
    fn mounts_and_namespaces_tell_apart() {
        let net = Path::new("/proc/self/ns/net");
        assert_ne!(place(Path::new("/proc"), net), place(Path::new("/sys"), net));
        assert!(place(Path::new("/no/such/directory"), net).contains("net:"));
        assert!(place(Path::new("/no"), Path::new("/no")).starts_with("process"));
    }

    #[test]
    fn users_are_translated_out_of_a_namespace() {
        assert_eq!(real_user(0, "         0          0 4294967295\n"), 0);
        assert_eq!(real_user(7, "0 100000 65536"), 100_007);
        assert_eq!(real_user(1000, "0 100000 500\n1000 5 1"), 5);
        assert_eq!(real_user(9, ""), 9);
    }
}
