//! Multiplication of one buffer by a scalar.

use infiniccl_reduce::{DataType, Unsupported, premul, scale};

use crate::{on_each_isa, oracle, values};

const COUNT: usize = 70;

/// Runs an operation out of place and in place, for every tail, and compares with `wanted`.
fn check(
    dtype: DataType,
    source: &[u8],
    wanted: &[u8],
    context: &str,
    operation: impl Fn(*mut u8, *const u8, usize) -> Result<(), Unsupported>,
) {
    for count in 0..=source.len() / dtype.size() {
        let bytes = count * dtype.size();
        let mut apart = vec![0x77; source.len()];
        operation(apart.as_mut_ptr(), source.as_ptr(), count).expect("a defined operation");
        assert_eq!(
            apart[..bytes],
            wanted[..bytes],
            "{dtype} {context}, {count} elements"
        );
        assert!(
            apart[bytes..].iter().all(|&byte| byte == 0x77),
            "{dtype} {context}, {count} elements: too many"
        );
        let mut inside = source.to_vec();
        let place = inside.as_mut_ptr();
        operation(place, place, count).expect("a defined operation");
        assert_eq!(
            inside[..bytes],
            wanted[..bytes],
            "{dtype} {context}, {count} elements in place"
        );
        assert_eq!(
            inside[bytes..],
            source[bytes..],
            "{dtype} {context}, {count} elements in place: too many"
        );
    }
}

fn scaled(dtype: DataType, source: &[u8], factor: f64) -> Vec<u8> {
    let product = |element| {
        oracle::rounded(
            dtype,
            oracle::decode(dtype, element) * oracle::rounded(dtype, factor),
        )
    };
    source
        .chunks(dtype.size())
        .flat_map(|element| oracle::encode(dtype, product(element)))
        .collect()
}

#[test]
fn scale_multiplies_floats_with_one_rounding() {
    on_each_isa(|isa| {
        for dtype in DataType::ALL.iter().copied().filter(|dtype| dtype.is_float()) {
            let source = values::elements(dtype, 3, COUNT);
            for factor in [1.0, 0.125, -1.0 / 3.0, 1e30, 0.0, f64::INFINITY, f64::NAN] {
                let wanted = scaled(dtype, &source, factor);
                check(
                    dtype,
                    &source,
                    &wanted,
                    &format!("times {factor} on {isa}"),
                    |dst, src, count| {
                        // SAFETY: both buffers hold `count` elements.
                        unsafe { scale(dtype, dst, src, factor, count) }
                    },
                );
            }
        }
    });
}

#[test]
fn premul_multiplies_by_a_scalar_of_the_type() {
    on_each_isa(|isa| {
        for dtype in DataType::ALL
            .iter()
            .copied()
            .filter(|&dtype| dtype != DataType::Bool)
        {
            let source = values::elements(dtype, 5, COUNT);
            for scalar in values::elements(dtype, 6, 12).chunks(dtype.size()) {
                let wanted: Vec<u8> = if dtype.is_float() {
                    scaled(dtype, &source, oracle::decode(dtype, scalar))
                } else {
                    let factor = oracle::integer(dtype, scalar);
                    let product = |element| oracle::integer(dtype, element).wrapping_mul(factor);
                    source
                        .chunks(dtype.size())
                        .flat_map(|e| oracle::wrapped(dtype, product(e)))
                        .collect()
                };
                // What lies above the bytes of the scalar must not matter.
                let mut word = [0xdd; 8];
                word[..scalar.len()].copy_from_slice(scalar);
                let bits = u64::from_le_bytes(word);
                check(
                    dtype,
                    &source,
                    &wanted,
                    &format!("times {scalar:?} on {isa}"),
                    |dst, src, count| {
                        // SAFETY: both buffers hold `count` elements.
                        unsafe { premul(dtype, dst, src, bits, count) }
                    },
                );
            }
        }
    });
}

#[test]
fn types_without_the_operation_are_refused_and_nothing_is_written() {
    let source = [1u8; 8];
    let mut target = [9u8; 8];
    let dst = target.as_mut_ptr();
    for &dtype in DataType::ALL {
        if !dtype.is_float() {
            // SAFETY: refused before anything is touched.
            let refused = unsafe { scale(dtype, dst, source.as_ptr(), 2.0, 1) };
            assert_eq!(
                refused,
                Err(Unsupported {
                    operation: "scale",
                    dtype
                })
            );
        }
    }
    // SAFETY: as above.
    let refused = unsafe { premul(DataType::Bool, dst, source.as_ptr(), 1, 1) };
    assert_eq!(
        refused,
        Err(Unsupported {
            operation: "premul",
            dtype: DataType::Bool
        })
    );
    assert_eq!(target, [9; 8]);
}
