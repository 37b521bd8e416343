//! The example application, built outside of the workspace against the packages as they would be published.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::command::{cargo, program, run};
use crate::repository::{infiniccl, root, target};
use crate::steps::{Outcome, Step, built};

/// The packages that an application gets, in the order of their dependencies.
const PACKAGES: &[&str] = &[
    "infiniccl-reduce",
    "infiniccl-plugin-api",
    "infiniccl-plugin-host",
    "infiniccl-plugin-net-tcp",
    "infiniccl",
];

/// Building it, and running 4 ranks.
pub(crate) fn steps() -> Vec<Step> {
    vec![
        Step::new("example build", || build().unwrap_or_else(Outcome::Failed)),
        Step::new("example run", || {
            let app = app();
            let app = app.to_string_lossy();
            built(
                infiniccl(),
                &["run", "-n", "4", "--nodes", "2+2", "--timeout", "60", "--", &app],
            )
        }),
    ]
}

/// The folder that the example is copied to.
fn folder() -> PathBuf {
    target().join("example")
}

/// The example, built.
pub(crate) fn app() -> PathBuf {
    target().join("release/app")
}

fn build() -> Result<Outcome, String> {
    let mut package = cargo(&["package", "--no-verify", "--allow-dirty", "--locked"]);
    for name in PACKAGES {
        package.args(["-p", name]);
    }
    if let Outcome::Failed(why) = run(package, Duration::from_secs(300)) {
        return Err(why);
    }
    let io = |what: &str, e: std::io::Error| format!("{what}: {e}");
    let folder = folder();
    for part in ["src", "packages"] {
        match fs::remove_dir_all(folder.join(part)) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(io(part, e)),
            _ => {}
        }
    }
    let packages = folder.join("packages");
    fs::create_dir_all(&packages).map_err(|e| io("packages", e))?;
    let mut patches = String::from("\n[patch.crates-io]\n");
    for name in PACKAGES {
        let unpacked = unpack(name, &packages)?;
        patches += &format!("{name} = {{ path = {unpacked:?} }}\n");
    }
    copy_example(&folder, &patches)?;
    let mut build = cargo(&["build", "--release"]);
    // In the folder and with the settings of the repository's own build, whose dependencies serve here as well.
    build
        .current_dir(&folder)
        .env("CARGO_TARGET_DIR", target())
        .env("CARGO_PROFILE_RELEASE_DEBUG", "line-tables-only");
    Ok(run(build, Duration::from_secs(600)))
}

/// Unpacks the package of that name into `packages`, and returns its folder.
fn unpack(name: &str, packages: &Path) -> Result<PathBuf, String> {
    let made = target().join("package");
    let version = |file: &str| {
        let rest = file
            .strip_prefix(name)?
            .strip_prefix('-')?
            .strip_suffix(".crate")?;
        rest.starts_with(|c: char| c.is_ascii_digit())
            .then(|| rest.to_string())
    };
    let found = fs::read_dir(&made)
        .map_err(|e| format!("{}: {e}", made.display()))?
        .filter_map(|entry| version(&entry.ok()?.file_name().to_string_lossy()))
        .max()
        .ok_or_else(|| format!("cargo package made no {name}-*.crate in {}", made.display()))?;
    let archive = made.join(format!("{name}-{found}.crate"));
    let mut tar = program("tar", &["-xzf"]);
    tar.arg(archive).arg("-C").arg(packages);
    match run(tar, Duration::from_secs(60)) {
        Outcome::Failed(why) => Err(why),
        _ => Ok(packages.join(format!("{name}-{found}"))),
    }
}

/// Copies the example, with the packages in place of the repository's folders.
fn copy_example(folder: &Path, patches: &str) -> Result<(), String> {
    let example = root().join("examples/app");
    let read = |name: &str| fs::read_to_string(example.join(name)).map_err(|e| format!("{name}: {e}"));
    let write =
        |name: &str, text: String| fs::write(folder.join(name), text).map_err(|e| format!("{name}: {e}"));
    // The manifest names the repository's folder beside the version; without it the version alone counts.
    let manifest = read("Cargo.toml")?;
    let published: String = manifest.replace(", path = \"../../crates/core\"", "");
    if published == manifest {
        return Err(
            "examples/app/Cargo.toml no longer names ../../crates/core: look at xtask/src/example.rs".into(),
        );
    }
    write("Cargo.toml", published + patches)?;
    fs::create_dir_all(folder.join("src")).map_err(|e| format!("src: {e}"))?;
    write("src/main.rs", read("src/main.rs")?)
}
