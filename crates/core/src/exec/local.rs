//! Runs the local steps of a schedule on host memory.

use super::instance::Instance;
use crate::error::{Error, ErrorKind, Result};
use crate::schedule::Action;
use infiniccl_reduce::{self as reduce, Factors, Input};

/// Operands of one reduction that are held on the stack; algorithms stay below.
const STACK_OPERANDS: usize = 64;

/// Runs one local step of `instance`.
pub(super) fn run(instance: &Instance, action: &Action) -> Result<()> {
    let schedule = &instance.prepared.schedule;
    let outcome = match *action {
        Action::Copy { dst, src, bytes } => {
            // SAFETY: the schedule stays within the caller's buffers and scratch; source and target differ.
            unsafe {
                std::ptr::copy(instance.source(src), instance.target(dst), bytes as usize);
            }
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
            let operands = schedule.operands_of(first, len);
            let mut stack = [Input {
                ptr: std::ptr::null(),
                pre: false,
            }; STACK_OPERANDS];
            let mut heap = Vec::new();
            let inputs = if operands.len() <= STACK_OPERANDS {
                &mut stack[..operands.len()]
            } else {
                heap.resize(operands.len(), stack[0]);
                &mut heap[..]
            };
            for (input, operand) in inputs.iter_mut().zip(operands) {
                *input = Input {
                    ptr: instance.source(operand.at),
                    pre: operand.pre,
                };
            }
            let post = if post { schedule.post_factor } else { 1.0 };
            let factors = Factors {
                pre: schedule.pre_factor,
                post,
            };
            // SAFETY: as above; `dst` is one of the inputs or apart from them.
            unsafe { reduce::reduce(dtype, op, instance.target(dst), inputs, count as usize, factors) }
        }
        Action::Premul {
            dtype,
            dst,
            src,
            count,
            scalar_bits,
        } => {
            // SAFETY: as above.
            unsafe {
                reduce::premul(
                    dtype,
                    instance.target(dst),
                    instance.source(src),
                    scalar_bits,
                    count as usize,
                )
            }
        }
        Action::Widen {
            dtype,
            dst,
            src,
            count,
            ranks,
            ..
        } => {
            // SAFETY: as above; the wide elements lie in scratch memory.
            unsafe {
                reduce::widen(
                    dtype,
                    ranks,
                    instance.target(dst),
                    instance.source(src),
                    count as usize,
                )
            }
        }
        Action::NarrowMean {
            dtype,
            dst,
            src,
            count,
            ranks,
            ..
        } => {
            // SAFETY: as above.
            unsafe {
                reduce::narrow_mean(
                    dtype,
                    ranks,
                    instance.target(dst),
                    instance.source(src),
                    count as usize,
                )
            }
        }
        Action::Send { .. } | Action::Recv { .. } | Action::Vendor { .. } => {
            unreachable!("steps of lanes are not local")
        }
    };
    outcome.map_err(|e| {
        Error::new(
            ErrorKind::Internal,
            "the plan asks for a reduction that the host cannot do",
        )
        .with_source(e)
    })
}
