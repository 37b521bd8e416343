//! The rows of the configuration and of the core: what they mean, and which ones are mistakes.

use crate::error::{Result, usage};
use infiniccl_plugin_api::worker_option;
use std::fmt;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};

/// Bytes of the secret.
const SECRET: usize = 32;
/// Seconds of silence before keepalive probes, where no row says otherwise.
const DEFAULT_KEEPALIVE: u32 = 30;
/// Rows of the configuration: the sizes of the kernel's buffers per connection, in bytes; absent: its own tuning.
const SNDBUF: &str = "sndbuf";
const RCVBUF: &str = "rcvbuf";

/// Every key that is understood, those of the configuration first.
const KEYS: [&str; 9] = [
    SNDBUF,
    RCVBUF,
    worker_option::KEY,
    worker_option::AUTH,
    worker_option::RANK,
    worker_option::SIZE,
    worker_option::ADDRESSES,
    worker_option::PORT_RANGE,
    worker_option::KEEPALIVE,
];

/// How the two ends of a connection trust each other.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Secret {
    /// Both prove that they know these bytes.
    Key([u8; SECRET]),
    /// The operator chose to run without proofs.
    Nothing,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Secret::Key(_) => "Key(..)",
            Secret::Nothing => "Nothing",
        })
    }
}

/// What a worker was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) secret: Secret,
    /// Where to listen, best first, ports still zero; empty: everywhere.
    pub(crate) addresses: Vec<SocketAddr>,
    /// First and last port to listen on.
    pub(crate) port_range: Option<(u16, u16)>,
    /// Seconds of silence before keepalive probes; zero: none.
    pub(crate) keepalive: u32,
    pub(crate) send_buffer: Option<usize>,
    pub(crate) receive_buffer: Option<usize>,
}

/// Whether an unknown key ends the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unknown {
    /// The rows are the operator's own, so an unknown key is a mistake.
    Refuse,
    /// Rows of the core are among them, and a newer core may know more keys; only near misses are mistakes.
    RefuseNearMisses,
}

/// Checks the operator's rows alone, as far as that is possible without those of the core.
pub(crate) fn check<'a>(rows: impl Iterator<Item = (&'a str, &'a str)>) -> Result<()> {
    parse(rows, Unknown::Refuse).map(drop)
}

impl Options {
    /// Reads the rows that a worker is opened with.
    pub(crate) fn read<'a>(rows: impl Iterator<Item = (&'a str, &'a str)>) -> Result<Self> {
        let parsed = parse(rows, Unknown::RefuseNearMisses)?;
        let secret = match (parsed.without_proofs, parsed.key) {
            (true, _) => Secret::Nothing,
            (false, Some(key)) => Secret::Key(key),
            (false, None) => {
                return Err(usage(
                    "no auth_key was given: connections prove a secret to each other unless auth = \"none\" is chosen",
                ));
            }
        };
        Ok(Self {
            secret,
            addresses: parsed.addresses,
            port_range: parsed.port_range,
            keepalive: parsed.keepalive.unwrap_or(DEFAULT_KEEPALIVE),
            send_buffer: parsed.send_buffer,
            receive_buffer: parsed.receive_buffer,
        })
    }
}

#[derive(Default)]
struct Parsed {
    key: Option<[u8; SECRET]>,
    without_proofs: bool,
    addresses: Vec<SocketAddr>,
    port_range: Option<(u16, u16)>,
    keepalive: Option<u32>,
    send_buffer: Option<usize>,
    receive_buffer: Option<usize>,
}

