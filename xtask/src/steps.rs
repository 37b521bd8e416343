//! The checks, in order, and the table that sums them up.

use std::time::{Duration, Instant};

use crate::command::{cargo, program, run as run_command};
use crate::demo::namespaces_refused;
use crate::{demo, example, launchers, setup};

/// How a check ended.
#[derive(Debug, Clone)]
pub(crate) enum Outcome {
    /// All is well.
    Passed,
    /// Something is wrong: what.
    Failed(String),
    /// It could not run here: why.
    Skipped(String),
}

/// One check.
pub(crate) struct Step {
    /// Its name: what `cargo xtask test` takes, and what the table shows.
    pub(crate) name: String,
    run: Box<dyn Fn() -> Outcome>,
}

impl Step {
    pub(crate) fn new(name: impl Into<String>, run: impl Fn() -> Outcome + 'static) -> Self {
        Step {
            name: name.into(),
            run: Box::new(run),
        }
    }
}

const MINUTE: Duration = Duration::from_secs(60);

/// Every check.
pub(crate) fn all() -> Vec<Step> {
    let cargo_step = |name: &str, minutes: u32, arguments: &'static [&'static str]| {
        Step::new(name, move || run_command(cargo(arguments), MINUTE * minutes))
    };
    let mut steps = vec![
        Step::new("setup", setup::run),
        cargo_step("fmt", 2, &["fmt", "--all", "--check"]),
        cargo_step(
            "clippy",
            10,
            &[
                "clippy",
                "--workspace",
                "--all-targets",
                "--locked",
                "--",
                "-D",
                "warnings",
            ],
        ),
        Step::new("docs", docs),
        cargo_step(
            "deny",
            3,
            &["deny", "--locked", "check", "licenses", "bans", "sources"],
        ),
        cargo_step("build", 20, &["build", "--release", "--workspace", "--locked"]),
        Step::new("tests", tests),
        cargo_step("doc tests", 10, &["test", "--doc", "--workspace", "--locked"]),
    ];
    steps.extend(demo::steps());
    steps.extend(example::steps());
    steps.extend(launchers::steps());
    steps
}

fn docs() -> Outcome {
    let mut command = cargo(&["doc", "--workspace", "--no-deps", "--locked"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    run_command(command, MINUTE * 10)
}

fn tests() -> Outcome {
    let mut command = cargo(&["nextest", "run", "--workspace", "--locked", "--profile", "ci"]);
    match namespaces_refused() {
        None => run_command(command, MINUTE * 25),
        Some(why) => {
            println!("tests whose names have 'namespace' in them are left out: {why}");
            command.args(["-E", "not test(namespace)"]);
            match run_command(command, MINUTE * 25) {
                Outcome::Passed => {
                    Outcome::Skipped(format!("passed, but without those in namespaces: {why}"))
                }
                other => other,
            }
        }
    }
}

/// Runs all checks, or those whose names start with one of `names`; true if none failed.
pub(crate) fn run(names: &[&str]) -> bool {
    let wanted = |step: &Step| names.is_empty() || names.iter().any(|n| step.name.starts_with(n));
    let steps: Vec<_> = all().into_iter().filter(wanted).collect();
    if steps.is_empty() {
        eprintln!(
            "no check starts with {}: see cargo xtask test --list",
            names.join(", ")
        );
        return false;
    }
    let began = Instant::now();
    let results: Vec<_> = steps
        .iter()
        .enumerate()
        .map(|(i, step)| {
            println!("\n=== {} ({} of {})", step.name, i + 1, steps.len());
            let started = Instant::now();
            let outcome = (step.run)();
            let took = started.elapsed();
            println!(
                "=== {}: {} in {:.1} s",
                step.name,
                word(&outcome),
                took.as_secs_f64()
            );
            (step.name.as_str(), outcome, took)
        })
        .collect();
    summary(&results, began.elapsed())
}

fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Passed => "passed",
        Outcome::Failed(_) => "FAILED",
        Outcome::Skipped(_) => "skipped",
    }
}

fn summary(results: &[(&str, Outcome, Duration)], total: Duration) -> bool {
    let width = results
        .iter()
        .map(|(name, ..)| name.chars().count())
        .max()
        .unwrap_or(0);
    println!("\n{:width$}  {:>8}  result", "step", "seconds");
    for (name, outcome, took) in results {
        let why = match outcome {
            Outcome::Passed => String::new(),
            Outcome::Failed(why) | Outcome::Skipped(why) => format!(": {why}"),
        };
        println!(
            "{name:width$}  {:>8.1}  {}{why}",
            took.as_secs_f64(),
            word(outcome)
        );
    }
    let count = |wanted: &str| {
        results
            .iter()
            .filter(|(_, outcome, _)| word(outcome) == wanted)
            .count()
    };
    println!("{:width$}  {:>8.1}", "all", total.as_secs_f64());
    let (passed, failed, skipped) = (count("passed"), count("FAILED"), count("skipped"));
    let skipped = if skipped == 0 {
        String::new()
    } else {
        format!(", {skipped} skipped")
    };
    println!("{passed} passed, {failed} failed{skipped}");
    failed == 0
}

/// A program of the release build with its arguments, within two minutes.
pub(crate) fn built(path: std::path::PathBuf, arguments: &[&str]) -> Outcome {
    if !path.is_file() {
        return Outcome::Failed(format!("{} is not built", path.display()));
    }
    run_command(program(path, arguments), MINUTE * 3)
}
