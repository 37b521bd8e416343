//! Calls of `reduce` in one stretch of memory that holds the inputs and the destination, with guard bytes around each.

use infiniccl_reduce::{DataType, Factors, Input, ReduceOp, reduce};

use crate::{on_each_isa, oracle};

/// Bytes of the fill before and after each buffer.
const GUARD: usize = 64;

/// A reduction and its right answer.
pub(crate) struct Case {
    dtype: DataType,
    op: ReduceOp,
    inputs: Vec<Vec<u8>>,
    pre: Vec<bool>,
    factors: Factors,
    expected: Vec<u8>,
}

/// Where the buffers of a call lie.
#[derive(Clone, Copy, Default)]
pub(crate) struct Placed {
    /// Elements, of those that the case has.
    pub(crate) count: usize,
    /// Bytes from a boundary of 64 bytes to buffer `i`: `offset + i * stagger`.
    pub(crate) offset: usize,
    pub(crate) stagger: usize,
    /// The input that is the destination as well.
    pub(crate) in_place: Option<usize>,
}

impl Case {
    /// Inputs of one length, not scaled.
    pub(crate) fn new(dtype: DataType, op: ReduceOp, inputs: Vec<Vec<u8>>) -> Self {
        let pre = vec![false; inputs.len()];
        Self::scaled(dtype, op, inputs, pre, Factors::NONE)
    }

    /// Inputs of one length, with factors on those that `pre` names and on the result.
    pub(crate) fn scaled(
        dtype: DataType,
        op: ReduceOp,
        inputs: Vec<Vec<u8>>,
        pre: Vec<bool>,
        factors: Factors,
    ) -> Self {
        let size = dtype.size();
        let element = |index: usize| {
            let column: Vec<_> = inputs
                .iter()
                .map(|input| &input[index * size..][..size])
                .collect();
            oracle::reduce(dtype, op, &column, &pre, factors)
        };
        let expected = (0..inputs[0].len() / size).flat_map(element).collect();
        Self {
            dtype,
            op,
            inputs,
            pre,
            factors,
            expected,
        }
    }

    /// Elements of each input.
    pub(crate) fn count(&self) -> usize {
        self.expected.len() / self.dtype.size()
    }

    /// The bytes of the result.
    pub(crate) fn expected(&self) -> &[u8] {
        &self.expected
    }

    /// Makes the call on every instruction set and compares the whole memory with what it must be.
    pub(crate) fn check(&self, placed: Placed) {
        on_each_isa(|isa| self.check_here(placed, isa));
    }

    fn check_here(
        &self,
        Placed {
            count,
            offset,
            stagger,
            in_place,
        }: Placed,
        isa: &str,
    ) {
        let Case {
            dtype,
            op,
            inputs,
            pre,
            factors,
            expected,
        } = self;
        let bytes = count * dtype.size();
        let slots = inputs.len() + usize::from(in_place.is_none());
        let space = (GUARD + offset + stagger * slots + bytes + GUARD).next_multiple_of(64);
        let mut memory = vec![0u8; slots * space + 64];
        let base = memory.as_ptr().align_offset(64);
        let place = |slot: usize| base + slot * space + GUARD + offset + slot * stagger;
        memory
            .iter_mut()
            .enumerate()
            .for_each(|(at, byte)| *byte = 0xa5 ^ at as u8);
        for (slot, input) in inputs.iter().enumerate() {
            memory[place(slot)..][..bytes].copy_from_slice(&input[..bytes]);
        }
        let dst = place(in_place.unwrap_or(inputs.len()));
        let mut wanted = memory.clone();
        wanted[dst..][..bytes].copy_from_slice(&expected[..bytes]);

        let start = memory.as_mut_ptr();
        let input = |slot: usize| Input {
            ptr: start.wrapping_add(place(slot)),
            pre: pre[slot],
        };
        let list: Vec<_> = (0..inputs.len()).map(input).collect();
        // SAFETY: every buffer has `count` elements, and they overlap only where the destination is an input.
        unsafe { reduce(*dtype, *op, start.add(dst), &list, count, *factors) }.expect("a defined reduction");
        if let Some(at) = (0..memory.len()).find(|&at| memory[at] != wanted[at]) {
            let inside = at.wrapping_sub(dst);
            let place = if inside < bytes {
                format!("element {}", inside / dtype.size())
            } else {
                "a guard".into()
            };
            panic!(
                "{dtype} {op} on {isa}: {} inputs, {count} elements, offset {offset} + {stagger} bytes, in place \
                 {in_place:?}: {place} is wrong (byte {at} is {:#x}, not {:#x})",
                inputs.len(),
                memory[at],
                wanted[at],
            );
        }
    }
}
