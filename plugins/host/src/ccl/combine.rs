//! Reduces the contributions of all ranks at once, so that each result is rounded once, in rank order.

use infiniccl_plugin_api::{Failure, RedOp, Status};
use infiniccl_reduce::{DataType, Factors, Input, ReduceOp};

/// How contributions are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Combine {
    /// By an operator that needs nothing else.
    Op(ReduceOp),
    /// The mean of all ranks.
    Mean,
    /// The sum of contributions that were multiplied by this scalar before they were contributed.
    Premul(u64),
}

/// Inputs whose list stays on the stack.
const FEW: usize = 16;

impl Combine {
    /// The way for an operator code; UNSUPPORTED if the type does not have it.
    pub(crate) fn new(dtype: DataType, op: RedOp, scale_bits: u64) -> Result<Combine, Failure> {
        let combine = match op {
            RedOp::SUM => Combine::Op(ReduceOp::Sum),
            RedOp::PROD => Combine::Op(ReduceOp::Prod),
            RedOp::MAX => Combine::Op(ReduceOp::Max),
            RedOp::MIN => Combine::Op(ReduceOp::Min),
            RedOp::AVG => Combine::Mean,
            RedOp::PREMUL_SUM => Combine::Premul(scale_bits),
            other => {
                let text = format!("reduction operator {} is unknown to the host plugin", other.0);
                return Err(Failure::new(Status::UNSUPPORTED, text));
            }
        };
        if dtype == DataType::Bool && !matches!(combine, Combine::Op(_)) {
            let text = format!("{} is not defined for bool", op.name().unwrap_or("this operator"));
            return Err(Failure::new(Status::UNSUPPORTED, text));
        }
        Ok(combine)
    }

    /// Combines `inputs`, in their order, into `dst`. PREMUL_SUM expects multiplied inputs.
    ///
    /// # Safety
    /// As for [`infiniccl_reduce::reduce`].
    pub(crate) unsafe fn run(
        self,
        dtype: DataType,
        dst: *mut u8,
        inputs: impl ExactSizeIterator<Item = *const u8>,
        count: usize,
    ) {
        if count == 0 {
            return;
        }
        let done = match self {
            Combine::Mean => {
                let mut few = [std::ptr::null(); FEW];
                // SAFETY: the caller's promise.
                listed(&mut few, inputs, |list| unsafe {
                    infiniccl_reduce::mean(dtype, dst, list, count)
                })
            }
            Combine::Op(_) | Combine::Premul(_) => {
                let op = match self {
                    Combine::Op(op) => op,
                    Combine::Mean | Combine::Premul(_) => ReduceOp::Sum,
                };
                let mut few = [Input {
                    ptr: std::ptr::null(),
                    pre: false,
                }; FEW];
                let inputs = inputs.map(|ptr| Input { ptr, pre: false });
                listed(&mut few, inputs, |list| {
                    // SAFETY: the caller's promise.
                    unsafe { infiniccl_reduce::reduce(dtype, op, dst, list, count, Factors::NONE) }
                })
            }
        };
        assert!(done.is_ok(), "a reduction that `new` had refused");
    }

    /// Brings this rank's contribution to `dst`: multiplied for PREMUL_SUM, else as it is.
    ///
    /// # Safety
    /// `src` is valid for reads and `dst` for writes of `count` elements; they are equal or do not overlap.
    pub(crate) unsafe fn contribute(self, dtype: DataType, dst: *mut u8, src: *const u8, count: usize) {
        if let Combine::Premul(bits) = self {
            // SAFETY: the caller's promise.
            let done = unsafe { infiniccl_reduce::premul(dtype, dst, src, bits, count) };
            assert!(done.is_ok(), "a reduction that `new` had refused");
        } else {
            // SAFETY: the caller's promise.
            unsafe { std::ptr::copy(src, dst, count * dtype.size()) };
        }
    }

    /// Whether contributions differ from what lies in the caller's buffer.
    pub(crate) fn multiplies(self) -> bool {
        matches!(self, Combine::Premul(_))
    }
}

fn listed<T: Copy, R>(
    few: &mut [T; FEW],
    items: impl ExactSizeIterator<Item = T>,
    run: impl FnOnce(&[T]) -> R,
) -> R {
    let len = items.len();
    if len <= FEW {
        for (place, item) in few.iter_mut().zip(items) {
            *place = item;
        }
        run(&few[..len])
    } else {
        run(&items.collect::<Vec<T>>())
    }
}
