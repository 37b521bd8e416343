//! Element-wise reductions and scalings without peers.

use crate::device::{self, Device};
use crate::error::usage;
use crate::stream::Work;
use infiniccl_plugin_api::{
    DType, DeviceHandle, Failure, RedOp, ReduceDesc, ScaleDesc, Status, StreamHandle, guarded, slice,
};
use infiniccl_reduce::{DataType, Factors, Input, ReduceOp};

/// A reduction with checked arguments.
pub(crate) struct Reduction {
    dtype: DataType,
    op: ReduceOp,
    dst: *mut u8,
    inputs: Vec<Input>,
    count: usize,
    factors: Factors,
}

/// A scaling with checked arguments.
pub(crate) struct Scaling {
    dtype: DataType,
    dst: *mut u8,
    src: *const u8,
    count: usize,
    factor: f64,
}

fn dtype(code: DType) -> Result<DataType, Failure> {
    DataType::try_from(code.0).map_err(|unknown| Failure::new(Status::UNSUPPORTED, unknown.to_string()))
}

fn elements(count: u64, dtype: DataType) -> Result<usize, Failure> {
    usize::try_from(count)
        .ok()
        .filter(|count| {
            count
                .checked_mul(dtype.size())
                .is_some_and(|bytes| isize::try_from(bytes).is_ok())
        })
        .ok_or_else(|| {
            usage(format!(
                "{count} elements of {dtype} do not fit into an address space"
            ))
        })
}

impl Reduction {
    /// Checks a descriptor; none if there is nothing to do.
    fn new(desc: &ReduceDesc) -> Result<Option<Reduction>, Failure> {
        let dtype = dtype(desc.dtype)?;
        let op = match desc.op {
            RedOp::SUM => ReduceOp::Sum,
            RedOp::PROD => ReduceOp::Prod,
            RedOp::MAX => ReduceOp::Max,
            RedOp::MIN => ReduceOp::Min,
            other => {
                let name = other.name().map_or_else(|| other.0.to_string(), str::to_owned);
                let text = format!("{name} is no operator of a local reduction");
                return Err(Failure::new(Status::UNSUPPORTED, text));
            }
        };
        let count = elements(desc.count, dtype)?;
        if count == 0 {
            return Ok(None);
        }
        // SAFETY: the core lends the list for this call.
        let pointers = unsafe { slice(desc.inputs, desc.input_count) }
            .map_err(|_| usage("the list of inputs is a null pointer"))?;
        if pointers.is_empty() || desc.dst.is_null() || pointers.iter().any(|ptr| ptr.is_null()) {
            return Err(usage("a reduction without inputs, or from or to a null pointer"));
        }
        let pre = |index: usize| index < 64 && desc.pre_mask >> index & 1 == 1;
        let inputs = pointers.iter().enumerate().map(|(index, ptr)| Input {
            ptr: *ptr,
            pre: pre(index),
        });
        let factors = Factors {
            pre: f64::from_bits(desc.pre_bits),
            post: f64::from_bits(desc.post_bits),
        };
        Ok(Some(Reduction {
            dtype,
            op,
            dst: desc.dst,
            inputs: inputs.collect(),
            count,
            factors,
        }))
    }

    /// Reduces.
    ///
    /// # Safety
    /// As for [`infiniccl_reduce::reduce`], by what the descriptor said.
    pub(crate) unsafe fn run(&self) -> Result<(), Failure> {
        // SAFETY: the caller's promise.
        unsafe {
            infiniccl_reduce::reduce(
                self.dtype,
                self.op,
                self.dst,
                &self.inputs,
                self.count,
                self.factors,
            )
        }
        .map_err(|refused| Failure::new(Status::UNSUPPORTED, refused.to_string()))
    }
}

impl Scaling {
    /// Checks a descriptor; none if there is nothing to do.
    fn new(desc: &ScaleDesc) -> Result<Option<Scaling>, Failure> {
        let dtype = dtype(desc.dtype)?;
        if !dtype.is_float() {
            let text = format!("scaling of {dtype} is not offered");
            return Err(Failure::new(Status::UNSUPPORTED, text));
        }
        let count = elements(desc.count, dtype)?;
        if count == 0 {
            return Ok(None);
        }
        if desc.dst.is_null() || desc.src.is_null() {
            return Err(usage("a scaling from or to a null pointer"));
        }
        let factor = f64::from_bits(desc.factor_bits);
        Ok(Some(Scaling {
            dtype,
            dst: desc.dst,
            src: desc.src,
            count,
            factor,
        }))
    }

    /// Multiplies.
    ///
    /// # Safety
    /// As for [`infiniccl_reduce::scale`], by what the descriptor said.
    pub(crate) unsafe fn run(&self) -> Result<(), Failure> {
        // SAFETY: the caller's promise.
        unsafe { infiniccl_reduce::scale(self.dtype, self.dst, self.src, self.factor, self.count) }
            .map_err(|refused| Failure::new(Status::UNSUPPORTED, refused.to_string()))
    }
}

fn reductions(device: &Device, stream: StreamHandle, list: &[ReduceDesc]) -> Result<(), Failure> {
    let list: Result<Vec<_>, _> = list
        .iter()
        .filter_map(|desc| Reduction::new(desc).transpose())
        .collect();
    device.give(stream, Work::reduce(list?))
}

fn scalings(device: &Device, stream: StreamHandle, list: &[ScaleDesc]) -> Result<(), Failure> {
    let list: Result<Vec<_>, _> = list
        .iter()
        .filter_map(|desc| Scaling::new(desc).transpose())
        .collect();
    device.give(stream, Work::scale(list?))
}

guarded! {
    pub(crate) extern "C" fn reduce(
        device: DeviceHandle,
        stream: StreamHandle,
        list: *const ReduceDesc,
        count: u64,
    ) -> Status {
        let run = || {
            // SAFETY: the core lends the descriptors for this call.
            let list = unsafe { slice(list, count) }.map_err(|_| usage("no reductions: null pointer"))?;
            reductions(device::get(device)?, stream, list)
        };
        run().into()
    }

    pub(crate) extern "C" fn scale(
        device: DeviceHandle,
        stream: StreamHandle,
        list: *const ScaleDesc,
        count: u64,
    ) -> Status {
        let run = || {
            // SAFETY: the core lends the descriptors for this call.
            let list = unsafe { slice(list, count) }.map_err(|_| usage("no scalings: null pointer"))?;
            scalings(device::get(device)?, stream, list)
        };
        run().into()
    }
}
