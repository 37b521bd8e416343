//! Check before trust: what a vendor's library declares is tried with small inputs before it is used.
//!
//! The inputs differ by rank and index, such that the results of all operators differ, and hold wrapping integers,
//! large floats, NaN and both zeros. Expected values come from the host's own kernels, which define the rules.

use crate::call::{Collective, RedOp};
use crate::capability::{Capabilities, Case, Disproof};
use crate::error::{Error, ErrorKind, Result};
use crate::plugin::VendorPlugin;
use infiniccl_plugin_api::{CollDesc, DType, Status, stream_flags};
use infiniccl_reduce::{DataType, Factors, Input, ReduceOp, mean, reduce};
use std::time::{Duration, Instant};

/// Elements per rank: enough for a vector, a tail, and one of each special value.
const ELEMENTS: usize = 37;
/// A library that needs longer than this for so little hangs.
const LIMIT: Duration = Duration::from_secs(10);
const ROOT: u32 = 0;

/// An island's communicator, as the check needs it.
pub(super) struct Subject<'a> {
    pub(super) plugin: &'a VendorPlugin,
    pub(super) device: u64,
    pub(super) comm: u64,
    pub(super) rank: u32,
    pub(super) size: u32,
}

/// Tries every declared case; all ranks of the island call it at once. Returns the cases that came out wrong here.
///
/// # Errors
/// `Timeout` if the library does not answer.
pub(super) fn verify(subject: &Subject<'_>, caps: &Capabilities) -> Result<Vec<Disproof>> {
    let stream = subject
        .plugin
        .stream_create(subject.device, stream_flags::POLLED)?;
    let event = subject.plugin.event_create(subject.device)?;
    let mut wrong = Vec::new();
    let mut outcome = Ok(());
    for case in cases(caps, u64::from(subject.size)) {
        match try_case(subject, stream, event, case, caps.demands.vendor_numerics) {
            Ok(None) => {}
            Ok(Some(what)) => wrong.push(Disproof {
                collective: case.0,
                dtype: case.1,
                op: case.2,
                what,
            }),
            Err(error) => {
                outcome = Err(error);
                break;
            }
        }
    }
    subject.plugin.event_destroy(subject.device, event);
    subject.plugin.stream_destroy(subject.device, stream);
    outcome.map(|()| wrong)
}

type Tried = (Collective, DataType, Option<ReduceOp>);

/// The declared cases that the core may ask for.
fn cases(caps: &Capabilities, ranks: u64) -> Vec<Tried> {
    use Collective::*;
    let mut cases = Vec::new();
    for collective in [
        AllReduce,
        Reduce,
        ReduceScatter,
        Broadcast,
        AllGather,
        Gather,
        Scatter,
        AllToAll,
    ] {
        for dtype in DataType::ALL {
            let ops: Vec<Option<ReduceOp>> = match collective.reduces() {
                true => ReduceOp::ALL
                    .iter()
                    .filter(|op| dtype.supports(**op))
                    .copied()
                    .map(Some)
                    .collect(),
                false => vec![None],
            };
            for op in ops {
                let bytes = (ELEMENTS * dtype.size()) as u64;
                let case = Case {
                    collective,
                    dtype: *dtype,
                    op: op.map(RedOp::Fixed),
                    bytes,
                    ranks,
                };
                if caps.declares(&case) {
                    cases.push((collective, *dtype, op));
                }
            }
        }
    }
    cases
}

fn try_case(
    subject: &Subject<'_>,
    stream: u64,
    event: u64,
    (collective, dtype, op): Tried,
    lenient: bool,
) -> Result<Option<String>> {
    let (me, ranks) = (subject.rank as usize, subject.size as usize);
    let blocks = if has_blocks(collective) { ranks } else { 1 };
    let inputs: Vec<Vec<u8>> = (0..ranks)
        .map(|r| input(dtype, r, blocks * ELEMENTS, lenient))
        .collect();
    let expected = expected(&inputs, me, ranks, (collective, dtype, op))?;
    let mut output = vec![
        POISON;
        expected
            .as_ref()
            .map_or(ELEMENTS * ranks * dtype.size(), Vec::len)
    ];
    let desc = CollDesc {
        collective: collective.abi(),
        dtype: DType(dtype.code()),
        op: op.map_or(infiniccl_plugin_api::RedOp::SUM, |op| RedOp::Fixed(op).abi()),
        flags: 0,
        root: ROOT,
        peer: 0,
        send: inputs[me].as_ptr(),
        recv: output.as_mut_ptr(),
        count: ELEMENTS as u64,
        counts: std::ptr::null(),
        displs: std::ptr::null(),
        scale_bits: 0,
        check: 0,
        reserved: [0; 4],
    };
    let status = subject.plugin.enqueue(subject.comm, &[desc], stream);
    if status.is_error() {
        return Ok(Some(subject.plugin.error(status, "enqueue").to_string()));
    }
    subject.plugin.event_record(subject.device, event, stream)?;
    let begun = Instant::now();
    let status = loop {
        match subject.plugin.event_query(subject.device, event) {
            Status::IN_PROGRESS if begun.elapsed() < LIMIT => {
                subject
                    .plugin
                    .event_synchronize(subject.device, event, Duration::from_millis(1));
            }
            status => break status,
        }
    };
    if status.is_pending() {
        // The library may still write: its buffers are given up for good.
        subject.plugin.comm_abort(subject.comm);
        std::mem::forget((inputs, output));
        let text = format!(
            "{} does not answer {collective} of {ELEMENTS} {dtype}",
            subject.plugin.name()
        );
        return Err(Error::new(ErrorKind::Timeout, text));
    }
    if status.is_error() {
        return Ok(Some(subject.plugin.error(status, "event_query").to_string()));
    }
    Ok(expected.and_then(|expected| difference(dtype, ranks, &output, &expected)))
}

