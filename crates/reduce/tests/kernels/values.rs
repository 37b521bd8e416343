//! Data for the tests: different for every rank and index, the same in every run.

use infiniccl_reduce::DataType;

use crate::oracle;

/// A well-mixed number for a place in the data.
fn mixed(dtype: DataType, rank: usize, index: usize) -> u64 {
    let mut state = (u64::from(dtype.code()) << 48) ^ ((rank as u64) << 32) ^ index as u64;
    for _ in 0..3 {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        state ^= state >> 29;
    }
    state
}

/// Elements of which most are ordinary numbers, and one in five is any code at all: subnormal, infinite, NaN.
pub(crate) fn elements(dtype: DataType, rank: usize, count: usize) -> Vec<u8> {
    let element = |index| {
        let random = mixed(dtype, rank, index);
        if dtype.is_float() && !random.is_multiple_of(5) {
            let size = ((random >> 8) % 24) as i32 - 12;
            let value = f64::powi(2.0, size) * (1.0 + (random >> 20) as f64 / f64::powi(2.0, 44));
            oracle::encode(dtype, if random & 64 == 0 { value } else { -value })
        } else if dtype == DataType::Bool && random & 3 != 0 {
            vec![(random >> 8) as u8 & 1]
        } else {
            random.rotate_left(17).to_le_bytes()[..dtype.size()].to_vec()
        }
    };
    (0..count).flat_map(element).collect()
}
