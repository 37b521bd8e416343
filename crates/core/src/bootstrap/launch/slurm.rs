//! The variables of Slurm, which srun sets for each task and salloc and sbatch set for the whole allocation.

use super::{Env, Found, Launch, Launcher, evidence, number, rank_and_size};
use crate::Result;

pub(super) fn find(env: Env<'_>) -> Result<Option<Found>> {
    // Only srun sets the variables of a step. Without them SLURM_NTASKS is the size of the allocation, and it must not
    // be an error where mpirun or torchrun works inside one.
    let step = ["SLURM_STEP_ID", "SLURM_STEPID", "SLURM_STEP_NUM_TASKS"]
        .iter()
        .any(|name| env(name).is_some());
    let others = ["RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"]
        .iter()
        .any(|name| env(name).is_some());
    if !step && others && env("SLURM_PROCID").is_none() {
        return Ok(None);
    }
    let size_name = if env("SLURM_STEP_NUM_TASKS").is_some() {
        "SLURM_STEP_NUM_TASKS"
    } else {
        "SLURM_NTASKS"
    };
    let Some((rank, size)) = rank_and_size(env, Launcher::Slurm, "SLURM_PROCID", size_name)? else {
        return Ok(None);
    };
    let node = number(env, "SLURM_NODEID")?;
    let per_node = env("SLURM_STEP_TASKS_PER_NODE").or_else(|| env("SLURM_TASKS_PER_NODE"));
    let launch = Launch {
        launcher: Launcher::Slurm,
        rank,
        size,
        local_rank: number(env, "SLURM_LOCALID")?,
        local_size: per_node
            .zip(node)
            .and_then(|(list, node)| tasks_of_node(&list, node)),
        node_hint: node,
        job: evidence(env, &["SLURM_JOB_ID", "SLURM_STEP_ID"]),
    };
    let evidence = evidence(env, &["SLURM_PROCID", size_name]);
    Ok(Some(Found {
        launch,
        evidence,
        of_this_process: step,
    }))
}

/// The number of tasks on node `node` from a list such as `4(x2),3`: two nodes with 4 tasks, then one with 3.
fn tasks_of_node(list: &str, mut node: u32) -> Option<u32> {
    for part in list.split(',') {
        let (tasks, repeat) = match part.split_once("(x") {
            Some((tasks, repeat)) => (tasks, repeat.strip_suffix(')')?.parse().ok()?),
            None => (part, 1),
        };
        if node < repeat {
            return tasks.trim().parse().ok();
        }
        node -= repeat;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::tasks_of_node;

    #[test]
    fn lists_of_tasks_per_node() {
        for (list, node, tasks) in [
            ("4", 0, Some(4)),
            ("4", 1, None),
            ("4(x2),3", 0, Some(4)),
            ("4(x2),3", 1, Some(4)),
            ("4(x2),3", 2, Some(3)),
            ("1,2(x3)", 3, Some(2)),
            ("2(y", 0, None),
            ("", 0, None),
        ] {
            assert_eq!(tasks_of_node(list, node), tasks, "{list} node {node}");
        }
    }
}
