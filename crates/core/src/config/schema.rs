//! The declaration of every key: its type, default, limits, variable and help stand here and nowhere else.

use std::path::PathBuf;
use std::time::Duration;

use infiniccl_reduce::{DataType, ReduceOp};

use super::choices::{AddressFamily, Auth, Check, Fallback, Numerics, OverrideAction, PluginKind, Verify};
use super::declare::{Codec, Key, Scalar, Section, declare};
use super::interface::{InterfaceSelector, Selectors};
use super::numbers::{
    Bytes, BytesLimit, Count, CountLimit, Flag, PortRange, Ports, Priority, Seconds, WholeSeconds,
};
use super::origin::{Meta, Origin, Places};
use super::plugins::{HostPatterns, Hosts, OptionValue, Options, PluginName};
use super::read::TableReader;
use super::rules::{AlgorithmName, CollectiveName, DataTypeName, OpName, PluginReference, Wildcard};
use super::text::{
    FilePath, Folders, JobSecret, LogFile, LogFilter, LogPattern, NodeLabel, PathOrder, RootAddress, Secret,
    SecretFile, TIERS,
};

/// One week: longer than any wait that is still a wait.
const LONGEST: f64 = 604_800.0;

declare! {
    root {
        /// Folders where plugins with a relative path are looked for, after the folder of this file and before
        /// the folder of the executable. Relative folders start at the folder of this file.
        plugin_dirs: Vec<PathBuf> as Folders = Vec::new(), [example("[\"../lib\"]")];
        /// Whether the ranks compare what they call, so that a rank with another collective, count, type,
        /// operator or root ends in an error on every rank.
        check: Check as Check = Check::On, [agree()];
        /// When the native reductions of plugins are checked against known answers before they are trusted.
        verify: Verify as Verify = Verify::Once, [agree()];
        /// `strict`: a native operation that does not keep NaN, or rounds more than promised, is emulated.
        /// `vendor`: its own arithmetic is good enough; wrong answers are still found by `verify`.
        numerics: Numerics as Numerics = Numerics::Strict, [agree()];
        /// The same bytes from run to run: no calibration, only operations declared as deterministic.
        deterministic: bool as Flag = false, [agree()];
        /// `key`: each connection proves that it knows the key of the job. `none`: anyone who reaches a port can
        /// join; a warning says so.
        auth: Auth as Auth = Auth::Key, [agree()];
    }
    sections {
        /// Which way a link between two ranks takes.
        path: PathConfig, variables_only = false {
            /// Tiers and names of network plugins, the preferred first. What is not listed is not used. Tiers:
            /// `vendor` (the vendor's own library), `node` (shared memory), `direct` (the network card reads
            /// device memory), `staged` (through pinned host memory), `tcp`.
            order: Vec<String> as PathOrder = TIERS.iter().map(|tier| (*tier).to_owned()).collect(), [agree()];
            /// What happens when a link cannot use its best path: `allow` the next one, `warn` and take it, or
            /// end in an `error` when the communicator is created.
            fallback: Fallback as Fallback = Fallback::Warn, [agree()];
        }
        /// Which network interfaces and ports are used, and how.
        network: Network, variables_only = false {
            /// Interfaces to use or, with `^` in front, not to use. Exclusions add to the built-in ones (loopback,
            /// `docker*`, `virbr*`, `veth*`, link-local addresses); they never replace them.
            interfaces: InterfaceSelector as Selectors = InterfaceSelector::default(),
                [env("INFINICCL_INTERFACE"), example("[\"eth*\", \"10.9.0.0/24\", \"^eth3\"]")];
            /// Which addresses are used.
            address_family: AddressFamily as AddressFamily = AddressFamily::Any;
            /// The ports that listeners may take, for firewalls.
            port_range: PortRange as Ports = PortRange::ANY, [example("\"40000-40100\"")];
            /// How long a connection may be idle before the operating system probes whether the peer is there.
            keepalive: Duration as WholeSeconds = Duration::from_secs(15), [range(0.0, 32_767.0)];
        }
        /// How long things may take, in seconds. Every wait has a limit.
        timeouts: Timeouts, variables_only = false {
            /// Creating a communicator: until all ranks are there and connected.
            connect: Duration as Seconds = Duration::from_secs(60), [range(0.001, LONGEST)];
            /// One collective, send or receive, from the call until it is done.
            collective: Duration as Seconds = Duration::from_secs(1800),
                [range(0.001, LONGEST), env("INFINICCL_TIMEOUT")];
            /// A rank that was not heard for so long, in a collective or between two, counts as lost.
            heartbeat: Duration as Seconds = Duration::from_secs(10), [range(0.1, LONGEST), agree()];
        }
        /// How messages are cut; which algorithm is used is chosen by cost, or by `[[rule]]`.
        algorithm: Algorithm, variables_only = false {
            /// The most bytes that are sent, reduced and copied as one piece, so that these overlap.
            chunk_bytes: u64 as Bytes = 256 << 10, [range(64.0, 1_073_741_824.0), agree()];
        }
        /// How a thread waits: it spins, then yields the core, then sleeps until it is woken.
        progress: Progress, variables_only = false {
            /// How long to spin, in microseconds.
            spin_us: u64 as Count = 5, [range(0.0, 1_000_000.0)];
            /// How long to yield after that, in microseconds.
            yield_us: u64 as Count = 50, [range(0.0, 1_000_000.0)];
        }
        /// What is logged, and where. The Rust library installs no log by itself; the command and the other
        /// bindings do.
        log: Log, variables_only = false {
            /// The least important level that is logged: `off`, `error`, `warn`, `info`, `debug`, `trace`; or
            /// levels by target.
            level: String as LogFilter = "warn".to_owned(), [env("INFINICCL_LOG")];
            /// The file to log to, one for each process or rank if the pattern says so.
            file: LogFile as LogPattern = LogFile::default(), [example("\"infiniccl-%h-%r.log\"")];
        }
        /// What a job gives its ranks when no launcher does. These differ by job, so they stand in no file.
        job: Job, variables_only = true {
            /// Where rank 0 listens.
            root: Option<String> as RootAddress = None, [env("INFINICCL_ROOT")];
            /// The secret from which the key of the job is made. Any text that all ranks share.
            secret: Option<Secret> as JobSecret = None, [env("INFINICCL_SECRET")];
            /// A file with the secret, which nobody but its owner may read.
            secret_file: Option<PathBuf> as SecretFile = None, [env("INFINICCL_SECRET_FILE")];
            /// A label for the node of this rank, in place of the identity of the host: ranks with different
            /// labels count as ranks on different nodes.
            node: Option<String> as NodeLabel = None, [env("INFINICCL_NODE")];
        }
    }
    tables {
        /// A plugin to load. A compiled-in plugin that is also listed is loaded once, as listed.
        "plugin" => plugins: PluginEntry {
            /// The name for `path.order` and `[[override]]`. Empty: from the file name, so that
            /// `libinfiniccl_net_tcp.so` is `net-tcp`.
            name: String as PluginName = String::new();
            /// `vendor` for devices and their collective library, `net` for bytes between ranks.
            kind: PluginKind as PluginKind, [example("\"net\"")];
            /// The file. A relative path is looked for in the folder of this file, in `plugin_dirs`, and in the
            /// folder of the executable; the search path of the system's loader is never used.
            path: PathBuf as FilePath, [example("\"libinfiniccl_net_tcp.so\"")];
            /// Handed to the plugin as `key = value`; the plugin refuses what it does not know.
            options: Vec<(String, OptionValue)> as Options = Vec::new();
            /// Where two plugins could serve, the one with the higher number does.
            priority: i64 as Priority = 0, [range(-1_000_000.0, 1_000_000.0)];
            /// Whether it is an error when the plugin cannot be used; else it is a line in `infiniccl info`.
            required: bool as Flag = false;
            /// The hosts that load it, by full or short name, so that one file serves a mixed cluster.
            hosts: HostPatterns as Hosts = HostPatterns::every();
        }
        /// Changes what a plugin's operation counts as. The first entry that fits decides.
        "override" => overrides: OverrideEntry {
            /// The plugin whose operation is meant.
            plugin: Wildcard<String> as PluginReference = Wildcard::Any, [agree()];
            /// The collective.
            collective: Wildcard<&'static str> as CollectiveName = Wildcard::Any, [agree()];
            /// The element type.
            dtype: Wildcard<DataType> as DataTypeName = Wildcard::Any, [agree()];
            /// The operator.
            op: Wildcard<ReduceOp> as OpName = Wildcard::Any, [agree()];
            /// `native`: the plugin's own operation. `emulate`: composed or computed by the library. `refuse`: an
            /// error before any byte moves.
            action: OverrideAction as OverrideAction, [example("\"emulate\""), agree()];
        }
        /// Chooses the algorithm in place of the cost model. The first rule that fits decides.
        "rule" => rules: RuleEntry {
            /// The collective.
            collective: Wildcard<&'static str> as CollectiveName, [example("\"all_reduce\""), agree()];
            /// The least bytes of one rank's message.
            min_bytes: u64 as Bytes = 0, [agree()];
            /// The most bytes of one rank's message.
            max_bytes: u64 as BytesLimit = u64::MAX, [agree()];
            /// The fewest ranks.
            min_ranks: u64 as Count = 1, [range(1.0, 16_777_216.0), agree()];
            /// The most ranks.
            max_ranks: u64 as CountLimit = u64::MAX, [range(1.0, 16_777_216.0), agree()];
            /// The algorithm.
            algorithm: &'static str as AlgorithmName, [example("\"ring\""), agree()];
        }
    }
}

/// The keys of an array of tables; empty for a name that is none.
pub(super) fn entry_keys(table: &str) -> &'static [Key] {
    ENTRY_KEYS
        .iter()
        .find(|(name, _)| *name == table)
        .map_or(&[], |(_, keys)| keys)
}

/// Every key, in the order of the declaration.
pub fn keys() -> impl Iterator<Item = &'static Key> {
    SCALARS
        .iter()
        .map(|scalar| &scalar.key)
        .chain(ENTRY_KEYS.iter().flat_map(|(_, keys)| keys.iter()))
}

/// The section called `name`.
pub(super) fn section(name: &str) -> Option<&'static Section> {
    SECTIONS
        .iter()
        .find(|section| section.name == name && !name.is_empty())
}
