//! The address that a worker gives to its peers, and the order in which a peer tries what it lists.
//!
//! ```text
//! offset  bytes
//!      0      1  version
//!      1      1  number of entries, at most 8
//!      2      2  zero
//!      4     16  identity of the worker, fresh for each
//!     20     24  first entry: family (4 or 6), zero, port (2), scope (4), address (16, IPv4 in the first 4)
//! ```
//! Numbers are little-endian.

use crate::error::{Failure, Result, usage};
use crate::interfaces::{Interface, link_local};
use infiniccl_plugin_api::Status;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Most entries of an address.
pub(crate) const MAX_ENTRIES: usize = 8;
/// Bytes of a worker's identity.
pub(crate) const IDENTITY: usize = 16;

const VERSION: u8 = 1;
const PREAMBLE: usize = 4 + IDENTITY;
const ENTRY: usize = 24;

/// Where a worker can be reached, and which one it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WorkerAddress {
    /// Tells this worker from any other that happens to listen on the same address elsewhere.
    pub(crate) identity: [u8; IDENTITY],
    /// Best first.
    pub(crate) entries: Vec<SocketAddr>,
}

impl WorkerAddress {
    /// The bytes for the peers; entries beyond [`MAX_ENTRIES`] are left out.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let entries = &self.entries[..self.entries.len().min(MAX_ENTRIES)];
        let mut bytes = vec![VERSION, entries.len() as u8, 0, 0];
        bytes.extend_from_slice(&self.identity);
        for entry in entries {
            let (family, scope, ip) = match entry {
                SocketAddr::V4(v4) => {
                    let mut ip = [0; 16];
                    ip[..4].copy_from_slice(&v4.ip().octets());
                    (4, 0, ip)
                }
                SocketAddr::V6(v6) => (6, v6.scope_id(), v6.ip().octets()),
            };
            bytes.extend_from_slice(&[family, 0]);
            bytes.extend_from_slice(&entry.port().to_le_bytes());
            bytes.extend_from_slice(&scope.to_le_bytes());
            bytes.extend_from_slice(&ip);
        }
        bytes
    }

    /// Reads what a peer's worker wrote.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let wrong = |what: &str| usage(format!("not an address of a net-tcp worker: {what}"));
        let (preamble, rest) = bytes
            .split_first_chunk::<PREAMBLE>()
            .ok_or_else(|| wrong("too short"))?;
        if preamble[0] != VERSION {
            return Err(Failure {
                status: Status::UNSUPPORTED,
                text: format!(
                    "the peer's net-tcp writes addresses of version {}, this one reads version {VERSION}; \
                     use the same InfiniCCL on all nodes",
                    preamble[0]
                ),
            });
        }
        let count = usize::from(preamble[1]);
        if count == 0 || count > MAX_ENTRIES || rest.len() != count * ENTRY {
            return Err(wrong("its length and its number of entries disagree"));
        }
        let mut identity = [0; IDENTITY];
        identity.copy_from_slice(&preamble[4..]);
        let entries = rest.chunks_exact(ENTRY).map(entry).collect::<Option<_>>();
        Ok(Self {
            identity,
            entries: entries.ok_or_else(|| wrong("an entry has an unknown family"))?,
        })
    }
}

fn entry(bytes: &[u8]) -> Option<SocketAddr> {
    let port = u16::from_le_bytes([bytes[2], bytes[3]]);
    let scope = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
    match bytes[0] {
        4 => Some(SocketAddr::from((
            Ipv4Addr::from_octets([bytes[8], bytes[9], bytes[10], bytes[11]]),
            port,
        ))),
        6 => {
            let mut ip = [0; 16];
            ip.copy_from_slice(&bytes[8..ENTRY]);
            Some(SocketAddr::V6(SocketAddrV6::new(
                Ipv6Addr::from_octets(ip),
                port,
                0,
                scope,
            )))
        }
        _ => None,
    }
}

