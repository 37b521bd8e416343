//! Options of the configuration for this plugin.

use crate::error::usage;
use infiniccl_plugin_api::Failure;

/// Every key.
const KEYS: [&str; 2] = ["devices", "slot_bytes"];
/// More are of no use to anyone, and each has a name.
const MOST_DEVICES: u32 = 1024;
const MOST_SLOT_BYTES: usize = 1 << 30;

/// Values of the options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Options {
    /// `devices`: how many devices the CPU is shown as. Default 1.
    pub(crate) devices: u32,
    /// `slot_bytes`: shared memory of one rank for collectives. Default: 8 MiB divided by the ranks, 1 MiB at most.
    pub(crate) slot_bytes: Option<usize>,
}

impl Options {
    /// Reads the rows; USAGE names an unknown key's nearest, and what a value must be.
    pub(crate) fn read<'a>(rows: impl Iterator<Item = (&'a str, &'a str)>) -> Result<Options, Failure> {
        let mut options = Options {
            devices: 1,
            slot_bytes: None,
        };
        for (key, value) in rows {
            match key {
                "devices" => {
                    options.devices = value
                        .parse()
                        .ok()
                        .filter(|n| (1..=MOST_DEVICES).contains(n))
                        .ok_or_else(|| wrong(key, value, &format!("a number from 1 to {MOST_DEVICES}")))?;
                }
                "slot_bytes" => {
                    let bytes = value.parse().ok().filter(|n| (1..=MOST_SLOT_BYTES).contains(n));
                    let expected = format!("bytes as a number from 1 to {MOST_SLOT_BYTES}");
                    options.slot_bytes = Some(bytes.ok_or_else(|| wrong(key, value, &expected))?);
                }
                unknown => return Err(unknown_key(unknown)),
            }
        }
        Ok(options)
    }
}

fn wrong(key: &str, value: &str, expected: &str) -> Failure {
    usage(format!("option {key} = '{value}': expected {expected}"))
}

fn unknown_key(key: &str) -> Failure {
    let nearest = KEYS
        .iter()
        .min_by_key(|known| distance(known, key))
        .filter(|known| distance(known, key) <= 3);
    let hint = match nearest {
        Some(known) => format!("did you mean '{known}'?"),
        None => format!("known are {}", KEYS.join(", ")),
    };
    usage(format!("option '{key}' is unknown to the host plugin; {hint}"))
}

/// Levenshtein distance in bytes.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_checked_and_unknown_keys_get_the_nearest() {
        let read = |rows: &[(&'static str, &'static str)]| Options::read(rows.iter().copied());
        assert_eq!(
            read(&[]),
            Ok(Options {
                devices: 1,
                slot_bytes: None
            })
        );
        let set = read(&[("devices", "4"), ("slot_bytes", "65536")]);
        assert_eq!(
            set,
            Ok(Options {
                devices: 4,
                slot_bytes: Some(65536)
            })
        );
        for (key, value, part) in [
            ("devices", "0", "from 1 to"),
            ("devices", "many", "'many'"),
            ("slot_bytes", "64k", "bytes as a number"),
            ("slot_byte", "1", "did you mean 'slot_bytes'"),
            ("device", "1", "did you mean 'devices'"),
            ("colour", "1", "known are devices, slot_bytes"),
        ] {
            let failure = read(&[(key, value)]).expect_err("refused");
            assert!(failure.text.contains(part), "{}", failure.text);
        }
    }
}
