//! An IP network: an address and how many of its leading bits count.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// All addresses whose first `prefix` bits are those of `address`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Subnet {
    address: IpAddr,
    prefix: u8,
}

impl Subnet {
    pub(crate) const fn v4(address: [u8; 4], prefix: u8) -> Self {
        Subnet {
            address: IpAddr::V4(Ipv4Addr::from_octets(address)),
            prefix,
        }
    }

    pub(crate) const fn v6(segments: [u16; 8], prefix: u8) -> Self {
        Subnet {
            address: IpAddr::V6(Ipv6Addr::from_segments(segments)),
            prefix,
        }
    }

    /// Reads `10.9.0.0/24` or a single address; `None` if the text looks like neither.
    pub(crate) fn parse(text: &str) -> Result<Option<Self>, String> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let Ok(address) = address.parse::<IpAddr>() else {
            // Only digits and dots, or a colon: no interface has such a name, so an address was meant.
            let dotted = address.contains('.') && address.chars().all(|c| c.is_ascii_digit() || c == '.');
            if dotted || prefix.is_some() && address.contains(':') {
                return Err(format!("`{text}` is not a valid address or network"));
            }
            return Ok(None);
        };
        let most = if address.is_ipv4() { 32 } else { 128 };
        let Some(prefix) = prefix else {
            return Ok(Some(Subnet {
                address,
                prefix: most,
            }));
        };
        let prefix = prefix
            .parse::<u8>()
            .ok()
            .filter(|bits| *bits <= most)
            .ok_or_else(|| format!("the part after `/` in `{text}` must be a number from 0 to {most}"))?;
        let network = Subnet { address, prefix };
        let first = network.masked(address);
        if first != bits(address) {
            let fixed = Subnet {
                address: from_bits(first, address.is_ipv4()),
                prefix,
            };
            return Err(format!(
                "`{text}` has bits after its prefix; write `{fixed}` or the address alone"
            ));
        }
        Ok(Some(network))
    }

    /// Whether `address` is in the network; an IPv4 address is never in an IPv6 network.
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.address.is_ipv4() && self.masked(address) == self.masked(self.address)
    }

    /// Whether every address of this network is in `outer` too.
    pub(crate) fn is_within(&self, outer: &Subnet) -> bool {
        self.prefix >= outer.prefix && outer.contains(self.address)
    }

    /// Whether it holds one address alone.
    pub(crate) fn is_single(&self) -> bool {
        self.prefix == if self.address.is_ipv4() { 32 } else { 128 }
    }

    /// The bits of `address` that count, in the upper end of 128.
    fn masked(&self, address: IpAddr) -> u128 {
        let mask = u128::MAX.checked_shl(128 - u32::from(self.prefix)).unwrap_or(0);
        bits(address) & mask
    }
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

fn from_bits(bits: u128, v4: bool) -> IpAddr {
    let octets = bits.to_be_bytes();
    match v4 {
        true => IpAddr::from([octets[0], octets[1], octets[2], octets[3]]),
        false => IpAddr::from(octets),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subnets_contain_their_addresses_only() {
        for (text, yes, no) in [
            (
                "10.9.0.0/24",
                &["10.9.0.1", "10.9.0.255"][..],
                &["10.9.1.0", "11.9.0.1", "::ffff:10.9.0.1"][..],
            ),
            ("10.9.0.1", &["10.9.0.1"], &["10.9.0.2"]),
            ("0.0.0.0/0", &["1.2.3.4", "127.0.0.1"], &["::1"]),
            ("fd00::/8", &["fd12::1"], &["fe80::1", "10.0.0.1"]),
            ("::/0", &["::1", "2001:db8::1"], &["1.2.3.4"]),
        ] {
            let network = Subnet::parse(text).expect(text).expect(text);
            for address in yes {
                assert!(
                    network.contains(address.parse().expect(address)),
                    "{text} {address}"
                );
            }
            for address in no {
                assert!(
                    !network.contains(address.parse().expect(address)),
                    "{text} {address}"
                );
            }
        }
    }

    #[test]
    fn what_is_no_network_is_a_name_or_an_error() {
        assert_eq!(Subnet::parse("eth0"), Ok(None));
        assert_eq!(Subnet::parse("eth0.100"), Ok(None));
        for (text, needle) in [
            ("10.9.0", "not a valid address"),
            ("10.9.0.300", "not a valid address"),
            ("10.9.0.0/33", "0 to 32"),
            ("10.9.0.0/x", "0 to 32"),
            ("10.9.0.7/24", "10.9.0.0/24"),
            ("fd00::1/8", "fd00::/8"),
            ("fd00:::/8", "not a valid address"),
        ] {
            let message = Subnet::parse(text).expect_err(text);
            assert!(message.contains(needle), "{text}: {message}");
        }
    }
}
