//! The collectives of a vendor's library whose blocks have any size.

use super::vendor::Output;
use super::{Memory, combine};
use crate::schedule::{Schedule, VendorCall};
use infiniccl_plugin_api::Collective;

/// Whether the call is one of those.
pub(super) fn has_blocks(collective: Collective) -> bool {
    matches!(
        collective,
        Collective::ALL_GATHER_V | Collective::REDUCE_SCATTER_V | Collective::ALL_TO_ALL_V
    )
}

/// What one of them writes; each schedule holds counts and displacements as the plugin ABI lays them out.
pub(super) fn outcome(
    members: &[u32],
    calls: &[VendorCall],
    schedules: &[&Schedule],
    memories: &[Memory],
) -> Result<Vec<Output>, String> {
    let (call, size) = (calls[0], members.len());
    let elem = call.dtype.size() as u64;
    let counts = |member: usize| &schedules[member].vector_counts;
    let displs = |member: usize| &schedules[member].vector_displs;
    let read = |member: usize, first: u64, count: u64| {
        let rank = members[member] as usize;
        let content = memories[rank].read(calls[member].send.plus(first * elem), count * elem);
        content.map_err(|e| format!("rank {rank}: {e}"))
    };
    let write = |member: usize, first: u64, content: Vec<u8>| {
        (
            members[member] as usize,
            calls[member].recv.plus(first * elem),
            content,
        )
    };
    let lists = if call.collective == Collective::ALL_TO_ALL_V {
        2
    } else {
        1
    };
    if let Some(member) = (0..size).find(|m| counts(*m).len() != lists * size) {
        return Err(format!(
            "rank {} gives {} counts",
            members[member],
            counts(member).len()
        ));
    }
    let shared = counts(0);
    if lists == 1 && (0..size).any(|m| counts(m) != shared || displs(m) != displs(0)) {
        return Err(format!(
            "counts differ: {:?}",
            (0..size).map(counts).collect::<Vec<_>>()
        ));
    }
    let mut outputs = Vec::new();
    match call.collective {
        Collective::ALL_GATHER_V => {
            for (from, count) in shared.iter().enumerate() {
                let content = read(from, 0, *count)?;
                outputs.extend((0..size).map(|to| write(to, displs(to)[from], content.to_vec())));
            }
        }
        Collective::REDUCE_SCATTER_V => {
            let total = shared.iter().sum();
            let inputs = (0..size)
                .map(|m| read(m, 0, total))
                .collect::<Result<Vec<_>, _>>()?;
            let scales: Vec<u64> = calls.iter().map(|c| c.scale_bits).collect();
            let mut rest = &combine(call.dtype, call.op, &inputs, &scales)?[..];
            for (to, count) in shared.iter().enumerate() {
                let (block, others) = rest.split_at((count * elem) as usize);
                outputs.push(write(to, 0, block.to_vec()));
                rest = others;
            }
        }
        _ => {
            for from in 0..size {
                for to in 0..size {
                    let (sent, got) = (counts(from)[to], counts(to)[size + from]);
                    if sent != got {
                        let (from, to) = (members[from], members[to]);
                        return Err(format!(
                            "rank {from} sends {sent} to rank {to}, which expects {got}"
                        ));
                    }
                    let content = read(from, displs(from)[to], sent)?.to_vec();
                    outputs.push(write(to, displs(to)[size + from], content));
                }
            }
        }
    }
    Ok(outputs)
}
