//! The variables that tell a process which rank it is: torchrun's names, and where and with which key to meet.

use std::fmt;
use std::net::SocketAddr;

use super::{ClusterError, Layout, Node, Place};

/// Variables of other launchers that a rank must not inherit: a shell inside an allocation of Slurm, or a rank
/// of `mpirun`, may start a job of its own, whose ranks are numbered here and nowhere else.
pub const FOREIGN_VARIABLES: &[&str] = &[
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "OMPI_COMM_WORLD_NODE_RANK",
    "PMIX_RANK",
    "PMIX_NAMESPACE",
    "PMIX_SERVER_URI2",
    "PMIX_SERVER_URI21",
    "PMIX_SERVER_URI3",
    "PMIX_SERVER_URI4",
    "PMI_RANK",
    "PMI_SIZE",
    "PMI_FD",
    "PMI_PORT",
    "PMI_ID",
    "MPI_LOCALRANKID",
    "MPI_LOCALNRANKS",
    "SLURM_PROCID",
    "SLURM_NTASKS",
    "SLURM_NPROCS",
    "SLURM_LOCALID",
    "INFINICCL_SECRET_FILE",
];

/// A random key of a job, as 64 hexadecimal digits. `Debug` does not show it.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// 32 bytes from the kernel's generator.
    pub fn random() -> Result<Self, ClusterError> {
        let mut key = [0u8; 32];
        let mut filled = 0;
        while filled < key.len() {
            match rustix::rand::getrandom(&mut key[filled..], rustix::rand::GetRandomFlags::empty()) {
                Ok(n) => filled += n,
                Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(ClusterError::caused("cannot draw a random key for the job", e)),
            }
        }
        Ok(Secret(key.iter().map(|b| format!("{b:02x}")).collect()))
    }

    /// The digits: for the environment of a rank, never for a command line or a log.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Where the ranks of a job meet, and the key they prove to each other.
#[derive(Debug, Clone)]
pub struct Rendezvous {
    /// Rank 0 listens here for the library's own bootstrap.
    pub root: SocketAddr,
    /// Rank 0 of a program that uses torch.distributed listens here; it differs from `root`.
    pub master: SocketAddr,
    /// The job's key.
    pub secret: Secret,
}

/// The variables of one rank. `node` is given where the job was told which nodes it has.
pub fn rank_variables(
    place: &Place,
    layout: &Layout,
    meet: &Rendezvous,
    node: Option<&Node>,
) -> Vec<(&'static str, String)> {
    let ranks = layout.ranks().to_string();
    let mut vars = vec![
        ("RANK", place.rank.to_string()),
        ("WORLD_SIZE", ranks.clone()),
        ("LOCAL_RANK", place.local_rank.to_string()),
        ("LOCAL_WORLD_SIZE", place.local_size.to_string()),
        ("GROUP_RANK", place.node.to_string()),
        ("GROUP_WORLD_SIZE", layout.nodes().to_string()),
        ("ROLE_NAME", "default".into()),
        ("ROLE_RANK", place.rank.to_string()),
        ("ROLE_WORLD_SIZE", ranks),
        ("MASTER_ADDR", meet.master.ip().to_string()),
        ("MASTER_PORT", meet.master.port().to_string()),
        ("INFINICCL_ROOT", meet.root.to_string()),
        ("INFINICCL_SECRET", meet.secret.expose().to_string()),
    ];
    if let Some(node) = node {
        vars.push(("INFINICCL_NODE", node.name.clone()));
        vars.push(("INFINICCL_INTERFACE", node.interface.clone()));
    }
    vars
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Order;

    #[test]
    fn torchruns_names_and_our_own() {
        let layout = Layout::parse("3+1", Order::Interleaved).unwrap();
        let meet = Rendezvous {
            root: "127.0.0.1:7001".parse().unwrap(),
            master: "127.0.0.1:7002".parse().unwrap(),
            secret: Secret::random().unwrap(),
        };
        let vars = rank_variables(&layout.places()[2], &layout, &meet, None);
        let get = |name: &str| vars.iter().find(|(k, _)| *k == name).map(|(_, v)| v.as_str());
        assert_eq!(get("RANK"), Some("2"));
        assert_eq!(get("WORLD_SIZE"), Some("4"));
        assert_eq!(get("LOCAL_RANK"), Some("1"));
        assert_eq!(get("LOCAL_WORLD_SIZE"), Some("3"));
        assert_eq!(get("GROUP_RANK"), Some("0"));
        assert_eq!(get("MASTER_PORT"), Some("7002"));
        assert_eq!(get("INFINICCL_ROOT"), Some("127.0.0.1:7001"));
        assert_eq!(get("INFINICCL_SECRET").unwrap().len(), 64);
        assert_eq!(get("INFINICCL_NODE"), None);
    }

    #[test]
    fn secrets_differ_and_hide() {
        let (a, b) = (Secret::random().unwrap(), Secret::random().unwrap());
        assert_ne!(a.expose(), b.expose());
        assert!(!format!("{a:?}").contains(a.expose()));
    }
}
