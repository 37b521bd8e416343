//! The local steps of a simulated rank, by the kernels that the executor uses.

use super::Memory;
use crate::schedule::{Action, Loc, Schedule};
use infiniccl_reduce::{self as kernels, Factors, Input, Unsupported};

pub(super) fn run(action: &Action, schedule: &Schedule, memory: &mut Memory) -> Result<(), String> {
    match *action {
        Action::Copy { dst, src, bytes } => {
            no_overlap(memory, (dst, bytes), (src, bytes))?;
            let content = memory.read(src, bytes)?.to_vec();
            memory.write(dst, bytes)?.copy_from_slice(&content);
            Ok(())
        }
        Action::Reduce {
            dtype,
            op,
            dst,
            first,
            len,
            count,
            post,
        } => {
            let bytes = count * dtype.size() as u64;
            let operands = schedule.operands_of(first, len);
            for operand in operands {
                no_overlap(memory, (dst, bytes), (operand.at, bytes))?;
            }
            let contents = operands
                .iter()
                .map(|o| memory.read(o.at, bytes).map(<[u8]>::to_vec));
            let contents = contents.collect::<Result<Vec<_>, _>>()?;
            let inputs = operands.iter().zip(&contents);
            let inputs: Vec<Input> = inputs
                .map(|(o, c)| Input {
                    ptr: c.as_ptr(),
                    pre: o.pre,
                })
                .collect();
            let post = if post { schedule.post_factor } else { 1.0 };
            let factors = Factors {
                pre: schedule.pre_factor,
                post,
            };
            let target = memory.write(dst, bytes)?;
            // SAFETY: target and inputs have `bytes` bytes, and the inputs are copies that overlap nothing.
            done(unsafe { kernels::reduce(dtype, op, target.as_mut_ptr(), &inputs, count as usize, factors) })
        }
        Action::Premul {
            dtype,
            dst,
            src,
            count,
            scalar_bits,
        } => {
            let bytes = count * dtype.size() as u64;
            let content = memory.read(src, bytes)?.to_vec();
            let target = memory.write(dst, bytes)?;
            // SAFETY: both have `bytes` bytes, and the input is a copy.
            done(unsafe {
                kernels::premul(
                    dtype,
                    target.as_mut_ptr(),
                    content.as_ptr(),
                    scalar_bits,
                    count as usize,
                )
            })
        }
        Action::Widen {
            dtype,
            wide,
            dst,
            src,
            count,
            ranks,
        } => {
            let (bytes, wide_bytes) = (count * dtype.size() as u64, count * wide.bytes() as u64);
            check_wide(dtype, wide, ranks)?;
            let content = memory.read(src, bytes)?.to_vec();
            let target = memory.write(dst, wide_bytes)?;
            // SAFETY: the target has `count` wide elements, and the input is a copy of `count` elements.
            done(unsafe {
                kernels::widen(
                    dtype,
                    ranks,
                    target.as_mut_ptr(),
                    content.as_ptr(),
                    count as usize,
                )
            })
        }
        Action::NarrowMean {
            dtype,
            wide,
            dst,
            src,
            count,
            ranks,
        } => {
            let (bytes, wide_bytes) = (count * dtype.size() as u64, count * wide.bytes() as u64);
            check_wide(dtype, wide, ranks)?;
            let content = memory.read(src, wide_bytes)?.to_vec();
            let target = memory.write(dst, bytes)?;
            // SAFETY: the target has `count` elements, and the input is a copy of `count` wide elements.
            done(unsafe {
                kernels::narrow_mean(
                    dtype,
                    ranks,
                    target.as_mut_ptr(),
                    content.as_ptr(),
                    count as usize,
                )
            })
        }
        Action::Send { .. } | Action::Recv { .. } | Action::Vendor { .. } => {
            unreachable!("steps that need other ranks are not local")
        }
    }
}

fn check_wide(dtype: kernels::DataType, wide: kernels::Wide, ranks: u64) -> Result<(), String> {
    match kernels::wide_type(dtype, ranks) {
        Some(expected) if expected == wide => Ok(()),
        other => Err(format!(
            "wide elements of {dtype} on {ranks} ranks are {other:?}, not {wide:?}"
        )),
    }
}

fn no_overlap(memory: &Memory, target: (Loc, u64), source: (Loc, u64)) -> Result<(), String> {
    if memory.partly_overlap(target, source) {
        return Err(format!("target {target:?} overlaps source {source:?} partly"));
    }
    Ok(())
}

fn done(outcome: Result<(), Unsupported>) -> Result<(), String> {
    outcome.map_err(|e| e.to_string())
}
