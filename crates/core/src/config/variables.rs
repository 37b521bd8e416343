//! The environment variables that are read: those of keys, and the one that names the file.

use super::declare::Key;
use super::schema::keys;

/// All variables start with this; others with it are reported, since they are probably misspelt.
pub const PREFIX: &str = "INFINICCL_";

/// Variables that parts of the project set for each other; they are nobody's to set and nobody's to report.
pub const INTERNAL_PREFIXES: &[&str] = &["INFINICCL_PMI_"];

/// An environment variable.
#[derive(Debug, Clone)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// The key that it sets; `None` for the variable that names the file.
    pub key: Option<String>,
    /// What it does.
    pub help: String,
    /// What it holds.
    pub type_name: &'static str,
}

/// Every variable that is read.
pub fn variables() -> impl Iterator<Item = Variable> {
    let file = Variable {
        name: "INFINICCL_CONFIG",
        key: None,
        help: "The configuration file to take. It is an error if it cannot be read.".to_owned(),
        type_name: "path",
    };
    let of_key = |key: &'static Key| {
        let name = key.variable()?;
        Some(Variable {
            name,
            key: Some(key.path()),
            help: key.help(),
            type_name: key.type_name(),
        })
    };
    [file].into_iter().chain(keys().filter_map(of_key))
}