fn parse<'a>(rows: impl Iterator<Item = (&'a str, &'a str)>, unknown: Unknown) -> Result<Parsed> {
    let mut parsed = Parsed::default();
    for (key, value) in rows {
        match key {
            worker_option::KEY => parsed.key = Some(secret(value)?),
            worker_option::AUTH => parsed.without_proofs = value == "none",
            // Ranks come with each channel; here they only have to be numbers.
            worker_option::RANK | worker_option::SIZE => drop(number::<u32>(key, value)?),
            worker_option::ADDRESSES => parsed.addresses = addresses(value)?,
            worker_option::PORT_RANGE => parsed.port_range = Some(port_range(value)?),
            worker_option::KEEPALIVE => parsed.keepalive = Some(number(key, value)?),
            SNDBUF => parsed.send_buffer = Some(number(key, value)?),
            RCVBUF => parsed.receive_buffer = Some(number(key, value)?),
            _ => {
                let (nearest, distance) = nearest(key);
                if unknown == Unknown::Refuse || distance <= 2 {
                    return Err(usage(format!(
                        "net-tcp has no option `{key}`; did you mean `{nearest}`? It knows {}",
                        KEYS.join(", ")
                    )));
                }
            }
        }
    }
    Ok(parsed)
}

fn number<T: std::str::FromStr>(key: &str, value: &str) -> Result<T> {
    value
        .trim()
        .parse()
        .map_err(|_| usage(format!("option `{key}` of net-tcp takes a number, not `{value}`")))
}

fn secret(value: &str) -> Result<[u8; SECRET]> {
    let digit = |byte: u8| {
        char::from(byte)
            .to_digit(16)
            .and_then(|digit| u8::try_from(digit).ok())
    };
    let mut key = [0; SECRET];
    let digits = value.as_bytes();
    let whole = digits.len() == 2 * SECRET;
    for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
        let (Some(high), Some(low), true) = (digit(pair[0]), digit(pair[1]), whole) else {
            return Err(usage("auth_key holds something other than hexadecimal digits"));
        };
        *byte = high << 4 | low;
    }
    match whole {
        true => Ok(key),
        false => Err(usage(format!(
            "auth_key takes 64 hexadecimal digits; there are {}",
            digits.len()
        ))),
    }
}

/// Reads `10.0.0.1, fe80::1%eth0, [fd00::2]`.
fn addresses(value: &str) -> Result<Vec<SocketAddr>> {
    let mut found = Vec::new();
    for text in value.split(',').map(str::trim).filter(|text| !text.is_empty()) {
        let address = address(text)?;
        if !found.contains(&address) {
            found.push(address);
        }
    }
    Ok(found)
}

fn address(text: &str) -> Result<SocketAddr> {
    let wrong = || {
        usage(format!(
            "option `addresses` of net-tcp takes IP addresses, not `{text}`"
        ))
    };
    let bare = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(text);
    let (ip, zone) = match bare.split_once('%') {
        Some((ip, zone)) => (ip, Some(zone)),
        None => (bare, None),
    };
    match (ip.parse::<IpAddr>().map_err(|_| wrong())?, zone) {
        (IpAddr::V4(ip), None) => Ok(SocketAddr::from((ip, 0))),
        (IpAddr::V4(_), Some(_)) => Err(wrong()),
        (IpAddr::V6(ip), None) => Ok(SocketAddr::V6(SocketAddrV6::new(ip, 0, 0, 0))),
        (IpAddr::V6(ip), Some(zone)) => {
            let scope = match zone.parse() {
                Ok(index) => index,
                Err(_) => crate::interfaces::index(zone).ok_or_else(|| {
                    usage(format!(
                        "address `{text}` names the interface `{zone}`, which is not there"
                    ))
                })?,
            };
            Ok(SocketAddr::V6(SocketAddrV6::new(ip, 0, 0, scope)))
        }
    }
}

fn port_range(value: &str) -> Result<(u16, u16)> {
    let ends = value.split_once('-').unwrap_or((value, value));
    match (ends.0.trim().parse::<u16>(), ends.1.trim().parse::<u16>()) {
        (Ok(low), Ok(high)) if low > 0 && low <= high => Ok((low, high)),
        _ => Err(usage(format!(
            "option `port_range` of net-tcp takes LOW-HIGH with ports from 1 to 65535, not `{value}`"
        ))),
    }
}

