//! Readers of `[[override]]` and `[[rule]]` entries, and which of them applies to a call.

use super::declare::{Codec, Key, Shape};
use super::raw::{Item, Problem, Raw, quoted};
use super::schema::{Config, OverrideEntry, RuleEntry};
use super::suggest::did_you_mean;
use super::text::plain;
use infiniccl_reduce::{DataType, ReduceOp};

/// The collectives by the names that the configuration and the command line use.
pub const COLLECTIVES: &[&str] = &[
    "all_reduce",
    "broadcast",
    "reduce",
    "all_gather",
    "reduce_scatter",
    "gather",
    "scatter",
    "all_to_all",
    "all_to_all_v",
    "all_gather_v",
    "reduce_scatter_v",
    "send",
    "recv",
    "barrier",
];

/// The collectives that combine values and so have an operator.
const REDUCING: &[&str] = &["all_reduce", "reduce", "reduce_scatter", "reduce_scatter_v"];

/// The algorithms that a `[[rule]]` can ask for.
pub const ALGORITHMS: &[&str] = &[
    "vendor",
    "hierarchical",
    "recursive_doubling",
    "rabenseifner",
    "ring",
    "double_tree",
    "direct",
    "recursive_halving",
    "binomial",
    "scatter_allgather",
    "scatter_gather",
    "chain",
    "bruck",
    "pairwise",
    "linear",
    "dissemination",
];

/// Either everything or one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wildcard<T> {
    /// Written `"*"`.
    Any,
    /// That one.
    Only(T),
}

impl<T> Wildcard<T> {
    /// Whether `value` is meant.
    pub fn matches<U: ?Sized>(&self, value: &U) -> bool
    where
        T: PartialEq<U>,
    {
        match self {
            Wildcard::Any => true,
            Wildcard::Only(own) => own == value,
        }
    }
}

impl OverrideEntry {
    /// Whether the entry speaks of this operation of this plugin. An entry with a type or an operator does
    /// not speak of calls that have none.
    pub fn applies(
        &self,
        plugin: &str,
        collective: &str,
        dtype: Option<DataType>,
        op: Option<ReduceOp>,
    ) -> bool {
        self.plugin.matches(plugin)
            && self.collective.matches(&collective)
            && dtype.map_or(self.dtype == Wildcard::Any, |dtype| self.dtype.matches(&dtype))
            && op.map_or(self.op == Wildcard::Any, |op| self.op.matches(&op))
    }

    pub(super) fn contradiction(&self) -> Option<(&'static str, Problem)> {
        let Wildcard::Only(collective) = self.collective else {
            return match (self.dtype, self.op) {
                (Wildcard::Only(dtype), Wildcard::Only(op)) if !dtype.supports(op) => {
                    Some(("op", Problem::new(format!("{op} of {dtype} is not defined"))))
                }
                _ => None,
            };
        };
        let never = |key, what: &str| {
            let problem = Problem::new(format!(
                "{} has no {what}, so the entry would never apply",
                quoted(collective)
            ));
            Some((key, problem.suggest(format!("leave {key} out"))))
        };
        match (self.dtype, self.op) {
            (Wildcard::Only(_), _) if collective == "barrier" => never("dtype", "element type"),
            (_, Wildcard::Only(_)) if !REDUCING.contains(&collective) => never("op", "operator"),
            (Wildcard::Only(dtype), Wildcard::Only(op)) if !dtype.supports(op) => {
                Some(("op", Problem::new(format!("{op} of {dtype} is not defined"))))
            }
            _ => None,
        }
    }
}

impl RuleEntry {
    /// Whether the rule speaks of a call of `bytes` per rank on `ranks` ranks.
    pub fn applies(&self, collective: &str, bytes: u64, ranks: u64) -> bool {
        self.collective.matches(&collective)
            && (self.min_bytes..=self.max_bytes).contains(&bytes)
            && (self.min_ranks..=self.max_ranks).contains(&ranks)
    }

    pub(super) fn contradiction(&self) -> Option<(&'static str, Problem)> {
        let empty = |what: &str| {
            Problem::new(format!(
                "the least {what} are more than the most, so the rule would never apply"
            ))
        };
        if self.min_bytes > self.max_bytes {
            return Some(("min_bytes", empty("bytes")));
        }
        if self.min_ranks > self.max_ranks {
            return Some(("min_ranks", empty("ranks")));
        }
        match self.collective {
            Wildcard::Only(name @ ("send" | "recv")) => Some((
                "collective",
                Problem::new(format!(
                    "{} has one way only, there is no algorithm to choose",
                    quoted(name)
                )),
            )),
            _ => None,
        }
    }
}

impl Config {
    /// The first override that speaks of the operation, in the order of the file.
    pub fn override_for(
        &self,
        plugin: &str,
        collective: &str,
        dtype: Option<DataType>,
        op: Option<ReduceOp>,
    ) -> Option<&OverrideEntry> {
        self.overrides
            .iter()
            .find(|entry| entry.applies(plugin, collective, dtype, op))
    }

