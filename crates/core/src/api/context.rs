//! What a process needs before any communicator: the configuration in force and the plugins that were found.

use crate::bootstrap::{Reach, Settings, UniqueId, create_unique_id};
use crate::capability::{Demands, Override, Wish};
use crate::config::{self, Config, OverrideAction};
use crate::error::Result;
use crate::plan;
use crate::plugin::Registry;
use std::path::Path;
use std::sync::Arc;

/// Configuration and plugins of a process. Cheap to clone; the plugins stay loaded for the life of the process.
#[derive(Clone)]
pub struct Context(Arc<Shared>);

struct Shared {
    config: Config,
    registry: Registry,
}

impl Context {
    /// Loads the configuration from where it is searched for, and the plugins that it lists.
    ///
    /// # Errors
    /// [`crate::ErrorKind::InvalidUsage`] for a configuration with mistakes (all of them are named), and for a
    /// required plugin that cannot be used.
    pub fn load() -> Result<Self> {
        Self::new(Config::load(None)?)
    }

    /// As [`Self::load`], with the configuration of one file.
    pub fn from_file(path: &Path) -> Result<Self> {
        Self::new(Config::load(Some(path))?)
    }

    /// Finds the plugins that `config` lists; blocks while they are loaded and probed.
    pub fn new(config: Config) -> Result<Self> {
        config.log_warnings();
        let registry = Registry::from_config(&config)?;
        let names: Vec<&str> = registry.rows().iter().map(|row| row.name.as_str()).collect();
        let mut wrong = config.unknown_plugin_names(&names);
        wrong.extend(config.impossible_rules(plan::offers));
        config::Diagnostics::none_in(wrong)?;
        Ok(Context(Arc::new(Shared { config, registry })))
    }

    /// The configuration in force.
    pub fn config(&self) -> &Config {
        &self.0.config
    }

    /// The plugins that were found, and the reasons where one is not used.
    pub fn registry(&self) -> &Registry {
        &self.0.registry
    }

    /// Makes the id of a new communicator. This process then waits for its ranks, in the background, until they
    /// have met; carry the id to them by any channel that strangers cannot read, since it holds the key.
    pub fn unique_id(&self) -> Result<UniqueId> {
        create_unique_id(&self.bootstrap_settings(), Reach::AnyHost)
    }

    /// An id for ranks of this process or host alone.
    pub(super) fn local_unique_id(&self) -> Result<UniqueId> {
        create_unique_id(&self.bootstrap_settings(), Reach::ThisHost)
    }

    pub(super) fn bootstrap_settings(&self) -> Settings {
        Settings::from_config(self.config())
    }

    pub(super) fn overrides(&self) -> Vec<Override> {
        fn only<T, U>(wildcard: &config::Wildcard<T>, name: impl Fn(&T) -> U) -> Option<U> {
            match wildcard {
                config::Wildcard::Any => None,
                config::Wildcard::Only(value) => Some(name(value)),
            }
        }
        let entries = self.config().overrides.iter();
        entries
            .map(|o| Override {
                plugin: only(&o.plugin, Clone::clone),
                collective: only(&o.collective, ToString::to_string),
                dtype: only(&o.dtype, |d| d.name().to_string()),
                op: only(&o.op, |op| op.name().to_string()),
                wish: match o.action {
                    OverrideAction::Native => Wish::Native,
                    OverrideAction::Emulate => Wish::Emulate,
                    OverrideAction::Refuse => Wish::Refuse,
                },
            })
            .collect()
    }

    pub(super) fn demands(&self) -> Demands {
        Demands {
            vendor_numerics: self.config().numerics == config::Numerics::Vendor,
            deterministic: self.config().deterministic,
        }
    }

    pub(super) fn plan_settings(&self) -> plan::Settings {
        let rules = self.config().rules.iter().map(|r| plan::Rule {
            collective: match &r.collective {
                config::Wildcard::Any => None,
                config::Wildcard::Only(name) => Some((*name).to_string()),
            },
            min_bytes: r.min_bytes,
            max_bytes: r.max_bytes,
            min_ranks: r.min_ranks,
            max_ranks: r.max_ranks,
            algorithm: r.algorithm.to_string(),
        });
        plan::Settings {
            rules: rules.collect(),
            chunk: self.config().algorithm.chunk_bytes,
        }
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("config", self.config().origin())
            .finish_non_exhaustive()
    }
}
