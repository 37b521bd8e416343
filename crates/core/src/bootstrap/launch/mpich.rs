//! The variables of the Hydra process manager: mpiexec of MPICH and its relatives.

use super::{Env, Found, Launch, Launcher, evidence, must_be_asked, number, rank_and_size};
use crate::{Error, ErrorKind, Result};

pub(super) fn find(env: Env<'_>) -> Result<Option<Found>> {
    if must_be_asked(env) {
        return Err(Error::new(
            ErrorKind::InvalidUsage,
            "PMI_PORT is set, PMI_RANK and PMI_SIZE are not: this process must ask its launcher for its rank",
        ));
    }
    let Some((rank, size)) = rank_and_size(env, Launcher::Mpich, "PMI_RANK", "PMI_SIZE")? else {
        return Ok(None);
    };
    let launch = Launch {
        launcher: Launcher::Mpich,
        rank,
        size,
        local_rank: number(env, "MPI_LOCALRANKID")?,
        local_size: number(env, "MPI_LOCALNRANKS")?,
        node_hint: None,
        job: evidence(env, &["PMI_PORT", "PMI_JOBID", "HYDI_CONTROL_FD"]),
    };
    Ok(Some(Found {
        launch,
        evidence: evidence(env, &["PMI_RANK", "PMI_SIZE"]),
        of_this_process: true,
    }))
}
