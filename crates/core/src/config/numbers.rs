//! Readers of booleans, counts, byte sizes, times and port ranges.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::declare::{Codec, Key, Shape};
use super::raw::{Item, Problem, Raw, quoted};

/// `true` or `false`.
pub(crate) struct Flag;

impl Codec for Flag {
    type Value = bool;
    const TYPE: &'static str = "boolean";
    const SHAPE: Shape = Shape::Bool;

    fn choices() -> Vec<&'static str> {
        vec!["true", "false"]
    }

    fn read(item: &Item, _key: &Key) -> Result<bool, Problem> {
        match &item.raw {
            Raw::Bool(value) => Ok(*value),
            Raw::Text(text) => {
                let problem = item.expected("true or false");
                match text.as_str() {
                    "true" | "on" | "yes" | "1" => Err(problem.suggest("write true, without quotes")),
                    "false" | "off" | "no" | "0" => Err(problem.suggest("write false, without quotes")),
                    _ => Err(problem),
                }
            }
            Raw::Integer(0) => Err(item.expected("true or false").suggest("write false")),
            Raw::Integer(1) => Err(item.expected("true or false").suggest("write true")),
            _ => Err(item.expected("true or false")),
        }
    }

    fn show(value: &bool) -> String {
        value.to_string()
    }
}

/// A whole number of things, at most `i64::MAX`.
pub(crate) struct Count;

impl Codec for Count {
    type Value = u64;
    const TYPE: &'static str = "integer";
    const SHAPE: Shape = Shape::Number;

    fn read(item: &Item, key: &Key) -> Result<u64, Problem> {
        let Raw::Integer(value) = item.raw else {
            return Err(without_unit(item, "an integer"));
        };
        whole(value, key).map_err(|p| p.at(&item.span))
    }

    fn show(value: &u64) -> String {
        value.to_string()
    }
}

/// A count, or `"unlimited"`, which is `u64::MAX`.
pub(crate) struct CountLimit;

impl Codec for CountLimit {
    type Value = u64;
    const TYPE: &'static str = "integer or \"unlimited\"";
    const SHAPE: Shape = Shape::Number;

    fn read(item: &Item, key: &Key) -> Result<u64, Problem> {
        match &item.raw {
            Raw::Text(text) if text == UNLIMITED => Ok(u64::MAX),
            Raw::Integer(_) => Count::read(item, key),
            _ => Err(without_unit(item, "an integer or \"unlimited\"")),
        }
    }

    fn show(value: &u64) -> String {
        if *value == u64::MAX {
            quoted(UNLIMITED)
        } else {
            Count::show(value)
        }
    }
}

/// A signed rank among equals.
pub(crate) struct Priority;

impl Codec for Priority {
    type Value = i64;
    const TYPE: &'static str = "integer";
    const SHAPE: Shape = Shape::Number;

    fn read(item: &Item, key: &Key) -> Result<i64, Problem> {
        let Raw::Integer(value) = item.raw else {
            return Err(without_unit(item, "an integer"));
        };
        key.check_range(value as f64).map_err(|p| p.at(&item.span))?;
        i64::try_from(value).map_err(|_| item.expected("an integer of 64 bits"))
    }

    fn show(value: &i64) -> String {
        value.to_string()
    }
}

/// A number of bytes: an integer, or a string with the suffix K, M or G for powers of 1024.
pub(crate) struct Bytes;

impl Codec for Bytes {
    type Value = u64;
    const TYPE: &'static str =
        "bytes: an integer, or a string such as \"64K\", \"4M\", \"1G\" (powers of 1024)";
    const SHAPE: Shape = Shape::Number;

    fn number(value: f64) -> String {
        // The declared limits are exact in a float and positive.
        size_text(value as u64)
    }

    fn read(item: &Item, key: &Key) -> Result<u64, Problem> {
        match &item.raw {
            Raw::Integer(value) => whole(*value, key).map_err(|p| p.at(&item.span)),
            Raw::Text(text) => {
                let bytes = parse_size(text).map_err(|p| p.at(&item.span))?;
                key.check_range(bytes as f64).map_err(|p| p.at(&item.span))?;
                Ok(bytes)
            }
            _ => Err(item
                .expected("a number of bytes")
                .suggest("write an integer, or a string such as \"4M\"")),
        }
    }