const POISON: u8 = 0xa5;

fn has_blocks(collective: Collective) -> bool {
    use Collective::*;
    matches!(collective, ReduceScatter | Scatter | AllToAll)
}

/// `count` elements of rank `rank`.
fn input(dtype: DataType, rank: usize, count: usize, lenient: bool) -> Vec<u8> {
    use half::{bf16, f16};
    use infiniccl_reduce::{F8E4M3, F8E5M2};
    let mut bytes = Vec::with_capacity(count * dtype.size());
    for i in 0..count {
        // 2, 4, 6, … in turn with others, so that sum, product, maximum, minimum and mean all differ.
        let small = (2 * rank + 2 + i % 3) as f64;
        let special = if lenient { usize::MAX } else { i % ELEMENTS };
        let float = match special {
            20 if rank == 0 => f64::NAN,
            21 if rank.is_multiple_of(2) => -0.0,
            21 => 0.0,
            22 => 60000.0,
            _ => small,
        };
        let large = special == 22;
        match dtype {
            DataType::Int8 | DataType::Uint8 => {
                bytes.push(if large { 120 + rank as u8 } else { small as u8 })
            }
            DataType::Int16 | DataType::Uint16 => {
                bytes.extend((if large { 32000 + rank as u16 } else { small as u16 }).to_le_bytes());
            }
            DataType::Int32 | DataType::Uint32 => {
                bytes.extend(
                    (if large {
                        0x7fff_fff0 + rank as u32
                    } else {
                        small as u32
                    })
                    .to_le_bytes(),
                );
            }
            DataType::Int64 | DataType::Uint64 => {
                let wide = 0x7fff_ffff_ffff_fff0 + rank as u64;
                bytes.extend((if large { wide } else { small as u64 }).to_le_bytes());
            }
            DataType::Float16 => bytes.extend(f16::from_f64(float).to_le_bytes()),
            DataType::BFloat16 => bytes.extend(bf16::from_f64(float).to_le_bytes()),
            DataType::Float32 => bytes.extend((float as f32).to_le_bytes()),
            DataType::Float64 => bytes.extend(float.to_le_bytes()),
            DataType::Float8E4M3 => bytes.push(F8E4M3::from_f32(float as f32).to_bits()),
            DataType::Float8E5M2 => bytes.push(F8E5M2::from_f32(float as f32).to_bits()),
            DataType::Bool => bytes.push(u8::from((i + rank).is_multiple_of(3))),
        }
    }
    bytes
}

/// What rank `me` should get; `None`: nothing.
fn expected(
    inputs: &[Vec<u8>],
    me: usize,
    ranks: usize,
    (collective, dtype, op): Tried,
) -> Result<Option<Vec<u8>>> {
    use Collective::*;
    let block = ELEMENTS * dtype.size();
    let at = |rank: usize, index: usize| &inputs[rank][index * block..(index + 1) * block];
    let root = ROOT as usize;
    Ok(Some(match collective {
        AllReduce | ReduceScatter => {
            combined(inputs, if collective == AllReduce { 0 } else { me }, dtype, op)?
        }
        Reduce if me == root => combined(inputs, 0, dtype, op)?,
        Broadcast => inputs[root].clone(),
        AllGather => inputs.concat(),
        Gather if me == root => inputs.concat(),
        Scatter => at(root, me).to_vec(),
        AllToAll => (0..ranks).flat_map(|r| at(r, me).to_vec()).collect(),
        _ => return Ok(None),
    }))
}

fn combined(inputs: &[Vec<u8>], index: usize, dtype: DataType, op: Option<ReduceOp>) -> Result<Vec<u8>> {
    let block = ELEMENTS * dtype.size();
    let mut out = vec![0u8; block];
    let pointers: Vec<*const u8> = inputs.iter().map(|i| i[index * block..].as_ptr()).collect();
    let outcome = match op {
        // SAFETY: each input has a whole block at its pointer, and the output is one block.
        Some(ReduceOp::Avg) => unsafe { mean(dtype, out.as_mut_ptr(), &pointers, ELEMENTS) },
        op => {
            let rows: Vec<Input> = pointers
                .iter()
                .map(|ptr| Input {
                    ptr: *ptr,
                    pre: false,
                })
                .collect();
            let op = op.unwrap_or(ReduceOp::Sum);
            // SAFETY: as above.
            unsafe {
                reduce(
                    dtype,
                    op,
                    out.as_mut_ptr(),
                    &rows,
                    ELEMENTS,
                    Factors { pre: 1.0, post: 1.0 },
                )
            }
        }
    };
    outcome.map_err(|e| {
        Error::new(ErrorKind::Internal, "the host cannot compute what it checks").with_source(e)
    })?;
    Ok(out)
}

