//! The loops over elements, compiled once for each fold and instruction set.

use std::ptr;

use crate::accumulator::{Accumulator, Block};
use crate::binary16::Half;
use crate::fold::Fold;
use crate::isa::{Isa, Task};

/// One input of a reduction.
#[derive(Debug, Clone, Copy)]
pub struct Input {
    /// The first element; any alignment.
    pub ptr: *const u8,
    /// Whether elements are multiplied by [`Factors::pre`](crate::Factors::pre) as they are loaded.
    pub pre: bool,
}

/// What a kernel works on.
#[derive(Clone, Copy)]
pub(crate) struct Job<'a> {
    pub(crate) dst: *mut u8,
    pub(crate) inputs: &'a [Input],
    pub(crate) count: usize,
}

/// Combines the inputs of a job by `fold`.
///
/// # Safety
/// `dst` is valid for writes and every input for reads of `count` elements, at any alignment; `dst` equals an input or
/// overlaps none. There is at least one input.
#[inline]
pub(crate) unsafe fn run<F: Fold>(job: Job<'_>, fold: F) {
    // SAFETY: the same contract; the current set is one that the processor has.
    unsafe {
        if job.inputs.len() > 2 {
            Isa::current().run(Reduction::<F, true> { fold, job });
        } else {
            Isa::current().run(Reduction::<F, false> { fold, job });
        }
    }
}

/// Of `MANY` inputs, more than two, or of few: apart, since setting up the stack for blocks of accumulators takes
/// longer than a small sum.
struct Reduction<'a, F, const MANY: bool> {
    fold: F,
    job: Job<'a>,
}

impl<F: Fold, const MANY: bool> Task for Reduction<'_, F, MANY> {
    #[inline(always)]
    unsafe fn run<H: Half>(self) {
        let Reduction {
            fold,
            job: Job { dst, inputs, count },
        } = self;
        let group = size_of::<F::Elem<H>>() / size_of::<<F::Single as Fold>::Elem<H>>();
        let (groups, rest) = (count / group, count % group);
        let skipped = groups * size_of::<F::Elem<H>>();
        // SAFETY: the contract of the function `run`, where the task is made; both parts lie within the buffers.
        unsafe {
            Span::<F, H> {
                fold,
                dst: dst.cast(),
                skipped: 0,
            }
            .reduce::<MANY>(inputs, groups);
            if rest > 0 {
                let dst = dst.add(skipped).cast();
                Span::<F::Single, H> {
                    fold: fold.single(),
                    dst,
                    skipped,
                }
                .reduce::<MANY>(inputs, rest);
            }
        }
    }
}

/// A part of the destination, and the part of each input that belongs to it.
struct Span<F: Fold, H: Half> {
    fold: F,
    dst: *mut F::Elem<H>,
    /// Bytes of each input that come before the part.
    skipped: usize,
}

/// The part of an input that belongs to a span.
struct Source<E> {
    ptr: *const E,
    pre: bool,
}

/// Every method wants the contract of [`run`] for the `count` elements that it is given, and a processor with the
/// instructions of `H`. Where a source is the destination, each element is read before it is written.
impl<F: Fold, H: Half> Span<F, H> {
    #[inline(always)]
    unsafe fn reduce<const MANY: bool>(&self, inputs: &[Input], count: usize) {
        // SAFETY: the contract of the methods.
        unsafe {
            match inputs {
                [a] if !MANY => self.one(a, count),
                [a, b] if !MANY => self.two(a, b, count),
                [a, b, rest @ ..] if MANY => self.in_blocks(a, b, rest, count),
                _ => {}
            }
        }
    }

    #[inline(always)]
    unsafe fn one(&self, a: &Input, count: usize) {
        // SAFETY: the contract of the methods.
        unsafe {
            if self.is_destination(a) {
                self.convert(self.own(a), count);
            } else {
                self.convert(self.source(a, 0), count);
            }
        }
    }

    #[inline(always)]
    unsafe fn two(&self, a: &Input, b: &Input, count: usize) {
        // SAFETY: the contract of the methods.
        unsafe {
            if self.is_destination(a) {
                self.pair(self.own(a), self.source(b, 0), count);
            } else if self.is_destination(b) {
                self.pair(self.own(b), self.source(a, 0), count);
            } else {
                self.pair(self.source(a, 0), self.source(b, 0), count);
            }
        }
    }

    /// The destination as the source: a loop that names it twice is vectorised, while one that is given two pointers
    /// would find that they overlap.
    #[inline(always)]
    fn own(&self, input: &Input) -> Source<F::Elem<H>> {
        Source {
            ptr: self.dst.cast_const(),
            pre: input.pre,
        }
    }

