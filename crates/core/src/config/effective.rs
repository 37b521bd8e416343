//! The values in force: each with its origin, and those that all ranks must share.

use super::declare::{Key, Section};
use super::diagnostic::{Diagnostic, Place, Severity};
use super::origin::Origin;
use super::raw::quoted;
use super::rules::Wildcard;
use super::schema::{Config, SCALARS, SECTIONS, entry_keys};
use super::suggest::did_you_mean;
use super::text::TIERS;

/// A value in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectiveValue {
    /// The key with its section and, in an array of tables, its number: `timeouts.connect`, `plugin[0].path`.
    pub key: String,
    /// The value as it would stand in the file; secrets are not shown.
    pub value: String,
    /// Where it was set.
    pub origin: Origin,
    /// Where the value was set that this one replaced.
    pub replaced: Option<Origin>,
}

impl Config {
    /// Every value in force, in the order of the reference.
    pub fn values(&self) -> Vec<EffectiveValue> {
        let mut values: Vec<EffectiveValue> = SCALARS
            .iter()
            .enumerate()
            .map(|(index, scalar)| {
                let (origin, replaced) = self.meta.origin(index);
                EffectiveValue {
                    key: scalar.key.path(),
                    value: (scalar.show)(self),
                    origin,
                    replaced,
                }
            })
            .collect();
        self.visit_entries(&mut |key: &Key, index, value, origin| {
            let key = format!("{}[{index}].{}", key.section(), key.name());
            values.push(EffectiveValue {
                key,
                value,
                origin,
                replaced: None,
            });
        });
        values
    }

    /// The keys and values that must be equal on all ranks of a job, always in the same order and form, so that
    /// the ranks can compare them one by one and name the key that differs.
    ///
    /// An array of tables is one pair, whose value lists its entries.
    pub fn agreement_digest_fields(&self) -> Vec<(String, String)> {
        let mut fields: Vec<(String, String)> = SCALARS
            .iter()
            .filter(|scalar| scalar.key.must_agree())
            .map(|scalar| (scalar.key.path(), (scalar.show)(self)))
            .collect();
        let agreed = |section: &&Section| entry_keys(section.name).iter().any(Key::must_agree);
        for section in SECTIONS.iter().filter(agreed) {
            let mut entries: Vec<Vec<String>> = Vec::new();
            self.visit_entries(&mut |key: &Key, index, value, _| {
                if key.section() == section.name && key.must_agree() {
                    entries.resize(entries.len().max(index + 1), Vec::new());
                    entries[index].push(format!("{} = {value}", key.name()));
                }
            });
            let texts: Vec<String> = entries
                .iter()
                .map(|pairs| format!("{{ {} }}", pairs.join(", ")))
                .collect();
            fields.push((section.name.to_owned(), format!("[{}]", texts.join(", "))));
        }
        fields
    }

    /// Names in `path.order` and `[[override]]` that stand for no tier and no plugin: neither one that is
    /// listed here nor one of `known`, the plugins that the program found or has compiled in.
    pub fn unknown_plugin_names(&self, known: &[&str]) -> Vec<Diagnostic> {
        let labels: Vec<String> = self.plugins.iter().map(|entry| entry.label()).collect();
        let plugins: Vec<&str> = labels
            .iter()
            .map(String::as_str)
            .chain(known.iter().copied())
            .collect();
        let mut found = Vec::new();
        let mut look = |name: &str, tiers: &[&'static str], key: String, origin: &Origin| {
            if plugins.contains(&name) || tiers.contains(&name) {
                return;
            }
            let kind = if tiers.is_empty() {
                "plugin"
            } else {
                "tier or plugin"
            };
            let mut diagnostic = Diagnostic::new(
                Severity::Error,
                place(origin),
                format!("`{key}`: {} is the name of no {kind}", quoted(name)),
            );
            let choices = || tiers.iter().copied().chain(plugins.iter().copied());
            diagnostic.key = Some(key);
            diagnostic.suggestion = Some(
                did_you_mean(name, choices(), quoted)
                    .unwrap_or_else(|| format!("known are {}", choices().collect::<Vec<_>>().join(", "))),
            );
            found.push(diagnostic);
        };
        let order = SCALARS
            .iter()
            .position(|scalar| scalar.key.path() == "path.order");
        let origin = order.map_or(Origin::Default, |index| self.meta.origin(index).0);
        for name in &self.path.order {
            look(name, TIERS, "path.order".to_owned(), &origin);
        }
        for (index, entry) in self.overrides.iter().enumerate() {
            if let Wildcard::Only(name) = &entry.plugin {
                look(
                    name,
                    &[],
                    format!("override[{index}].plugin"),
                    &entry.places.of("plugin"),
                );
            }
        }
        found
    }

    /// Rules whose algorithm does not exist for their collective, as `offered` (collective, algorithm) tells;
    /// a rule for every collective must suit one of them at least.
    pub fn impossible_rules(&self, offered: impl Fn(&str, &str) -> bool) -> Vec<Diagnostic> {
        let mut found = Vec::new();
        for (index, rule) in self.rules.iter().enumerate() {
            let (possible, collective) = match rule.collective {
                Wildcard::Any => (
                    super::COLLECTIVES.iter().any(|c| offered(c, rule.algorithm)),
                    "any collective",
                ),
                Wildcard::Only(name) => (offered(name, rule.algorithm), name),
            };
            if possible {
                continue;
            }
            let message = format!(
                "there is no algorithm {} for {collective}",
                quoted(rule.algorithm)
            );
            let mut diagnostic =
                Diagnostic::new(Severity::Error, place(&rule.places.of("algorithm")), message);
            diagnostic.key = Some(format!("rule[{index}].algorithm"));
            if let Wildcard::Only(name) = rule.collective {
                let others: Vec<&str> = super::ALGORITHMS
                    .iter()
                    .copied()
                    .filter(|algorithm| offered(name, algorithm))
                    .collect();
                diagnostic.suggestion = Some(format!("there are {}", others.join(", ")));
            }
            found.push(diagnostic);
        }
        found
    }
}

fn place(origin: &Origin) -> Place {
    match origin {
        Origin::File { path, line, column } => Place::File {
            path: path.clone(),
            line: *line,
            column: *column,
        },
        Origin::Variable(name) => Place::Variable((*name).to_owned()),
        Origin::Default | Origin::Api => Place::Api,
    }
}
