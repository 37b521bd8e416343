//! Checks the arguments of a call before anything moves, and finds out whether it works in place.

use super::raw::{RawCall, VectorCounts};
use crate::call::{Collective, RedOp};
use crate::schedule::InPlace;
use infiniccl_reduce::{DataType, ReduceOp};

/// An argument that cannot be used: its name, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BadArgument {
    pub(super) argument: &'static str,
    pub(super) reason: String,
}

fn bad<T>(argument: &'static str, reason: impl Into<String>) -> Result<T, BadArgument> {
    Err(BadArgument {
        argument,
        reason: reason.into(),
    })
}

/// Bytes that this rank's part of the call reads and writes, as one span each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Spans {
    read: u64,
    written: u64,
    /// Where the input lies in the output, or the output in the input, when the call works in place.
    send_in_recv: Option<u64>,
    recv_in_send: Option<u64>,
}

/// Checks `call` for rank `rank` of `size`; says whether input and output are one buffer.
pub(super) fn check(call: &RawCall, rank: u32, size: u32) -> Result<Option<InPlace>, BadArgument> {
    use Collective::*;
    let reduces = call.collective.reduces();
    if reduces && call.dtype == DataType::Bool {
        match call.op {
            RedOp::Fixed(ReduceOp::Avg) => return bad("op", "avg is not defined for bool"),
            RedOp::PreMulSum { .. } => return bad("op", "premul_sum is not defined for bool"),
            RedOp::Fixed(_) => {}
        }
    }
    if call.collective.has_root() && call.root >= size {
        return bad(
            "root",
            format!("{} is not a rank of a communicator of {size}", call.root),
        );
    }
    if call.collective.is_message() && call.peer >= size {
        return bad(
            "peer",
            format!("{} is not a rank of a communicator of {size}", call.peer),
        );
    }
    if matches!(call.collective, AllToAllV | AllGatherV | ReduceScatterV) {
        check_vector(call, size)?;
    }
    let spans = spans(call, rank, size)?;
    check_pointer("send", call.send as u64, spans.read, call.dtype)?;
    check_pointer("recv", call.recv as u64, spans.written, call.dtype)?;
    in_place(call, spans)
}

/// Bytes after `recv` that a checked call writes on this rank.
pub(super) fn written(call: &RawCall, rank: u32, size: u32) -> u64 {
    spans(call, rank, size).map_or(0, |spans| spans.written)
}

fn check_pointer(
    argument: &'static str,
    address: u64,
    bytes: u64,
    dtype: DataType,
) -> Result<(), BadArgument> {
    if bytes == 0 {
        return Ok(());
    }
    if address == 0 {
        return bad(argument, format!("is null, but {bytes} bytes are asked for"));
    }
    if address.checked_add(bytes).is_none() || isize::try_from(bytes).is_err() {
        return bad(
            "count",
            format!("{bytes} bytes do not fit into the address space"),
        );
    }
    if !address.is_multiple_of(dtype.size() as u64) {
        return bad(
            argument,
            format!("is not aligned to the {} bytes of {dtype}", dtype.size()),
        );
    }
    Ok(())
}

fn check_vector(call: &RawCall, size: u32) -> Result<(), BadArgument> {
    let Some(v) = &call.vector else {
        return bad("counts", "are missing");
    };
    let fits = |argument, list: &[u64]| match list.len() == size as usize {
        true => Ok(()),
        false => bad(argument, format!("has {} entries for {size} ranks", list.len())),
    };
    match call.collective {
        Collective::AllToAllV => {
            fits("send_counts", &v.send_counts)?;
            fits("send_displs", &v.send_displs)?;
            fits("recv_counts", &v.recv_counts)?;
            fits("recv_displs", &v.recv_displs)?;
            no_overlap(&v.recv_counts, &v.recv_displs)
        }
        Collective::AllGatherV => {
            fits("recv_counts", &v.recv_counts)?;
            fits("recv_displs", &v.recv_displs)?;
            no_overlap(&v.recv_counts, &v.recv_displs)
        }
        _ => fits("send_counts", &v.send_counts),
    }
}

/// Two blocks of an output on the same elements have no defined result.
fn no_overlap(counts: &[u64], displs: &[u64]) -> Result<(), BadArgument> {
    let mut blocks: Vec<(u64, u64)> = displs
        .iter()
        .copied()
        .zip(counts.iter().copied())
        .filter(|(_, c)| *c > 0)
        .collect();
    blocks.sort_unstable();
    match blocks.windows(2).any(|w| w[0].0.saturating_add(w[0].1) > w[1].0) {
        true => bad("recv_displs", "blocks of the output overlap"),
        false => Ok(()),
    }
}

