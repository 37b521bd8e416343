//! What ranks hold while they run, and the check that nothing of it is left when they have ended.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use infiniccl_testkit::cluster::{Cluster, Layout};
use rustix::process::Pid;

use crate::sockets::{Listener, listeners_here, listeners_of};
use crate::{Ended, Ranks};

/// Where shared memory has its names.
const SHARED: &str = "/dev/shm";

/// How long the kernel may take to clear up after a process.
const AFTERMATH: Duration = Duration::from_secs(5);

/// The processes, listeners and shared memory of a job while it runs, by rank.
pub struct Traces {
    processes: Vec<Pid>,
    listeners: Vec<Vec<Listener>>,
    names: Vec<BTreeSet<String>>,
}

impl Traces {
    /// Looks at the ranks, all of which have to run.
    pub fn of(ranks: &Ranks) -> Self {
        let processes: Vec<Pid> = (0..ranks.size()).map(|rank| ranks.pid(rank)).collect();
        Traces {
            listeners: processes.iter().map(|pid| listeners_of(*pid)).collect(),
            names: processes.iter().map(|pid| shared_names(*pid)).collect(),
            processes,
        }
    }

    /// The listeners of all ranks.
    pub fn listeners(&self) -> impl Iterator<Item = &Listener> {
        self.listeners.iter().flatten()
    }

    /// Asserts that no process, listening port or name in `/dev/shm` is left.
    ///
    /// # Panics
    /// When something is; or when a node cannot be entered.
    pub fn are_gone(&self, cluster: &Cluster, layout: &Layout, ended: &Ended) {
        let begun = Instant::now();
        loop {
            let left = self.left(cluster, layout);
            if left.is_empty() {
                return;
            }
            assert!(
                begun.elapsed() < AFTERMATH,
                "left behind: {}\n{}",
                left.join(", "),
                ended.report()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn left(&self, cluster: &Cluster, layout: &Layout) -> Vec<String> {
        let mut left: Vec<String> = self
            .processes
            .iter()
            .map(|pid| format!("/proc/{}", pid.as_raw_nonzero()))
            .filter(|path| Path::new(path).exists())
            .collect();
        for (node, _) in cluster.nodes().iter().enumerate() {
            let look = || (listeners_here(), entries(Path::new(SHARED)));
            let (listeners, names) = cluster.in_node(node, look).expect("the node can be entered");
            let here = layout.places().into_iter().filter(|place| place.node == node);
            let ranks: Vec<usize> = here.map(|place| place.rank).collect();
            // A namespace has the job alone; elsewhere other programs listen and share memory too.
            let alone = cluster.has_namespaces();
            let mine = |l: &Listener| alone || ranks.iter().any(|r| self.listeners[*r].contains(l));
            let listeners = listeners.iter().filter(|l| mine(l));
            left.extend(listeners.map(|l| format!("a listener at {}", l.address)));
            let names = names
                .iter()
                .filter(|name| alone || ranks.iter().any(|r| self.names[*r].contains(*name)));
            left.extend(names.map(|name| format!("{SHARED}/{name} on node {node}")));
        }
        left
    }
}

/// Files of `/dev/shm` that a process has open or mapped.
fn shared_names(process: Pid) -> BTreeSet<String> {
    let folder = Path::new("/proc").join(process.as_raw_nonzero().to_string());
    let maps = fs::read_to_string(folder.join("maps")).unwrap_or_default();
    let mapped = maps
        .lines()
        .filter_map(|line| line.split_ascii_whitespace().nth(5));
    let open = fs::read_dir(folder.join("fd")).into_iter().flatten();
    let open = open.filter_map(|entry| Some(fs::read_link(entry.ok()?.path()).ok()?.display().to_string()));
    let all = mapped.map(str::to_string).chain(open);
    all.filter_map(|path| Some(path.strip_prefix(SHARED)?.strip_prefix('/')?.to_string()))
        .collect()
}

fn entries(folder: &Path) -> BTreeSet<String> {
    let listed = fs::read_dir(folder).into_iter().flatten();
    listed
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .collect()
}