/// The known key that is the fewest edits away, and how many those are.
fn nearest(key: &str) -> (&'static str, usize) {
    KEYS.iter()
        .map(|known| (*known, distance(key, known)))
        .min_by_key(|(_, distance)| *distance)
        .expect("the list is not empty")
}

/// Levenshtein distance, ASCII case ignored.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<u8> = b.bytes().map(|byte| byte.to_ascii_lowercase()).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, byte) in a.bytes().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, other) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(byte.to_ascii_lowercase() != *other);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use infiniccl_plugin_api::Status;

    const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1eFF";

    fn read(rows: &[(&str, &str)]) -> Result<Options> {
        Options::read(rows.iter().copied())
    }

    #[test]
    fn all_rows_are_understood() {
        let options = read(&[
            ("auth_key", KEY),
            ("rank", "3"),
            ("size", "8"),
            ("addresses", " 10.0.0.1, fe80::1%1 ,[fd00::2],10.0.0.1"),
            ("port_range", "5000-5009"),
            ("keepalive_s", "0"),
            ("sndbuf", "4096"),
        ])
        .unwrap();
        let Secret::Key(key) = options.secret else {
            panic!("a key was given")
        };
        assert_eq!((key[0], key[1], key[31]), (0, 1, 0xff));
        let text: Vec<String> = options.addresses.iter().map(ToString::to_string).collect();
        assert_eq!(text, ["10.0.0.1:0", "[fe80::1%1]:0", "[fd00::2]:0"]);
        assert_eq!(options.port_range, Some((5000, 5009)));
        assert_eq!(
            (options.keepalive, options.send_buffer, options.receive_buffer),
            (0, Some(4096), None)
        );
    }

    #[test]
    fn secrets_are_asked_for_and_never_shown() {
        assert!(read(&[]).unwrap_err().text.contains("auth_key"));
        assert_eq!(read(&[("auth", "none")]).unwrap().secret, Secret::Nothing);
        let options = read(&[("auth_key", KEY)]).unwrap();
        assert_eq!(options.keepalive, DEFAULT_KEEPALIVE);
        assert!(
            format!("{options:?}").contains("Key(..)"),
            "neither digits nor bytes of the key"
        );
        for wrong in ["", "00", &KEY[1..], &KEY.replace('a', "x"), &"é".repeat(32)] {
            let error = read(&[("auth_key", wrong)]).unwrap_err();
            assert_eq!(error.status, Status::USAGE);
            assert!(wrong.is_empty() || !error.text.contains(wrong), "{}", error.text);
        }
    }

    #[test]
    fn mistakes_name_the_right_key() {
        for (wrong, right) in [
            ("sndbuff", "sndbuf"),
            ("adresses", "addresses"),
            ("PORT_RANGE", "port_range"),
        ] {
            let error = read(&[("auth", "none"), (wrong, "1")]).unwrap_err();
            assert_eq!(error.status, Status::USAGE);
            assert!(
                error.text.contains(&format!("`{wrong}`; did you mean `{right}`")),
                "{}",
                error.text
            );
        }
        assert!(check([("streams", "4")].into_iter()).is_err());
        assert!(read(&[("auth", "none"), ("a_key_of_a_newer_core", "4")]).is_ok());
        for (key, value) in [
            ("addresses", "eth0"),
            ("addresses", "10.0.0.1%1"),
            ("addresses", "fe80::1%no-such-interface"),
            ("port_range", "9-5"),
            ("port_range", "0-5"),
            ("port_range", "70000"),
            ("keepalive_s", "-1"),
            ("rcvbuf", "4MB"),
            ("rank", "x"),
        ] {
            let error = check([(key, value)].into_iter()).unwrap_err();
            assert!(error.text.contains(value), "{}", error.text);
        }
    }
}
