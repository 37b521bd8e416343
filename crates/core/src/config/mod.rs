//! The configuration: one TOML file, a few environment variables, and what the program sets itself.
//!
//! Every key is declared once, in `schema.rs`; the fields of [`Config`], the reader with its messages, the
//! reference (`docs/configuration.md`), the shipped file (`conf/infiniccl.toml`) and the pairs that ranks
//! compare all come from there. A key that nothing knows is an error with its place and the nearest key.
//!
//! Later places win: default, file, variable, [`Config::set`].

mod choices;
mod declare;
mod diagnostic;
mod effective;
mod glob;
mod interface;
mod load;
mod misplaced;
mod numbers;
mod origin;
mod plugins;
mod raw;
mod read;
mod reference;
mod report;
mod rules;
mod schema;
mod subnet;
mod suggest;
mod text;
mod variables;

#[cfg(test)]
mod tests;

pub use choices::{AddressFamily, Auth, Check, Fallback, Numerics, OverrideAction, PluginKind, Verify};
pub use declare::{Key, Section};
pub use diagnostic::{Diagnostic, Diagnostics, Place, Severity};
pub use effective::EffectiveValue;
pub use interface::{Decision, Interface, InterfaceSelector, Selection};
pub use load::{LOCAL_FILES, LoadEnv, SYSTEM_FILE};
pub use numbers::PortRange;
pub use origin::{Origin, Source};
pub use plugins::{HostPatterns, OptionValue};
pub use reference::{reference_markdown, shipped_file};
pub use rules::{ALGORITHMS, COLLECTIVES, Wildcard};
pub use schema::{
    Algorithm, Config, Job, Log, Network, OverrideEntry, PathConfig, PluginEntry, Progress, RuleEntry,
    SECTIONS, Timeouts, keys,
};
pub use text::{LogFile, Secret, TIERS};
pub use variables::{INTERNAL_PREFIXES, PREFIX, Variable, variables};

use origin::Places;
