//! Compares the tables of a plugin with those of this host, in both directions, and says in words what differs.

use super::{LoadCause, LoadError, error::version_line};
use crate::PluginRootRef;
use abi_stable::StableAbi;
use abi_stable::abi_stability::abi_checking::{
    AbiInstability, AbiInstabilityError, AbiInstabilityErrors, CheckingGlobals,
    check_layout_compatibility_with_globals,
};
use abi_stable::library::LibHeader;
use abi_stable::type_layout::TLFieldOrFunction;

/// Whether the plugin behind `header` and this host understand each other.
///
/// abi_stable accepts only a plugin that has at least the fields of the host. Asking the other way round as well
/// accepts the plugin that has fewer: each table carries its own field-presence bits, so what is missing reads as
/// `None`. A fresh set of globals for each question keeps one plugin's answer out of the next one's.
pub(super) fn check(header: &LibHeader) -> Result<(), LoadError> {
    let version = header.version_strings().version;
    let major = |text: &str| text.split('.').next().and_then(|major| major.parse::<u32>().ok());
    if major(version.as_str()) != major(super::api_version()) {
        return Err(LoadError::new(LoadCause::Version, version_line(version.as_str())));
    }
    let Some(theirs) = header.layout() else {
        return Err(LoadError::new(
            LoadCause::Layout,
            "it carries no description of its tables, so they cannot be compared: use export_plugin!",
        ));
    };
    let ours = <PluginRootRef as StableAbi>::LAYOUT;
    let Err(forward) = check_layout_compatibility_with_globals(ours, theirs, &CheckingGlobals::new()) else {
        return Ok(());
    };
    let Err(backward) = check_layout_compatibility_with_globals(theirs, ours, &CheckingGlobals::new()) else {
        return Ok(());
    };
    let line = format!(
        "its tables (plugin-api {version}) differ from those of this core ({}): {}",
        super::api_version(),
        summary(&forward),
    );
    Err(LoadError::new(LoadCause::Layout, line).with_dump(format!(
        "host compared to plugin:\n{forward}\nplugin compared to host:\n{backward}"
    )))
}

/// The place and the sort of the difference that lies deepest, which is where it comes from.
fn summary(errors: &AbiInstabilityErrors) -> String {
    let deepest = errors
        .errors
        .iter()
        .filter(|error| !error.errs.is_empty())
        .max_by_key(|error| (error.stack_trace.len(), std::cmp::Reverse(error.index)));
    match deepest {
        Some(error) => {
            let what: Vec<String> = error.errs.iter().map(difference).collect();
            format!("{}: {}", place(error), what.join(", "))
        }
        None => "the comparison gives no place".to_owned(),
    }
}

fn place(error: &AbiInstabilityError) -> String {
    let names: Vec<&str> = error
        .stack_trace
        .iter()
        .filter_map(|step| match &step.expected {
            // The fields of abi_stable's own wrappers say nothing to the reader.
            TLFieldOrFunction::Field(field) => {
                Some(field.name()).filter(|name| !matches!(*name, "0" | "field_0" | "prefix_ref" | "ptr"))
            }
            TLFieldOrFunction::Function(_) => None,
        })
        .collect();
    if names.is_empty() {
        "root".to_owned()
    } else {
        names.join(".")
    }
}

fn difference(error: &AbiInstability) -> String {
    match error {
        AbiInstability::FieldCountMismatch(n) => {
            format!("{} fields or arguments expected, {} found", n.expected, n.found)
        }
        AbiInstability::Size(n) => format!("{} bytes expected, {} found", n.expected, n.found),
        AbiInstability::Alignment(n) => format!("alignment {} expected, {} found", n.expected, n.found),
        AbiInstability::Name(n) => format!("type {} expected, {} found", n.expected.name(), n.found.name()),
        AbiInstability::UnexpectedField(f) => {
            format!("field {} expected, {} found", f.expected.name(), f.found.name())
        }
        AbiInstability::MismatchedPrimitive(p) => format!("{:?} expected, {:?} found", p.expected, p.found),
        AbiInstability::MismatchedPrefixSize(n) => {
            format!(
                "the last field of version 1.0 is number {}, {} found",
                n.expected, n.found
            )
        }
        AbiInstability::Package(p) => format!("type of package {} expected, {} found", p.expected, p.found),
        AbiInstability::PackageVersion(v) => format!("version {} expected, {} found", v.expected, v.found),
        other => {
            // The name of the variant is a good enough word; its payload is a page of layout.
            let text = format!("{other:?}");
            text.split(|c: char| !c.is_alphanumeric())
                .next()
                .unwrap_or_default()
                .to_owned()
        }
    }
}