/// The first element that is wrong, in words.
fn difference(dtype: DataType, ranks: usize, got: &[u8], want: &[u8]) -> Option<String> {
    let size = dtype.size();
    let pairs = got.chunks_exact(size).zip(want.chunks_exact(size)).enumerate();
    for (i, (g, w)) in pairs {
        if g == w {
            continue;
        }
        if !dtype.is_float() {
            return Some(format!(
                "element {i} is {} instead of {}",
                integer(dtype, g),
                integer(dtype, w)
            ));
        }
        let (g, w) = (float(dtype, g), float(dtype, w));
        // A library may add in any order and round at each step: one unit in the last place for each.
        let close = (g - w).abs() <= w.abs() * epsilon(dtype) * ranks as f64;
        let same_zero = g != 0.0 || w != 0.0 || g.is_sign_negative() == w.is_sign_negative();
        if !(g.is_nan() && w.is_nan() || close && same_zero) {
            return Some(format!("element {i} is {g:?} instead of {w:?}"));
        }
    }
    None
}

fn integer(dtype: DataType, bytes: &[u8]) -> i128 {
    let unsigned = bytes.iter().rev().fold(0u128, |v, b| v << 8 | u128::from(*b));
    let signed = matches!(
        dtype,
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64
    );
    let bits = 8 * bytes.len();
    let value = i128::try_from(unsigned).unwrap_or(i128::MAX);
    if signed && value >> (bits - 1) == 1 {
        value - (1i128 << bits)
    } else {
        value
    }
}

fn float(dtype: DataType, bytes: &[u8]) -> f64 {
    use half::{bf16, f16};
    use infiniccl_reduce::{F8E4M3, F8E5M2};
    let two = || [bytes[0], bytes[1]];
    match dtype {
        DataType::Float16 => f16::from_le_bytes(two()).to_f64(),
        DataType::BFloat16 => bf16::from_le_bytes(two()).to_f64(),
        DataType::Float32 => f64::from(f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])),
        DataType::Float8E4M3 => f64::from(F8E4M3::from_bits(bytes[0]).to_f32()),
        DataType::Float8E5M2 => f64::from(F8E5M2::from_bits(bytes[0]).to_f32()),
        _ => f64::from_bits(bytes.iter().rev().fold(0, |v, b| v << 8 | u64::from(*b))),
    }
}

/// Distance of 1 to the next larger number.
fn epsilon(dtype: DataType) -> f64 {
    let bits = match dtype {
        DataType::Float8E5M2 => 2,
        DataType::Float8E4M3 => 3,
        DataType::BFloat16 => 7,
        DataType::Float16 => 10,
        DataType::Float32 => 23,
        _ => 52,
    };
    0.5f64.powi(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(dtype: DataType, op: ReduceOp) -> (Vec<u8>, Vec<u8>) {
        let inputs: Vec<Vec<u8>> = (0..3).map(|r| input(dtype, r, ELEMENTS, false)).collect();
        let get = |op| combined(&inputs, 0, dtype, Some(op)).expect("the host computes it");
        (get(op), get(ReduceOp::Sum))
    }

    #[test]
    fn a_sum_in_the_place_of_any_other_operator_is_noticed() {
        for dtype in DataType::ALL.iter().filter(|d| **d != DataType::Bool) {
            for op in [ReduceOp::Prod, ReduceOp::Max, ReduceOp::Min, ReduceOp::Avg] {
                let (want, got) = sum(*dtype, op);
                assert!(difference(*dtype, 3, &got, &want).is_some(), "{dtype} {op}");
                assert_eq!(difference(*dtype, 3, &want, &want), None, "{dtype} {op}");
            }
        }
    }

    #[test]
    fn lost_elements_dropped_nan_and_the_wrong_zero_are_noticed() {
        let (want, _) = sum(DataType::Float32, ReduceOp::Max);
        let with = |index: usize, value: f32| {
            let mut got = want.clone();
            got[index * 4..index * 4 + 4].copy_from_slice(&value.to_le_bytes());
            difference(DataType::Float32, 3, &got, &want)
        };
        assert_eq!(with(20, 6.0).as_deref(), Some("element 20 is 6.0 instead of NaN"));
        assert_eq!(
            with(21, -0.0).as_deref(),
            Some("element 21 is -0.0 instead of 0.0")
        );
        assert!(with(36, f32::from_bits(0xa5a5_a5a5)).is_some());
        let (want, _) = sum(DataType::Int8, ReduceOp::Avg);
        assert_eq!(integer(DataType::Int8, &want[22..23]), 121);
    }
}
