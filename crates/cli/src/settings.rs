//! The configuration of a command: which file, its log, and the plugins that it lists.

use std::path::{Path, PathBuf};

use clap::Args;
use infiniccl::Context;
use infiniccl::config::Config;

use crate::failure::Failure;
use crate::launched::rank_hint;
use crate::log;

/// `--config`, before or after the name of the command.
#[derive(Debug, Args)]
pub(crate) struct ConfigArg {
    /// The configuration to take instead of searching for one; `info --config` without a file prints the values
    /// in force
    #[arg(long, value_name = "FILE", global = true, num_args = 0..=1)]
    config: Option<Option<PathBuf>>,
}

impl ConfigArg {
    /// The file that was named.
    pub(crate) fn file(&self) -> Result<Option<&Path>, Failure> {
        match &self.config {
            None => Ok(None),
            Some(Some(file)) => Ok(Some(file)),
            Some(None) => Err(Failure::usage("--config needs a FILE here")),
        }
    }

    /// Whether the values in force are asked for: `--config` without a file.
    pub(crate) fn asks_for_values(&self) -> bool {
        matches!(self.config, Some(None))
    }

    /// The file that was named, with its full path, for processes with another working folder.
    pub(crate) fn full_path(&self) -> Result<Option<PathBuf>, Failure> {
        let full = |path: &Path| {
            path.canonicalize()
                .map_err(|e| Failure::new(format!("--config {}: {e}", path.display())))
        };
        self.file()?.map(full).transpose()
    }

    /// Loads the configuration, starts the log, and says on standard error which file was taken.
    pub(crate) fn load(&self) -> Result<Config, Failure> {
        let file = if self.asks_for_values() {
            None
        } else {
            self.file()?
        };
        let config = Config::load(file)?;
        log::start(&config)?;
        // Ranks of a job take the same file, and one line says which.
        if matches!(rank_hint(), None | Some(0)) {
            eprintln!("infiniccl: configuration: {}", config.origin());
        }
        Ok(config)
    }

    /// [`ConfigArg::load`], and the plugins that it lists.
    pub(crate) fn context(&self) -> Result<Context, Failure> {
        Ok(Context::new(self.load()?)?)
    }
}
