//! `infiniccl config check`: the configuration, with line, column and the nearest right key.

use std::error::Error as _;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use infiniccl::Context;
use infiniccl::config::{Config, Diagnostic, Diagnostics, LoadEnv, Severity};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::settings::ConfigArg;

/// What concerns the configuration.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCall {
    /// Check the configuration: keys, values, and the plugins that it names
    Check(CheckArgs),
}

/// What `config check` takes.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Checks; the exit code is 1 if there are errors.
pub(crate) fn run(args: &CheckArgs, config: &ConfigArg) -> Result<ExitCode, Failure> {
    let file = config.file()?;
    let found = match Config::load_from(&LoadEnv::of_process(file)) {
        Ok(config) => check_plugins(config),
        Err(diagnostics) => Found {
            taken: named_file(&diagnostics),
            diagnostics: diagnostics.into_vec(),
            other: None,
        },
    };
    let errors = found
        .diagnostics
        .iter()
        .filter(|d| d.severity == Severity::Error)
        .count()
        + usize::from(found.other.is_some());
    if args.json {
        println!(
            "{:#}",
            json!({
                "config": found.taken,
                "ok": errors == 0,
                "problems": found.diagnostics.iter().map(object).chain(found.other.iter().map(|text| {
                    json!({"severity": "error", "message": text})
                })).collect::<Vec<_>>(),
            })
        );
    } else {
        println!("configuration: {}", found.taken);
        found.diagnostics.iter().for_each(|d| println!("{}", d.render()));
        found.other.iter().for_each(|text| println!("error: {text}"));
        match errors {
            0 => println!("no errors"),
            1 => println!("1 error"),
            n => println!("{n} errors"),
        }
    }
    Ok(if errors == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// What a check found.
struct Found {
    /// The file that was taken.
    taken: String,
    diagnostics: Vec<Diagnostic>,
    /// An error that is about no place in the file, such as a required plugin that cannot be used.
    other: Option<String>,
}

/// What only the plugins can tell: names in the file that stand for none of them.
fn check_plugins(config: Config) -> Found {
    let taken = config.origin().to_string();
    let mut diagnostics = config.warnings().to_vec();
    let mut other = None;
    if let Err(e) = Context::new(config) {
        match e.source().and_then(|s| s.downcast_ref::<Diagnostics>()) {
            Some(found) => diagnostics.extend(found.iter().cloned()),
            None => other = Some(e.to_string()),
        }
    }
    Found {
        taken,
        diagnostics,
        other,
    }
}

fn named_file(diagnostics: &Diagnostics) -> String {
    diagnostics
        .iter()
        .find_map(Diagnostic::file)
        .map_or("built-in".into(), |f| f.display().to_string())
}

fn object(d: &Diagnostic) -> Value {
    json!({
        "severity": match d.severity { Severity::Error => "error", Severity::Warning => "warning" },
        "file": d.file().map(|f| f.display().to_string()), "line": d.line(), "column": d.column(),
        "place": d.place.to_string(), "key": d.key, "message": d.message, "suggestion": d.suggestion,
    })
}
