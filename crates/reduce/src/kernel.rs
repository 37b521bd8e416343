//! The loop over rows of elements, compiled once for each instruction set.

use crate::fold::Fold;
use crate::isa::{Half, Isa, Task};

/// One input of a reduction.
#[derive(Debug, Clone, Copy)]
pub struct Input {
    /// The first element; any alignment.
    pub ptr: *const u8,
    /// Whether elements are multiplied by [`Factors::pre`](crate::Factors::pre) as they are loaded.
    pub pre: bool,
}

/// What a kernel works on, and with which instructions.
#[derive(Clone, Copy)]
pub(crate) struct Job<'a> {
    pub(crate) isa: Isa,
    pub(crate) dst: *mut u8,
    pub(crate) inputs: &'a [Input],
    pub(crate) count: usize,
}

/// Combines the inputs of a job by `fold`, in rows of `N` elements and shorter ones for the rest.
///
/// # Safety
/// The processor has `job.isa`. `dst` is valid for writes and every input for reads of `count` elements, at any
/// alignment; `dst` equals an input or overlaps none. There is at least one input.
#[inline]
pub(crate) unsafe fn run<F: Fold, const N: usize>(job: Job<'_>, fold: F) {
    // SAFETY: the same contract.
    unsafe {
        job.isa.run(Rows::<F, N> {
            fold,
            dst: job.dst,
            inputs: job.inputs,
            count: job.count,
        })
    }
}

struct Rows<'a, F, const N: usize> {
    fold: F,
    dst: *mut u8,
    inputs: &'a [Input],
    count: usize,
}

impl<F: Fold, const N: usize> Task for Rows<'_, F, N> {
    #[inline(always)]
    unsafe fn run<H: Half>(self) {
        // SAFETY: the contract of the function `run`, where the task is made.
        unsafe {
            // Known numbers of inputs have their inner loop unrolled.
            match self.inputs {
                &[a, b] => rows_of_lengths::<F, H, N>(self.fold, self.dst, &[a, b], self.count),
                &[a, b, c] => rows_of_lengths::<F, H, N>(self.fold, self.dst, &[a, b, c], self.count),
                inputs => rows_of_lengths::<F, H, N>(self.fold, self.dst, inputs, self.count),
            }
        }
    }
}

/// # Safety
/// That of [`run`], and the processor has the instructions of `H`.
#[inline(always)]
unsafe fn rows_of_lengths<F: Fold, H: Half, const N: usize>(
    fold: F,
    dst: *mut u8,
    inputs: &[Input],
    count: usize,
) {
    // SAFETY: the contract of this function; each call starts where the one before it has stopped.
    unsafe {
        let mut done = rows::<F, H, N>(fold, dst, inputs, 0, count);
        if done < count {
            done = rows::<F, H, 8>(fold, dst, inputs, done, count);
            rows::<F, H, 1>(fold, dst, inputs, done, count);
        }
    }
}

/// Handles rows of `N` elements from element `start` on while they fit, and returns where it stopped.
///
/// # Safety
/// That of [`run`], the processor has the instructions of `H`, and `start` is at most `count`.
#[inline(always)]
unsafe fn rows<F: Fold, H: Half, const N: usize>(
    fold: F,
    dst: *mut u8,
    inputs: &[Input],
    start: usize,
    count: usize,
) -> usize {
    let dst = dst.cast::<F::Elem>();
    let mut at = start;
    while count - at >= N {
        // SAFETY: elements `at..at + N` lie within the `count` elements that the caller vouches for, and the row
        // is read from every input before it is written, so `dst` may be one of them.
        unsafe {
            let mut acc = load::<F, H, N>(fold, inputs[0], at);
            for input in &inputs[1..] {
                let row = load::<F, H, N>(fold, *input, at);
                for lane in 0..N {
                    acc[lane] = fold.combine(acc[lane], row[lane]);
                }
            }
            dst.add(at)
                .cast::<[F::Elem; N]>()
                .write_unaligned(fold.finish::<H, N>(acc));
        }
        at += N;
    }
    at
}

/// # Safety
/// The input is valid for reads of the `N` elements from `at` on, and the processor has the instructions of `H`.
#[inline(always)]
unsafe fn load<F: Fold, H: Half, const N: usize>(fold: F, input: Input, at: usize) -> [F::Acc; N] {
    // SAFETY: the contract of this function.
    unsafe {
        let row = input
            .ptr
            .cast::<F::Elem>()
            .add(at)
            .cast::<[F::Elem; N]>()
            .read_unaligned();
        fold.load::<H, N>(row, input.pre)
    }
}
