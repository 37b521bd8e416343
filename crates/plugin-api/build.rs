//! Records the compiler and the target, which become part of every plugin's `build` text.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc)
        .arg("--version")
        .output()
        .ok()
        .and_then(|output| String::from_utf8(output.stdout).ok())
        .map(|text| text.split('(').next().unwrap_or_default().trim().to_owned())
        .filter(|text| !text.is_empty())
        .unwrap_or_else(|| "unknown rustc".to_owned());
    let target = env::var("TARGET").unwrap_or_else(|_| "unknown target".to_owned());
    let profile = if env::var("DEBUG_ASSERTIONS").is_ok() || env::var("OPT_LEVEL").as_deref() == Ok("0") {
        "debug"
    } else {
        "release"
    };
    println!("cargo::rustc-env=INFINICCL_PLUGIN_BUILD={version}, {target}, {profile}");
}
