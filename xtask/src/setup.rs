//! Installs what the checks need, and nothing that is there already.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::command::{self, cargo, program};
use crate::repository::has_program;
use crate::steps::Outcome;

/// Debian packages: `ip` and `tc` for namespaces, two MPIs whose launchers the library must understand.
const PACKAGES: &[&str] = &[
    "iproute2",
    "openmpi-bin",
    "libopenmpi-dev",
    "mpich",
    "libmpich-dev",
];

/// Cargo's extensions: the program, and the version of the crate of the same name.
const TOOLS: &[(&str, &str)] = &[("cargo-nextest", "0.9.143"), ("cargo-deny", "0.20.2")];

const APT_LIMIT: Duration = Duration::from_secs(600);
const BUILD_LIMIT: Duration = Duration::from_secs(900);

/// Installs what is missing.
pub(crate) fn run() -> Outcome {
    let mut outcomes = vec![packages()];
    outcomes.extend(TOOLS.iter().map(|(name, version)| tool(name, version)));
    let skipped = outcomes
        .iter()
        .find(|o| matches!(o, Outcome::Skipped(_)))
        .cloned();
    let failed = outcomes.into_iter().find(|o| matches!(o, Outcome::Failed(_)));
    failed.or(skipped).unwrap_or(Outcome::Passed)
}

fn installed(package: &str) -> bool {
    Command::new("dpkg-query")
        .args(["-W", "-f", "${Status}", package])
        .stderr(Stdio::null())
        .output()
        .is_ok_and(|output| output.stdout == b"install ok installed")
}

fn packages() -> Outcome {
    if !has_program("apt-get") {
        return Outcome::Skipped(format!(
            "no apt-get here: install by hand what these Debian packages hold: {}",
            PACKAGES.join(" ")
        ));
    }
    let missing: Vec<&str> = PACKAGES.iter().copied().filter(|p| !installed(p)).collect();
    if missing.is_empty() {
        println!("Debian packages: all there ({})", PACKAGES.join(" "));
        return Outcome::Passed;
    }
    println!("Debian packages to install: {}", missing.join(" "));
    let root = rustix::process::geteuid().is_root();
    if !root && !has_program("sudo") {
        return Outcome::Skipped(format!("not root, and no sudo: install {}", missing.join(" ")));
    }
    let apt = |arguments: &[&str]| {
        let mut command = if root {
            program("apt-get", &[])
        } else {
            program("sudo", &["-n", "apt-get"])
        };
        command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
        command::run(command, APT_LIMIT)
    };
    // A mirror that is being updated refuses for a moment.
    for attempt in 1..=3 {
        match apt(&["update"]) {
            Outcome::Passed => break,
            _ if attempt == 3 => return Outcome::Failed("apt-get update failed three times".into()),
            _ => std::thread::sleep(Duration::from_secs(5)),
        }
    }
    let mut install = vec!["install", "-y", "--no-install-recommends"];
    install.extend(missing);
    apt(&install)
}

fn tool(name: &str, version: &str) -> Outcome {
    if has_program(name) {
        println!("{name}: there");
        return Outcome::Passed;
    }
    println!("{name}: installing version {version}");
    command::run(
        cargo(&["install", name, "--version", version, "--locked"]),
        BUILD_LIMIT,
    )
}