    fn show(value: &u64) -> String {
        let text = size_text(*value);
        if text.ends_with(|c: char| c.is_ascii_digit()) {
            text
        } else {
            quoted(&text)
        }
    }
}

/// A number of bytes, or `"unlimited"`, which is `u64::MAX`.
pub(crate) struct BytesLimit;

impl Codec for BytesLimit {
    type Value = u64;
    const TYPE: &'static str = "bytes or \"unlimited\"";
    const SHAPE: Shape = Shape::Number;

    fn number(value: f64) -> String {
        Bytes::number(value)
    }

    fn read(item: &Item, key: &Key) -> Result<u64, Problem> {
        match &item.raw {
            Raw::Text(text) if text == UNLIMITED => Ok(u64::MAX),
            _ => Bytes::read(item, key),
        }
    }

    fn show(value: &u64) -> String {
        if *value == u64::MAX {
            quoted(UNLIMITED)
        } else {
            Bytes::show(value)
        }
    }
}

/// A time in seconds, fractions allowed.
pub(crate) struct Seconds;

impl Codec for Seconds {
    type Value = Duration;
    const TYPE: &'static str = "seconds";
    const SHAPE: Shape = Shape::Number;

    fn read(item: &Item, key: &Key) -> Result<Duration, Problem> {
        let value = match item.raw {
            Raw::Integer(value) => value as f64,
            Raw::Float(value) => value,
            _ => return Err(without_unit(item, "a number of seconds")),
        };
        key.check_range(value).map_err(|p| {
            let p = p.at(&item.span);
            if value <= 0.0 {
                p.suggest("nothing waits for ever: write the longest time to wait")
            } else {
                p
            }
        })?;
        Duration::try_from_secs_f64(value).map_err(|_| item.expected("a number of seconds"))
    }

    fn show(value: &Duration) -> String {
        format!("{:?}", value.as_secs_f64())
    }
}

/// A time in whole seconds, where the operating system knows no fractions; 0 turns the feature off.
pub(crate) struct WholeSeconds;

impl Codec for WholeSeconds {
    type Value = Duration;
    const TYPE: &'static str = "whole seconds, 0 turns it off";
    const SHAPE: Shape = Shape::Number;

    fn read(item: &Item, key: &Key) -> Result<Duration, Problem> {
        let Raw::Integer(value) = item.raw else {
            return Err(without_unit(item, "a whole number of seconds"));
        };
        whole(value, key)
            .map(Duration::from_secs)
            .map_err(|p| p.at(&item.span))
    }

    fn show(value: &Duration) -> String {
        value.as_secs().to_string()
    }
}

/// The ports that listeners may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortRange(Option<RangeInclusive<u16>>);

impl PortRange {
    /// Any free port.
    pub const ANY: PortRange = PortRange(None);

    /// The ports `first` to `last`, both included.
    pub fn new(first: u16, last: u16) -> Self {
        PortRange(Some(first..=last))
    }

    /// The first and the last port; `None` where any free port will do.
    pub fn bounds(&self) -> Option<(u16, u16)> {
        self.0.as_ref().map(|range| (*range.start(), *range.end()))
    }

    /// The ports to try to bind, in order; a single 0, which lets the system choose, where any will do.
    pub fn candidates(&self) -> impl Iterator<Item = u16> + use<> {
        self.0.clone().unwrap_or(0..=0)
    }
}

/// Reads a [`PortRange`].
pub(crate) struct Ports;

impl Codec for Ports {
    type Value = PortRange;
    const TYPE: &'static str = "string: \"any\", or the first and the last port as in \"40000-40100\"";
    const SHAPE: Shape = Shape::Text;

