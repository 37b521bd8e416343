//! Ranks as threads, on nodes by label.

use infiniccl::config::{Config, PluginEntry, PluginKind};
use infiniccl::{Communicator, Context};
use infiniccl_testkit::call::{Call, Placement};
use infiniccl_testkit::oracle::Case;
use std::path::PathBuf;

/// Where the plugins of a test come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plugins {
    /// Linked into the test.
    BuiltIn,
    /// The shared objects that `cargo build --workspace` made.
    SharedObjects,
}

/// Seconds after which a call that has not ended fails.
pub(crate) const LIMIT: &str = "60";

/// A configuration for a rank on node `node`.
pub(crate) fn config(node: u32, plugins: Plugins, settings: &[(&str, &str)]) -> Config {
    let mut config = Config::built_in();
    config.job.node = Some(format!("node{node}"));
    for (key, value) in [("timeouts.collective", LIMIT), ("timeouts.connect", "60")]
        .iter()
        .chain(settings)
    {
        config.set(key, value).expect("a valid setting");
    }
    if plugins == Plugins::SharedObjects {
        for (kind, name) in [(PluginKind::Vendor, "host"), (PluginKind::Net, "net_tcp")] {
            let mut entry = PluginEntry::new(kind, shared_object(name));
            entry.required = true;
            config.plugins.push(entry);
        }
    }
    config
}

fn shared_object(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the test's own path");
    let folder = test.ancestors().nth(2).expect("target/PROFILE/deps/TEST");
    let path = folder.join(format!("libinfiniccl_{name}.so"));
    assert!(
        path.exists(),
        "{} is missing: run `cargo build --workspace` first",
        path.display()
    );
    path
}

/// The ranks of one communicator.
pub(crate) struct World {
    pub(crate) comms: Vec<Communicator>,
}

impl World {
    /// Rank r on node `nodes[r]`.
    pub(crate) fn new(nodes: &[u32]) -> Self {
        Self::with(nodes, Plugins::BuiltIn, &[])
    }

    pub(crate) fn with(nodes: &[u32], plugins: Plugins, settings: &[(&str, &str)]) -> Self {
        Self::of(nodes.iter().map(|node| config(*node, plugins, settings)))
    }

    /// One rank for each configuration.
    pub(crate) fn of(configs: impl Iterator<Item = Config>) -> Self {
        let contexts: Vec<Context> = configs
            .map(|config| Context::new(config).expect("the plugins work here"))
            .collect();
        let id = &contexts[0].unique_id().expect("a root can listen here");
        let size = contexts.len() as u32;
        let comms = std::thread::scope(|scope| {
            let ranks: Vec<_> = (0u32..)
                .zip(&contexts)
                .map(|(rank, context)| {
                    let builder = Communicator::builder(context)
                        .unique_id(*id)
                        .rank(rank)
                        .size(size);
                    scope.spawn(move || builder.build())
                })
                .collect();
            let joined = ranks
                .into_iter()
                .map(|r| r.join().expect("no panic").expect("the ranks meet"));
            joined.collect()
        });
        World { comms }
    }

    /// Runs `rank` on a thread for each rank, and returns what they return, by rank.
    pub(crate) fn run<T: Send>(&self, rank: impl Fn(&Communicator) -> T + Sync) -> Vec<T> {
        std::thread::scope(|scope| {
            let rank = &rank;
            let ranks: Vec<_> = self
                .comms
                .iter()
                .map(|comm| scope.spawn(move || rank(comm)))
                .collect();
            ranks
                .into_iter()
                .map(|r| r.join().unwrap_or_else(|p| std::panic::resume_unwind(p)))
                .collect()
        })
    }
}

/// Calls `case` on one rank, and asserts that what came back is right and nothing else was touched.
#[track_caller]
pub(crate) fn right(comm: &Communicator, case: Case, placement: Placement) {
    let rank = comm.rank() as usize;
    let Some(mut call) = Call::new(case, rank, placement) else {
        return;
    };
    if let Err(error) = call.run(comm) {
        panic!("rank {rank}: {placement:?} {case:?}: {error}");
    }
    let found = call.check();
    assert!(
        found.is_ok(),
        "rank {rank}: {placement:?} {case:?}: {} wrong, {:?}",
        found.wrong,
        found.first
    );
}

/// How `ranks` ranks lie on nodes: name and nodes by rank.
pub(crate) fn layouts(ranks: u32) -> Vec<(&'static str, Vec<u32>)> {
    let mut layouts = vec![("1 node", vec![0; ranks as usize])];
    if ranks >= 2 {
        layouts.push(("2 even", (0..ranks).map(|r| r * 2 / ranks).collect()));
    }
    if ranks >= 3 {
        layouts.push(("2 uneven", (0..ranks).map(|r| u32::from(r > 0)).collect()));
        layouts.push(("3 interleaved", (0..ranks).map(|r| r % 3).collect()));
    }
    layouts
}
