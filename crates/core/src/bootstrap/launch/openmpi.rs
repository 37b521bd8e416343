//! The variables of Open MPI's mpirun.

use super::{Env, Found, Launch, Launcher, evidence, number, rank_and_size};
use crate::Result;

const RANK: &str = "OMPI_COMM_WORLD_RANK";
const SIZE: &str = "OMPI_COMM_WORLD_SIZE";

pub(super) fn find(env: Env<'_>) -> Result<Option<Found>> {
    let Some((rank, size)) = rank_and_size(env, Launcher::OpenMpi, RANK, SIZE)? else {
        return Ok(None);
    };
    let launch = Launch {
        launcher: Launcher::OpenMpi,
        rank,
        size,
        local_rank: number(env, "OMPI_COMM_WORLD_LOCAL_RANK")?,
        local_size: number(env, "OMPI_COMM_WORLD_LOCAL_SIZE")?,
        node_hint: None,
        job: evidence(
            env,
            &[
                "PMIX_NAMESPACE",
                "PMIX_SERVER_URI4",
                "OMPI_MCA_orte_hnp_uri",
                "PRTE_LAUNCHED",
            ],
        ),
    };
    Ok(Some(Found {
        launch,
        evidence: evidence(env, &[RANK, SIZE]),
        of_this_process: true,
    }))
}