    fn read(item: &Item, _key: &Key) -> Result<PortRange, Problem> {
        const FORM: &str = "write \"any\", or the first and the last port as in \"40000-40100\"";
        let Raw::Text(text) = &item.raw else {
            return Err(item.expected("a string with a range of ports").suggest(FORM));
        };
        if text == "any" {
            return Ok(PortRange::ANY);
        }
        let port = |part: &str| part.trim().parse::<u16>().ok().filter(|port| *port > 0);
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        match (port(first), port(last)) {
            (Some(first), Some(last)) if first <= last => Ok(PortRange::new(first, last)),
            (Some(first), Some(last)) => {
                let problem = Problem::new(format!("the range {first}-{last} is empty")).at(&item.span);
                Err(problem.suggest(format!("write \"{last}-{first}\"")))
            }
            _ => Err(item.expected("ports between 1 and 65535").suggest(FORM)),
        }
    }

    fn show(value: &PortRange) -> String {
        match value.bounds() {
            None => quoted("any"),
            Some((first, last)) => quoted(&format!("{first}-{last}")),
        }
    }
}

const UNLIMITED: &str = "unlimited";

fn whole(value: i128, key: &Key) -> Result<u64, Problem> {
    key.check_range(value as f64)?;
    let value = i64::try_from(value)
        .map_err(|_| Problem::new(format!("{value} is too large, the most is {}", i64::MAX)))?;
    u64::try_from(value).map_err(|_| Problem::new(format!("{value} is negative")))
}

/// The problem of a text where a bare number is asked for, with the number to write if the text has one.
fn without_unit(item: &Item, what: &str) -> Problem {
    let problem = item.expected(what);
    let Raw::Text(text) = &item.raw else {
        return problem;
    };
    let text = text.trim();
    if let Ok(value) = text.parse::<f64>() {
        return if value.is_finite() {
            problem.suggest(format!("write {text}, without quotes"))
        } else {
            problem.suggest("write a finite number")
        };
    }
    let split = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let Ok(value) = digits.parse::<f64>() else {
        return problem;
    };
    let seconds = what.contains("seconds");
    let factor = match unit.trim() {
        "ms" if seconds => 1e-3,
        "s" | "sec" | "second" | "seconds" if seconds => 1.0,
        "m" | "min" | "minutes" if seconds => 60.0,
        "h" | "hour" | "hours" if seconds => 3600.0,
        _ => return problem.suggest("write a number without a unit and without quotes"),
    };
    problem.suggest(format!(
        "write {}, without a unit: the unit is seconds",
        value * factor
    ))
}

/// A number of bytes from `65536`, `64K`, `64KiB`, `4M`, `1G`; K, M and G are powers of 1024.
///
/// Decimal units such as `MB` are refused, since readers disagree about what they mean.
pub(crate) fn parse_size(text: &str) -> Result<u64, Problem> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let unit = unit.trim();
    let wrong = || {
        Problem::new(format!(
            "expected a number of bytes, found the string {}",
            quoted(text)
        ))
    };
    let number: u64 = digits.parse().map_err(|_| {
        wrong().suggest("write an integer, or a string such as \"4M\" (K, M, G: powers of 1024)")
    })?;
    let shift = match unit {
        "" | "B" => 0,
        "K" | "k" | "KiB" => 10,
        "M" | "m" | "MiB" => 20,
        "G" | "g" | "GiB" => 30,
        "KB" | "kB" | "MB" | "GB" => {
            let letter = unit[..1].to_ascii_uppercase();
            let power = match letter.as_str() {
                "K" => 1,
                "M" => 2,
                _ => 3,
            };
            let problem = Problem::new(format!("the unit of {} can be read in two ways", quoted(text)));
            return Err(problem.suggest(format!(
                "write \"{number}{letter}\" for {}, or {} for decimal bytes",
                format_args!("{number} × 1024^{power} bytes"),
                u128::from(number) * 1000_u128.pow(power)
            )));
        }
        _ => return Err(wrong().suggest("the units are K, M and G: powers of 1024")),
    };
    number
        .checked_mul(1 << shift)
        .filter(|bytes| i64::try_from(*bytes).is_ok())
        .ok_or_else(|| Problem::new(format!("{} is too large", quoted(text))))
}

/// The shortest exact text of a number of bytes.
pub(crate) fn size_text(bytes: u64) -> String {
    for (shift, unit) in [(30, "G"), (20, "M"), (10, "K")] {
        if bytes > 0 && bytes.trailing_zeros() >= shift {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}