    /// The first rule that speaks of the call, in the order of the file.
    pub fn rule_for(&self, collective: &str, bytes: u64, ranks: u64) -> Option<&RuleEntry> {
        self.rules
            .iter()
            .find(|rule| rule.applies(collective, bytes, ranks))
    }
}

/// A collective by name, or `"*"`.
pub(crate) struct CollectiveName;

impl Codec for CollectiveName {
    type Value = Wildcard<&'static str>;
    const TYPE: &'static str = "string: a collective, or \"*\"";
    const SHAPE: Shape = Shape::Text;

    fn choices() -> Vec<&'static str> {
        COLLECTIVES.to_vec()
    }

    fn read(item: &Item, _key: &Key) -> Result<Self::Value, Problem> {
        let names = COLLECTIVES;
        named(item, "a collective", names, |text| {
            names.iter().find(|name| **name == text).copied()
        })
    }

    fn show(value: &Self::Value) -> String {
        shown(value, |name| name)
    }
}

/// An element type by name, or `"*"`.
pub(crate) struct DataTypeName;

impl Codec for DataTypeName {
    type Value = Wildcard<DataType>;
    const TYPE: &'static str = "string: an element type, or \"*\"";
    const SHAPE: Shape = Shape::Text;

    fn choices() -> Vec<&'static str> {
        DataType::ALL.iter().map(|dtype| dtype.name()).collect()
    }

    fn read(item: &Item, _key: &Key) -> Result<Self::Value, Problem> {
        named(item, "an element type", &Self::choices(), |text| {
            text.parse().ok()
        })
    }

    fn show(value: &Self::Value) -> String {
        shown(value, |dtype| dtype.name())
    }
}

/// A reduction operator by name, or `"*"`.
pub(crate) struct OpName;

impl Codec for OpName {
    type Value = Wildcard<ReduceOp>;
    const TYPE: &'static str = "string: an operator, or \"*\"";
    const SHAPE: Shape = Shape::Text;

    fn choices() -> Vec<&'static str> {
        ReduceOp::ALL.iter().map(|op| op.name()).collect()
    }

    fn read(item: &Item, _key: &Key) -> Result<Self::Value, Problem> {
        named(item, "an operator", &Self::choices(), |text| text.parse().ok())
    }

    fn show(value: &Self::Value) -> String {
        shown(value, |op| op.name())
    }
}

/// A plugin by name, or `"*"`; the name is checked later, when all plugins are known.
pub(crate) struct PluginReference;

impl Codec for PluginReference {
    type Value = Wildcard<String>;
    const TYPE: &'static str = "string: the name of a plugin, or \"*\"";
    const SHAPE: Shape = Shape::Text;

    fn read(item: &Item, _key: &Key) -> Result<Self::Value, Problem> {
        Ok(match plain(item, "the name of a plugin, or \"*\"")? {
            "*" => Wildcard::Any,
            name => Wildcard::Only(name.to_owned()),
        })
    }

    fn show(value: &Self::Value) -> String {
        match value {
            Wildcard::Any => quoted("*"),
            Wildcard::Only(name) => quoted(name),
        }
    }
}

/// An algorithm by name.
pub(crate) struct AlgorithmName;

impl Codec for AlgorithmName {
    type Value = &'static str;
    const TYPE: &'static str = "string";
    const SHAPE: Shape = Shape::Text;

    fn choices() -> Vec<&'static str> {
        ALGORITHMS.to_vec()
    }

    fn read(item: &Item, _key: &Key) -> Result<&'static str, Problem> {
        super::choices::word(item, ALGORITHMS)
    }

    fn show(value: &&'static str) -> String {
        quoted(value)
    }
}

fn named<T>(
    item: &Item,
    what: &str,
    names: &[&str],
    find: impl Fn(&str) -> Option<T>,
) -> Result<Wildcard<T>, Problem> {
    let Raw::Text(text) = &item.raw else {
        return Err(item.expected(&format!("{what} or \"*\"")));
    };
    if text == "*" {
        return Ok(Wildcard::Any);
    }
    find(text).map(Wildcard::Only).ok_or_else(|| {
        let hint = did_you_mean(text, names.iter().copied(), quoted);
        item.expected(&format!("{what} or \"*\""))
            .suggest(hint.unwrap_or_else(|| format!("write one of {}", names.join(", "))))
    })
}

fn shown<T>(value: &Wildcard<T>, name: impl Fn(&T) -> &'static str) -> String {
    match value {
        Wildcard::Any => quoted("*"),
        Wildcard::Only(value) => quoted(name(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_take_everything() {
        assert!(Wildcard::<&str>::Any.matches(&"x"));
        assert!(Wildcard::Only("x").matches(&"x") && !Wildcard::Only("x").matches(&"y"));
    }
}
