//! The variables of `torch.distributed`: torchrun, `infiniccl run`, and schedulers that imitate them.

use super::{Env, Found, Launch, Launcher, evidence, number, rank_and_size};
use crate::Result;

pub(super) fn find(env: Env<'_>) -> Result<Option<Found>> {
    let Some((rank, size)) = rank_and_size(env, Launcher::Torchrun, "RANK", "WORLD_SIZE")? else {
        return Ok(None);
    };
    // A restarted job has the same name and port as the one before.
    let job = [
        "MASTER_ADDR",
        "MASTER_PORT",
        "TORCHELASTIC_RUN_ID",
        "TORCHELASTIC_RESTART_COUNT",
    ];
    let launch = Launch {
        launcher: Launcher::Torchrun,
        rank,
        size,
        local_rank: number(env, "LOCAL_RANK")?,
        local_size: number(env, "LOCAL_WORLD_SIZE")?,
        node_hint: number(env, "GROUP_RANK")?,
        job: evidence(env, &job),
    };
    let evidence = evidence(env, &["RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"]);
    Ok(Some(Found {
        launch,
        evidence,
        of_this_process: true,
    }))
}
