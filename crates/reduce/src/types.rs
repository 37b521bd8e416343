//! The data types and reduction operators, with the numeric values that C programs see.

use std::fmt;
use std::str::FromStr;

/// A code or name that stands for no data type or operator of this version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownCode {
    /// What was looked up: `"data type"` or `"reduction operator"`.
    pub what: &'static str,
    /// The value that is not known, as given.
    pub value: String,
}

impl fmt::Display for UnknownCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown {} {}", self.what, self.value)
    }
}

impl std::error::Error for UnknownCode {}

macro_rules! codes {
    ($(#[$doc:meta])* $name:ident, $what:literal, { $($(#[$vdoc:meta])* $variant:ident = $code:literal => $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u32)]
        pub enum $name { $($(#[$vdoc])* $variant = $code,)+ }

        impl $name {
            /// Every value, in the order of the codes.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// The number that the C interface and the plugin ABI use.
            pub const fn code(self) -> u32 { self as u32 }

            /// The name that the command line and the configuration use.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $text,)+ }
            }
        }

        impl TryFrom<u32> for $name {
            type Error = UnknownCode;
            fn try_from(code: u32) -> Result<Self, UnknownCode> {
                match code {
                    $($code => Ok($name::$variant),)+
                    other => Err(UnknownCode { what: $what, value: other.to_string() }),
                }
            }
        }

        impl FromStr for $name {
            type Err = UnknownCode;
            fn from_str(s: &str) -> Result<Self, UnknownCode> {
                match s {
                    $($text => Ok($name::$variant),)+
                    other => Err(UnknownCode { what: $what, value: format!("'{other}'") }),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.pad(self.name()) }
        }
    };
}

codes! {
    /// The type of one element.
    DataType, "data type", {
        /// 8-bit signed integer; `char` in C.
        Int8 = 0 => "int8",
        /// 16-bit signed integer.
        Int16 = 1 => "int16",
        /// 32-bit signed integer.
        Int32 = 2 => "int32",
        /// 64-bit signed integer.
        Int64 = 3 => "int64",
        /// 8-bit unsigned integer.
        Uint8 = 4 => "uint8",
        /// 16-bit unsigned integer.
        Uint16 = 5 => "uint16",
        /// 32-bit unsigned integer.
        Uint32 = 6 => "uint32",
        /// 64-bit unsigned integer.
        Uint64 = 7 => "uint64",
        /// IEEE 754 binary16.
        Float16 = 8 => "float16",
        /// bfloat16: the upper half of a binary32.
        BFloat16 = 9 => "bfloat16",
        /// IEEE 754 binary32.
        Float32 = 10 => "float32",
        /// IEEE 754 binary64.
        Float64 = 11 => "float64",
        /// OCP FP8 E4M3 ("fn": finite and NaN, no infinity).
        Float8E4M3 = 12 => "float8_e4m3",
        /// OCP FP8 E5M2.
        Float8E5M2 = 13 => "float8_e5m2",
        /// One byte, zero or one; every non-zero byte reads as true.
        Bool = 14 => "bool",
    }
}

codes! {
    /// How the elements of all ranks are combined into one.
    ReduceOp, "reduction operator", {
        /// Sum; integers wrap modulo 2^n, bool is a logical or.
        Sum = 0 => "sum",
        /// Product; integers wrap modulo 2^n, bool is a logical and.
        Prod = 1 => "prod",
        /// Maximum; NaN wins, -0 < +0, bool is a logical or.
        Max = 2 => "max",
        /// Minimum; NaN wins, -0 < +0, bool is a logical and.
        Min = 3 => "min",
        /// Arithmetic mean; exact and truncated toward zero for integers, refused for bool.
        Avg = 4 => "avg",
    }
}

impl DataType {
    /// Bytes of one element.
    pub const fn size(self) -> usize {
        use DataType::*;
        match self {
            Int8 | Uint8 | Float8E4M3 | Float8E5M2 | Bool => 1,
            Int16 | Uint16 | Float16 | BFloat16 => 2,
            Int32 | Uint32 | Float32 => 4,
            Int64 | Uint64 | Float64 => 8,
        }
    }

    /// Whether the type is a floating-point type of any width.
    pub const fn is_float(self) -> bool {
        use DataType::*;
        matches!(
            self,
            Float16 | BFloat16 | Float32 | Float64 | Float8E4M3 | Float8E5M2
        )
    }

    /// Whether the type is an integer type; bool is none.
    pub const fn is_integer(self) -> bool {
        use DataType::*;
        matches!(
            self,
            Int8 | Int16 | Int32 | Int64 | Uint8 | Uint16 | Uint32 | Uint64
        )
    }

    /// Whether `op` is defined for this type: everything but AVG of bool.
    pub const fn supports(self, op: ReduceOp) -> bool {
        !matches!((self, op), (DataType::Bool, ReduceOp::Avg))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_that_c_programs_are_compiled_with() {
        let dtypes = [
            ("int8", 1),
            ("int16", 2),
            ("int32", 4),
            ("int64", 8),
            ("uint8", 1),
            ("uint16", 2),
            ("uint32", 4),
            ("uint64", 8),
            ("float16", 2),
            ("bfloat16", 2),
            ("float32", 4),
            ("float64", 8),
            ("float8_e4m3", 1),
            ("float8_e5m2", 1),
            ("bool", 1),
        ];
        for (code, (name, size)) in (0..).zip(dtypes) {
            let dtype = DataType::try_from(code).expect("a data type");
            assert_eq!((dtype.code(), dtype.name(), dtype.size()), (code, name, size));
            assert_eq!(name.parse(), Ok(dtype));
        }
        for (code, name) in (0..).zip(["sum", "prod", "max", "min", "avg"]) {
            let op = ReduceOp::try_from(code).expect("an operator");
            assert_eq!((op.code(), op.to_string().as_str()), (code, name));
            assert_eq!(name.parse(), Ok(op));
        }
        assert_eq!((DataType::ALL.len(), ReduceOp::ALL.len()), (15, 5));
    }

    #[test]
    fn what_is_unknown_is_named() {
        let code = DataType::try_from(15).expect_err("no such code");
        assert_eq!(code.to_string(), "unknown data type 15");
        let name = "Sum".parse::<ReduceOp>().expect_err("no such name");
        assert_eq!(name.to_string(), "unknown reduction operator 'Sum'");
    }
}
