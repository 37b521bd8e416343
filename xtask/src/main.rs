//! `cargo xtask`: set-up and checks of the repository, the same for people and for CI.

mod command;
mod demo;
mod example;
mod launchers;
mod repository;
mod setup;
mod steps;

use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask setup              install what the checks need (Debian packages, cargo tools)
cargo xtask test [STEP]...     run all checks, or those whose names start with a STEP
cargo xtask test --list        name the checks";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let passed = match words[..] {
        ["setup"] => match setup::run() {
            steps::Outcome::Failed(why) => {
                eprintln!("setup: {why}");
                false
            }
            steps::Outcome::Skipped(why) => {
                println!("setup: skipped: {why}");
                true
            }
            steps::Outcome::Passed => true,
        },
        ["test", "--list"] => {
            steps::all().iter().for_each(|step| println!("{}", step.name));
            true
        }
        ["test", ref names @ ..] => steps::run(names),
        _ => {
            eprintln!("{USAGE}");
            false
        }
    };
    if passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
