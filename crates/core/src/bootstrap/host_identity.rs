//! Which ranks are on the same host: an identity made of facts, not of names.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::wire::{Malformed, Reader, Writer};

const MAX_TEXT: usize = 255;

/// Where a rank runs. Two ranks with equal `id` are taken for ranks of one node; that they really can share memory is
/// proven before it is used.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct HostIdentity {
    /// Equal on ranks that see the same kernel and the same `/dev/shm`, and carry the same node label.
    pub(crate) id: u64,
    /// The host's name with the node label, for people.
    pub(crate) hostname: String,
}

impl HostIdentity {
    /// The identity of this process; `label` (INFINICCL_NODE) sets ranks of one machine apart as different nodes.
    pub(crate) fn of_this_process(label: Option<&str>) -> Self {
        let uname = rustix::system::uname();
        let name = uname.nodename().to_string_lossy().into_owned();
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
        // The file system behind /dev/shm is what ranks must have in common: containers may share it or not, whatever
        // they are called. Without it, the IPC namespace is the next best fact.
        let shared = std::fs::metadata("/dev/shm")
            .map(|m| (m.dev(), m.ino()))
            .unwrap_or((0, namespace("ipc")));
        Self::from_facts(boot.as_deref(), &name, shared, label)
    }

    fn from_facts(boot: Option<&str>, name: &str, shared: (u64, u64), label: Option<&str>) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("infiniccl host identity");
        let machine = match boot.map(str::trim).filter(|b| !b.is_empty()) {
            Some(boot) => format!("boot {boot}"),
            // A name is a weak fact, so it only stands in where the kernel's own is hidden.
            None => format!("name {name}"),
        };
        for part in [machine.as_str(), label.unwrap_or("")] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        hasher.update(&shared.0.to_le_bytes());
        hasher.update(&shared.1.to_le_bytes());
        let bytes: [u8; 8] = hasher.finalize().as_bytes()[..8].try_into().expect("8 bytes");
        let hostname = match label {
            Some(label) if !label.is_empty() => format!("{name}/{label}"),
            _ => name.to_owned(),
        };
        HostIdentity {
            id: u64::from_le_bytes(bytes),
            hostname,
        }
    }

    pub(crate) fn encode(&self, w: &mut Writer) {
        w.u64(self.id).text(&self.hostname, MAX_TEXT);
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(HostIdentity {
            id: r.u64()?,
            hostname: r.text(MAX_TEXT)?,
        })
    }
}

/// The number of a namespace of this process, 0 where it cannot be read.
pub(crate) fn namespace(kind: &str) -> u64 {
    std::fs::metadata(Path::new("/proc/self/ns").join(kind))
        .map(|m| m.ino())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_decide_and_names_do_not() {
        let a = HostIdentity::from_facts(Some("b1\n"), "node", (7, 1), None);
        assert_eq!(
            a.id,
            HostIdentity::from_facts(Some("b1"), "other-name", (7, 1), Some("")).id
        );
        assert_ne!(
            a.id,
            HostIdentity::from_facts(Some("b1"), "node", (8, 1), None).id,
            "another /dev/shm"
        );
        assert_ne!(
            a.id,
            HostIdentity::from_facts(Some("b2"), "node", (7, 1), None).id,
            "another machine"
        );
        let left = HostIdentity::from_facts(Some("b1"), "node", (7, 1), Some("n0"));
        let right = HostIdentity::from_facts(Some("b1"), "node", (7, 1), Some("n1"));
        assert_ne!(left.id, right.id);
        assert_eq!(left.hostname, "node/n0");
    }

    #[test]
    fn without_a_boot_id_the_name_stands_in() {
        let a = HostIdentity::from_facts(None, "a.b", (7, 1), None);
        assert_ne!(a.id, HostIdentity::from_facts(None, "a.c", (7, 1), None).id);
        assert_ne!(a.id, HostIdentity::from_facts(Some(" "), "a", (7, 1), None).id);
    }

    #[test]
    fn this_process_has_one_identity_that_travels() {
        let a = HostIdentity::of_this_process(None);
        assert_eq!(a, HostIdentity::of_this_process(None));
        let mut w = Writer::new();
        a.encode(&mut w);
        let bytes = w.finish();
        assert_eq!(HostIdentity::decode(&mut Reader::new(&bytes)), Ok(a));
        assert_ne!(namespace("ipc"), 0);
    }
}