/// The order in which to try a peer's entries: those of a subnet of ours, other routable ones, link-local ones
/// through each of our interfaces, loopback.
///
/// A link-local entry carries the scope of the peer's host, which means nothing here unless it is this host.
pub(crate) fn candidates(entries: &[SocketAddr], interfaces: &[Interface]) -> Vec<SocketAddr> {
    let mut ranked: Vec<(u8, SocketAddr)> = Vec::new();
    for entry in entries {
        let ip = entry.ip();
        let own = interfaces.iter().any(|interface| interface.ip == ip);
        match entry {
            _ if ip.is_loopback() => ranked.push((3, *entry)),
            SocketAddr::V6(v6) if link_local(ip) && !own => {
                for interface in interfaces {
                    if matches!(interface.ip, IpAddr::V6(_))
                        && link_local(interface.ip)
                        && !interface.loopback
                    {
                        let through = SocketAddrV6::new(*v6.ip(), v6.port(), 0, interface.index);
                        ranked.push((2, SocketAddr::V6(through)));
                    }
                }
            }
            _ if link_local(ip) => ranked.push((2, *entry)),
            _ => {
                let near = interfaces.iter().any(|interface| interface.reaches(ip));
                ranked.push((if near { 0 } else { 1 }, *entry));
            }
        }
    }
    ranked.sort_by_key(|(class, _)| *class);
    ranked.dedup();
    ranked.into_iter().map(|(_, address)| address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(name: &str, index: u32, ip: &str, prefix: u32) -> Interface {
        let ip: IpAddr = ip.parse().unwrap();
        Interface {
            name: name.into(),
            index,
            ip,
            prefix,
            loopback: ip.is_loopback(),
        }
    }

    #[test]
    fn addresses_survive_the_bootstrap() {
        let entries: Vec<SocketAddr> = ["10.0.0.1:4000", "[fe80::1%7]:4001", "[fd00::2]:65535"]
            .map(|text| text.parse().unwrap())
            .into();
        let address = WorkerAddress {
            identity: *b"0123456789abcdef",
            entries,
        };
        let bytes = address.encode();
        assert_eq!(WorkerAddress::decode(&bytes).unwrap(), address);
        let many = WorkerAddress {
            entries: vec!["[fd00::2]:1".parse().unwrap(); 12],
            ..address.clone()
        };
        let bytes_of_many = many.encode();
        assert!(bytes_of_many.len() <= 256);
        assert_eq!(
            WorkerAddress::decode(&bytes_of_many).unwrap().entries.len(),
            MAX_ENTRIES
        );
        for end in 0..bytes.len() {
            assert!(WorkerAddress::decode(&bytes[..end]).is_err(), "cut at {end}");
        }
        // Any byte may be wrong: the worst is an address that leads nowhere.
        for position in 0..bytes.len() {
            for value in [0, 1, 4, 6, 9, 0xff] {
                let mut wrong = bytes.clone();
                wrong[position] = value;
                drop(WorkerAddress::decode(&wrong));
            }
        }
        let mut newer = bytes.clone();
        newer[0] = 2;
        assert_eq!(
            WorkerAddress::decode(&newer).unwrap_err().status,
            Status::UNSUPPORTED
        );
        let mut foreign = bytes;
        foreign[PREAMBLE] = 9;
        assert_eq!(WorkerAddress::decode(&foreign).unwrap_err().status, Status::USAGE);
    }

    #[test]
    fn near_addresses_are_tried_first() {
        let own = [
            interface("lo", 1, "127.0.0.1", 8),
            interface("eth0", 2, "10.9.0.5", 24),
            interface("eth0", 2, "fe80::5", 64),
            interface("eth1", 3, "fe80::6", 64),
        ];
        let peer: Vec<SocketAddr> = [
            "127.0.0.1:1",
            "[fe80::9%44]:1",
            "172.17.0.1:1",
            "10.9.0.7:1",
            "[fd00::1]:1",
            "10.9.0.8:1",
        ]
        .map(|text| text.parse().unwrap())
        .into();
        let order: Vec<String> = candidates(&peer, &own).iter().map(ToString::to_string).collect();
        assert_eq!(
            order,
            [
                "10.9.0.7:1",
                "10.9.0.8:1",
                "172.17.0.1:1",
                "[fd00::1]:1",
                "[fe80::9%2]:1",
                "[fe80::9%3]:1",
                "127.0.0.1:1"
            ]
        );
        // On the same host the scope means the same interface.
        let here: Vec<SocketAddr> = vec!["[fe80::6%3]:1".parse().unwrap()];
        assert_eq!(candidates(&here, &own), here);
    }
}
