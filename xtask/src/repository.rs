//! Where things are: the root of the repository, the folder of built files, the command under test.

use std::env;
use std::path::{Path, PathBuf};

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the repository")
        .to_path_buf()
}

/// The folder that cargo builds into.
pub(crate) fn target() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR") {
        // As cargo does it: relative to the folder that cargo was called in.
        Some(folder) => env::current_dir().unwrap_or_else(|_| root()).join(folder),
        None => root().join("target"),
    }
}

/// The `infiniccl` command, built for release.
pub(crate) fn infiniccl() -> PathBuf {
    target().join("release/infiniccl")
}

/// Whether a program of that name is found in PATH.
pub(crate) fn has_program(name: &str) -> bool {
    env::var_os("PATH").is_some_and(|path| env::split_paths(&path).any(|folder| folder.join(name).is_file()))
}
