//! Whether this process is a rank that a launcher started.

use std::env;

/// Variables that a launcher gives to each of its ranks, and to nothing else.
const RANK_VARIABLES: &[&[&str]] = &[
    &["RANK", "WORLD_SIZE"],
    &["OMPI_COMM_WORLD_RANK"],
    &["PMIX_RANK"],
    &["PMI_RANK"],
    &["PMI_FD"],
    &["PMI_PORT"],
    &["SLURM_STEP_ID", "SLURM_PROCID"],
];

/// The variables that say so; `None` where this process was started by hand.
pub(crate) fn evidence() -> Option<String> {
    let set = |name: &&&str| env::var_os(**name).is_some();
    RANK_VARIABLES
        .iter()
        .find(|names| names.iter().all(|name| set(&name)))
        .map(|names| names.join(" and "))
}

/// The rank for a line of the log, before the library has found out.
pub(crate) fn rank_hint() -> Option<u64> {
    [
        "RANK",
        "OMPI_COMM_WORLD_RANK",
        "PMIX_RANK",
        "PMI_RANK",
        "SLURM_PROCID",
    ]
    .iter()
    .find_map(|name| env::var(name).ok()?.parse().ok())
}
