//! A vendor's collective library as it should be: the reference over the memories of an island's ranks.

use super::{Memory, combine, vectors};
use crate::schedule::{Schedule, VendorCall};
use infiniccl_plugin_api::Collective;

/// Runs one group of calls; `groups` holds the calls of each of `members`, in the same order, and the schedule that
/// they are from.
pub(super) fn run(
    members: &[u32],
    groups: &[(&[VendorCall], &Schedule)],
    memories: &mut [Memory],
) -> Result<(), String> {
    let (groups, schedules): (Vec<&[VendorCall]>, Vec<&Schedule>) = groups.iter().copied().unzip();
    for (rank, group) in members.iter().zip(&groups) {
        if group.len() != groups[0].len() {
            return Err(format!(
                "rank {rank} has {} calls, rank {} has {}",
                group.len(),
                members[0],
                groups[0].len()
            ));
        }
    }
    // A group reads all inputs before it writes any output, as far as anyone may rely on.
    let mut outputs = Vec::new();
    for index in 0..groups[0].len() {
        let calls: Vec<VendorCall> = groups.iter().map(|g| g[index]).collect();
        for (rank, call) in members.iter().zip(&calls) {
            let key = |c: &VendorCall| (c.collective, c.dtype, c.op, c.root, c.count);
            if key(call) != key(&calls[0]) {
                return Err(format!(
                    "rank {rank} calls {call:?}, rank {} {:?}",
                    members[0], calls[0]
                ));
            }
        }
        outputs.extend(match vectors::has_blocks(calls[0].collective) {
            true => vectors::outcome(members, &calls, &schedules, memories)?,
            false => outcome(members, &calls, memories)?,
        });
    }
    for (rank, at, content) in outputs {
        let bytes = content.len() as u64;
        memories[rank]
            .write(at, bytes)
            .map_err(|e| format!("rank {rank}: {e}"))?
            .copy_from_slice(&content);
    }
    Ok(())
}

/// What is written: by which rank, where, and what.
pub(super) type Output = (usize, crate::schedule::Loc, Vec<u8>);

/// What one collective writes.
fn outcome(members: &[u32], calls: &[VendorCall], memories: &[Memory]) -> Result<Vec<Output>, String> {
    let (call, size) = (calls[0], members.len());
    let bytes = call.count * call.dtype.size() as u64;
    let read = |member: usize, count: u64| {
        let rank = members[member] as usize;
        let content = memories[rank].read(calls[member].send, count * bytes);
        content.map_err(|e| format!("rank {rank}: {e}"))
    };
    let read_all = |count: u64| (0..size).map(|m| read(m, count)).collect::<Result<Vec<_>, _>>();
    let block = |content: &[u8], i: usize| content[i * bytes as usize..(i + 1) * bytes as usize].to_vec();
    let reduce = |count: u64| {
        let scales: Vec<u64> = calls.iter().map(|c| c.scale_bits).collect();
        combine(call.dtype, call.op, &read_all(count)?, &scales)
    };
    let root = call.root as usize;
    let to = |member: usize, content: Vec<u8>| (members[member] as usize, calls[member].recv, content);
    let to_all = |content: Vec<u8>| (0..size).map(|m| to(m, content.clone())).collect();
    Ok(match call.collective {
        Collective::ALL_REDUCE => to_all(reduce(1)?),
        Collective::REDUCE => vec![to(root, reduce(1)?)],
        Collective::REDUCE_SCATTER => {
            let all = reduce(size as u64)?;
            (0..size).map(|m| to(m, block(&all, m))).collect()
        }
        Collective::BROADCAST => to_all(read(root, 1)?.to_vec()),
        Collective::ALL_GATHER => to_all(read_all(1)?.concat()),
        Collective::GATHER => vec![to(root, read_all(1)?.concat())],
        Collective::SCATTER => {
            let all = read(root, size as u64)?;
            (0..size).map(|m| to(m, block(all, m))).collect()
        }
        Collective::ALL_TO_ALL => {
            let all = read_all(size as u64)?;
            (0..size)
                .map(|m| to(m, all.iter().flat_map(|from| block(from, m)).collect()))
                .collect()
        }
        other => return Err(format!("the simulated library has no {other:?}")),
    })
}
