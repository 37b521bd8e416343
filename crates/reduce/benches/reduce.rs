//! Throughput of the hot reductions, in bytes of the destination per second: `cargo bench -p infiniccl-reduce`.

use std::hint::black_box;

use divan::counter::BytesCount;
use divan::{Bencher, Divan};
use infiniccl_reduce::{DataType, Factors, Input, ReduceOp, isa, mean, reduce};

fn main() {
    println!("instruction set: {}", isa());
    Divan::from_args().main();
}

/// Elements that, in 32 bits, fit the second-level cache three times.
const IN_CACHE: usize = 64 << 10;
/// The size that reductions of other libraries are compared at.
const QUARTER_MEBI: usize = 256 << 10;
/// Elements whose buffers fit no cache.
const IN_MEMORY: usize = 16 << 20;

const HOT_TYPES: [DataType; 8] = [
    DataType::Int8,
    DataType::Int32,
    DataType::Int64,
    DataType::Float16,
    DataType::BFloat16,
    DataType::Float32,
    DataType::Float64,
    DataType::Float8E4M3,
];

/// Elements that are ordinary numbers in every type, different in each place: the last byte of a float holds its
/// exponent.
fn buffer(dtype: DataType, count: usize, seed: usize) -> Vec<u8> {
    let size = dtype.size();
    (0..count * size)
        .map(|at| (at * 7 + seed * 13) as u8)
        .enumerate()
        .map(|(at, byte)| {
            if at % size == size - 1 {
                0x38 | byte & 7
            } else {
                byte
            }
        })
        .collect()
}

fn bench_reduce(
    bencher: Bencher<'_, '_>,
    dtype: DataType,
    op: ReduceOp,
    inputs: usize,
    count: usize,
    scaled: bool,
) {
    let buffers: Vec<_> = (0..inputs).map(|seed| buffer(dtype, count, seed)).collect();
    let list: Vec<_> = buffers
        .iter()
        .map(|buffer| Input {
            ptr: buffer.as_ptr(),
            pre: scaled,
        })
        .collect();
    let factors = if scaled {
        Factors {
            pre: 0.25,
            post: 4.0 / 3.0,
        }
    } else {
        Factors::NONE
    };
    let mut dst = vec![0u8; count * dtype.size()];
    bencher.counter(BytesCount::new(dst.len())).bench_local(|| {
        // SAFETY: every buffer holds `count` elements, and the destination is one of its own.
        unsafe { reduce(dtype, op, dst.as_mut_ptr(), black_box(&list), count, factors) }
            .expect("a defined reduction");
    });
}

#[divan::bench(args = HOT_TYPES)]
fn sum_of_2_in_cache(bencher: Bencher<'_, '_>, dtype: DataType) {
    bench_reduce(bencher, dtype, ReduceOp::Sum, 2, IN_CACHE, false);
}

#[divan::bench(args = HOT_TYPES)]
fn sum_of_2(bencher: Bencher<'_, '_>, dtype: DataType) {
    bench_reduce(bencher, dtype, ReduceOp::Sum, 2, QUARTER_MEBI, false);
}

#[divan::bench(args = HOT_TYPES)]
fn sum_in_place(bencher: Bencher<'_, '_>, dtype: DataType) {
    let mut dst = buffer(dtype, QUARTER_MEBI, 0);
    let other = buffer(dtype, QUARTER_MEBI, 1);
    bencher.counter(BytesCount::new(dst.len())).bench_local(|| {
        let place = dst.as_mut_ptr();
        let list = [place.cast_const(), other.as_ptr()].map(|ptr| Input { ptr, pre: false });
        // SAFETY: both buffers hold the elements, and the destination is the first input.
        unsafe {
            reduce(
                dtype,
                ReduceOp::Sum,
                place,
                black_box(&list),
                QUARTER_MEBI,
                Factors::NONE,
            )
        }
        .expect("a defined reduction");
    });
}

#[divan::bench(args = HOT_TYPES)]
fn max_of_2(bencher: Bencher<'_, '_>, dtype: DataType) {
    bench_reduce(bencher, dtype, ReduceOp::Max, 2, QUARTER_MEBI, false);
}

#[divan::bench(args = [DataType::Float32, DataType::Float16, DataType::BFloat16])]
fn scaled_sum_of_2(bencher: Bencher<'_, '_>, dtype: DataType) {
    bench_reduce(bencher, dtype, ReduceOp::Sum, 2, QUARTER_MEBI, true);
}

#[divan::bench(args = [3, 4, 5, 8], consts = [8, 9, 10])]
fn sum_of_many<const DTYPE: u32>(bencher: Bencher<'_, '_>, inputs: usize) {
    let dtype = DataType::try_from(DTYPE).expect("a data type");
    bench_reduce(bencher, dtype, ReduceOp::Sum, inputs, IN_CACHE, false);
}

#[divan::bench(args = [DataType::Float32, DataType::BFloat16])]
fn sum_of_2_in_memory(bencher: Bencher<'_, '_>, dtype: DataType) {
    bench_reduce(bencher, dtype, ReduceOp::Sum, 2, IN_MEMORY, false);
}

#[divan::bench(args = [2, 8, 63])]
fn small_float32_sum_of_2(bencher: Bencher<'_, '_>, count: usize) {
    bench_reduce(bencher, DataType::Float32, ReduceOp::Sum, 2, count, false);
}

#[divan::bench(args = [DataType::Int8, DataType::Int32, DataType::Int64, DataType::Float32])]
fn mean_of_3(bencher: Bencher<'_, '_>, dtype: DataType) {
    let buffers: Vec<_> = (0..3).map(|seed| buffer(dtype, IN_CACHE, seed)).collect();
    let list: Vec<_> = buffers.iter().map(|buffer| buffer.as_ptr()).collect();
    let mut dst = vec![0u8; IN_CACHE * dtype.size()];
    bencher.counter(BytesCount::new(dst.len())).bench_local(|| {
        // SAFETY: every buffer holds the elements, and the destination is one of its own.
        unsafe { mean(dtype, dst.as_mut_ptr(), black_box(&list), IN_CACHE) }.expect("a defined mean");
    });
}