    #[inline(always)]
    unsafe fn source(&self, input: &Input, start: usize) -> Source<F::Elem<H>> {
        // SAFETY: the span and `start` lie within the input.
        let ptr = unsafe { input.ptr.add(self.skipped).cast::<F::Elem<H>>().add(start) };
        Source { ptr, pre: input.pre }
    }

    /// The source of `count` elements where it is not the destination, and else a copy of them in `stash`: a loop
    /// that is given two pointers into one buffer is not vectorised.
    #[inline(always)]
    unsafe fn source_apart(
        &self,
        input: &Input,
        start: usize,
        stash: *mut F::Elem<H>,
        count: usize,
    ) -> Source<F::Elem<H>> {
        // An element takes no more room than its accumulator, whose number is limited by the size of a block.
        const { assert!(size_of::<F::Elem<H>>() <= size_of::<F::Acc<H>>()) };
        // SAFETY: the contract of the methods; the stash is a block, and apart from all buffers.
        unsafe {
            let source = self.source(input, start);
            if !self.is_destination(input) {
                return source;
            }
            let bytes = count * size_of::<F::Elem<H>>();
            ptr::copy_nonoverlapping(source.ptr.cast::<u8>(), stash.cast::<u8>(), bytes);
            Source {
                ptr: stash,
                pre: source.pre,
            }
        }
    }

    #[inline(always)]
    fn is_destination(&self, input: &Input) -> bool {
        input.ptr.wrapping_add(self.skipped) == self.dst.cast_const().cast()
    }

    #[inline(always)]
    unsafe fn load(&self, source: &Source<F::Elem<H>>, index: usize) -> F::Acc<H> {
        // SAFETY: the index is below the count.
        unsafe {
            self.fold
                .load::<H>(source.ptr.add(index).read_unaligned(), source.pre)
        }
    }

    #[inline(always)]
    unsafe fn store(&self, index: usize, acc: F::Acc<H>) {
        // SAFETY: the index is below the count.
        unsafe { self.dst.add(index).write_unaligned(self.fold.finish::<H>(acc)) }
    }

    #[inline(always)]
    unsafe fn convert(&self, a: Source<F::Elem<H>>, count: usize) {
        for index in 0..count {
            // SAFETY: the contract of the methods.
            unsafe { self.store(index, self.load(&a, index)) }
        }
    }

    #[inline(always)]
    unsafe fn pair(&self, a: Source<F::Elem<H>>, b: Source<F::Elem<H>>, count: usize) {
        for index in 0..count {
            // SAFETY: the contract of the methods.
            unsafe {
                let acc = self.fold.combine::<H>(self.load(&a, index), self.load(&b, index));
                self.store(index, acc);
            }
        }
    }

    /// Reads every input once, block by block, with the accumulators of a block in the cache: no loop has more
    /// than two pointers into inputs, and the destination is written last. `rest` is not empty.
    #[inline(always)]
    unsafe fn in_blocks(&self, a: &Input, b: &Input, rest: &[Input], count: usize) {
        let fold = self.fold;
        let mut block = Block::new();
        let block = block.as_mut_ptr::<F::Acc<H>>();
        let mut stash = Block::new();
        let stash = stash.as_mut_ptr::<F::Acc<H>>().cast::<F::Elem<H>>();
        let (middle, last) = rest.split_at((rest.len() - 1) & !1);
        let mut start = 0;
        while start < count {
            let length = F::Acc::<H>::IN_BLOCK.min(count - start);
            // SAFETY: the contract of the methods; every index is below the capacity of the block, and each
            // accumulator is put there by the first loop.
            unsafe {
                let (a, b) = (self.source(a, start), self.source(b, start));
                for index in 0..length {
                    fold.combine::<H>(self.load(&a, index), self.load(&b, index))
                        .put(block, index);
                }
                for [a, b] in middle.as_chunks().0 {
                    let (a, b) = (self.source(a, start), self.source(b, start));
                    for index in 0..length {
                        let acc = fold.combine::<H>(F::Acc::<H>::get(block, index), self.load(&a, index));
                        fold.combine::<H>(acc, self.load(&b, index)).put(block, index);
                    }
                }
                let a = self.source_apart(&last[0], start, stash, length);
                if let Some(b) = last.get(1) {
                    let b = self.source_apart(b, start, stash, length);
                    for index in 0..length {
                        let acc = fold.combine::<H>(F::Acc::<H>::get(block, index), self.load(&a, index));
                        self.store(start + index, fold.combine::<H>(acc, self.load(&b, index)));
                    }
                } else {
                    for index in 0..length {
                        let acc = F::Acc::<H>::get(block, index);
                        self.store(start + index, fold.combine::<H>(acc, self.load(&a, index)));
                    }
                }
            }
            start += length;
        }
    }
}
