//! Ties Rust types to the data types they are sent as.

use crate::{DataType, F8E4M3, F8E5M2};

/// A Rust type whose values are elements of a buffer.
///
/// # Safety
/// `size_of::<Self>()` equals `Self::DTYPE.size()`, the type has no padding, and every value that a reduction of
/// `DTYPE` writes is a valid value of the type. For every type but [`bool`] all bit patterns are valid; a `bool`
/// buffer may only be filled with bytes 0 and 1, which is what reductions write, while bytes that were copied
/// from elsewhere have to be normalised first.
pub unsafe trait Element: Copy + Send + Sync + 'static {
    /// The data type of the element.
    const DTYPE: DataType;
}

macro_rules! element {
    ($($type:ty => $dtype:ident),+ $(,)?) => {$(
        // SAFETY: size and representation are those that `DataType` documents, checked by the assertion.
        unsafe impl Element for $type {
            const DTYPE: DataType = {
                assert!(size_of::<$type>() == DataType::$dtype.size());
                DataType::$dtype
            };
        }
    )+};
}

element! {
    i8 => Int8,
    i16 => Int16,
    i32 => Int32,
    i64 => Int64,
    u8 => Uint8,
    u16 => Uint16,
    u32 => Uint32,
    u64 => Uint64,
    half::f16 => Float16,
    half::bf16 => BFloat16,
    f32 => Float32,
    f64 => Float64,
    F8E4M3 => Float8E4M3,
    F8E5M2 => Float8E5M2,
    bool => Bool,
}
