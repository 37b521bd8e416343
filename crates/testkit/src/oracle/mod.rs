//! The right answers: what every rank must hold after every collective, computed here and nowhere else.
//!
//! Integers are computed in 128 bits, floats in 64 bits with a compensated sum; number formats are decoded by
//! code of this module. Nothing is shared with the library under test.

mod case;
mod check;
mod formats;
mod reduction;
mod types;
mod values;

pub use case::{Case, InPlace};
pub use check::Mismatches;
pub use formats::{decode_float, encode_float};
pub use reduction::{Want, combine};
pub use types::{Collective, Dtype, Op};
pub use values::{PERIOD, Values};