fn spans(call: &RawCall, rank: u32, size: u32) -> Result<Spans, BadArgument> {
    use Collective::*;
    let elem = call.dtype.size() as u64;
    let too_large = || {
        bad::<u64>(
            "count",
            format!("{} elements do not fit into the address space", call.count),
        )
    };
    let bytes = call.count.checked_mul(elem).map_or_else(too_large, Ok)?;
    let all = bytes.checked_mul(u64::from(size)).map_or_else(too_large, Ok)?;
    let my_block = u64::from(rank) * bytes;
    let at_root = call.root == rank;
    let root = |bytes: u64| if at_root { bytes } else { 0 };
    let extent = |counts: &[u64], displs: &[u64]| -> Result<u64, BadArgument> {
        let mut end = 0u64;
        for (count, displ) in counts.iter().zip(displs).filter(|(c, _)| **c > 0) {
            let last = displ.checked_add(*count).and_then(|e| e.checked_mul(elem));
            end = end.max(last.map_or_else(too_large, Ok)?);
        }
        Ok(end)
    };
    let none = VectorCounts::default();
    let v = call.vector.as_ref().unwrap_or(&none);
    let spans = |read, written, send_in_recv, recv_in_send| Spans {
        read,
        written,
        send_in_recv,
        recv_in_send,
    };
    Ok(match call.collective {
        AllReduce => spans(bytes, bytes, Some(0), None),
        Broadcast => spans(root(bytes), bytes, Some(0), None),
        Reduce => spans(bytes, root(bytes), Some(0), None),
        AllGather => spans(bytes, all, Some(my_block), None),
        ReduceScatter => spans(all, bytes, None, Some(my_block)),
        Gather => spans(bytes, root(all), Some(my_block), None),
        Scatter => spans(root(all), bytes, None, Some(my_block)),
        AllToAll => spans(all, all, None, None),
        AllToAllV => spans(
            extent(&v.send_counts, &v.send_displs)?,
            extent(&v.recv_counts, &v.recv_displs)?,
            None,
            None,
        ),
        AllGatherV => {
            let (count, displ) = (v.recv_counts[rank as usize], v.recv_displs[rank as usize]);
            let written = extent(&v.recv_counts, &v.recv_displs)?;
            spans(
                count.saturating_mul(elem),
                written,
                Some(displ.saturating_mul(elem)),
                None,
            )
        }
        ReduceScatterV => {
            let before: u64 = v.send_counts[..rank as usize]
                .iter()
                .fold(0, |a, c| a.saturating_add(*c));
            let total = v.send_counts.iter().fold(0u64, |a, c| a.saturating_add(*c));
            let read = total.checked_mul(elem).map_or_else(too_large, Ok)?;
            spans(
                read,
                v.send_counts[rank as usize] * elem,
                None,
                Some(before * elem),
            )
        }
        Send => spans(bytes, 0, None, None),
        Recv => spans(0, bytes, None, None),
        Barrier => spans(0, 0, None, None),
    })
}

fn in_place(call: &RawCall, spans: Spans) -> Result<Option<InPlace>, BadArgument> {
    let (send, recv) = (call.send as u64, call.recv as u64);
    if spans.read == 0 || spans.written == 0 {
        return Ok(None);
    }
    if spans.send_in_recv.is_some_and(|shift| recv + shift == send) {
        return Ok(Some(InPlace {
            send_offset: send - recv,
            recv_offset: 0,
        }));
    }
    if spans.recv_in_send.is_some_and(|shift| send + shift == recv) {
        return Ok(Some(InPlace {
            send_offset: 0,
            recv_offset: recv - send,
        }));
    }
    if send < recv + spans.written && recv < send + spans.read {
        let rule = match (spans.send_in_recv, spans.recv_in_send) {
            (Some(shift), _) => format!("in place means send = recv + {shift} bytes on this rank"),
            (None, Some(shift)) => format!("in place means recv = send + {shift} bytes on this rank"),
            (None, None) => "this call does not work in place".to_string(),
        };
        return bad("recv", format!("overlaps send; {rule}"));
    }
    Ok(None)
}

#[cfg(test)]
#[path = "arguments_tests.rs"]
mod tests;
