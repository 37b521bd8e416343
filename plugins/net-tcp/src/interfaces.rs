//! The network interfaces of this host and their addresses.

use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// One address of one interface that is up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Interface {
    pub(crate) name: String,
    /// The kernel's number, which is the scope of link-local addresses.
    pub(crate) index: u32,
    pub(crate) ip: IpAddr,
    /// Leading bits that the whole subnet shares.
    pub(crate) prefix: u32,
    pub(crate) loopback: bool,
}

impl Interface {
    /// Whether `ip` lies in the subnet of this address.
    pub(crate) fn reaches(&self, ip: IpAddr) -> bool {
        match (self.ip, ip) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                (own.to_bits() ^ other.to_bits())
                    .checked_shr(32 - self.prefix.min(32))
                    .unwrap_or(0)
                    == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                (own.to_bits() ^ other.to_bits())
                    .checked_shr(128 - self.prefix.min(128))
                    .unwrap_or(0)
                    == 0
            }
            _ => false,
        }
    }

    /// The address as one to bind or to connect to, port zero.
    pub(crate) fn address(&self) -> SocketAddr {
        match self.ip {
            IpAddr::V4(ip) => SocketAddr::from((ip, 0)),
            IpAddr::V6(ip) => {
                let scope = if link_local(self.ip) { self.index } else { 0 };
                SocketAddr::V6(SocketAddrV6::new(ip, 0, 0, scope))
            }
        }
    }
}

/// Whether an address only means something together with an interface.
pub(crate) fn link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

/// All addresses of interfaces that are up, in the kernel's order.
pub(crate) fn list() -> io::Result<Vec<Interface>> {
    let mut first = std::ptr::null_mut();
    // SAFETY: `first` is a valid place for the list's head.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found = Vec::new();
    let mut next = first;
    while !next.is_null() {
        // SAFETY: the list is valid until it is freed below; each entry is followed by a valid one or by null.
        let entry = unsafe { &*next };
        next = entry.ifa_next;
        if entry.ifa_flags & (libc::IFF_UP as libc::c_uint) == 0 {
            continue;
        }
        // SAFETY: address and mask are null or point at addresses of the family that they name.
        let (ip, mask) = unsafe { (address_of(entry.ifa_addr), address_of(entry.ifa_netmask)) };
        let Some(ip) = ip else { continue };
        // SAFETY: the name is a terminated string of the list.
        let name = unsafe { CStr::from_ptr(entry.ifa_name) };
        // SAFETY: as above.
        let index = unsafe { libc::if_nametoindex(entry.ifa_name) };
        found.push(Interface {
            name: name.to_string_lossy().into_owned(),
            index,
            ip,
            prefix: match mask {
                Some(IpAddr::V4(mask)) => mask.to_bits().leading_ones(),
                Some(IpAddr::V6(mask)) => mask.to_bits().leading_ones(),
                None if ip.is_ipv4() => 32,
                None => 128,
            },
            loopback: entry.ifa_flags & (libc::IFF_LOOPBACK as libc::c_uint) != 0,
        });
    }
    // SAFETY: the list came from `getifaddrs` and nothing borrows from it any more.
    unsafe { libc::freeifaddrs(first) };
    Ok(found)
}

/// The kernel's number of the interface with this name.
pub(crate) fn index(name: &str) -> Option<u32> {
    let name = std::ffi::CString::new(name).ok()?;
    // SAFETY: the name is a terminated string.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => None,
        index => Some(index),
    }
}

/// # Safety
/// `address` is null or points at an address of the family that it names.
unsafe fn address_of(address: *const libc::sockaddr) -> Option<IpAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: the family stands at the start of every address.
    match i32::from(unsafe { (*address).sa_family }) {
        libc::AF_INET => {
            // SAFETY: the family says that it is one of IPv4; it may be unaligned.
            let address = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(IpAddr::V4(Ipv4Addr::from_bits(u32::from_be(
                address.sin_addr.s_addr,
            ))))
        }
        libc::AF_INET6 => {
            // SAFETY: the family says that it is one of IPv6; it may be unaligned.
            let address = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(IpAddr::V6(Ipv6Addr::from_octets(address.sin6_addr.s6_addr)))
        }
        _ => None,
    }
}

/// The interface that `ip` belongs to.
pub(crate) fn name_of(interfaces: &[Interface], ip: IpAddr) -> &str {
    let exact = interfaces.iter().find(|interface| interface.ip == ip);
    let near = || {
        interfaces
            .iter()
            .find(|interface| interface.loopback && interface.reaches(ip))
    };
    exact
        .or_else(near)
        .map_or("?", |interface| interface.name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_listed() {
        let interfaces = list().unwrap();
        let lo = interfaces
            .iter()
            .find(|interface| interface.ip == IpAddr::from([127, 0, 0, 1]))
            .unwrap();
        assert!(lo.loopback && lo.index != 0 && lo.prefix == 8, "{lo:?}");
        assert_eq!(index(&lo.name), Some(lo.index));
        assert_eq!(name_of(&interfaces, IpAddr::from([127, 9, 9, 9])), lo.name);
        assert_eq!(name_of(&interfaces, IpAddr::from([203, 0, 113, 9])), "?");
    }

    #[test]
    fn subnets_end_where_the_prefix_says() {
        let interface = |ip: &str, prefix| Interface {
            name: "x".into(),
            index: 1,
            ip: ip.parse().unwrap(),
            prefix,
            loopback: false,
        };
        let reaches = |own: &str, prefix, other: &str| interface(own, prefix).reaches(other.parse().unwrap());
        assert!(reaches("10.1.2.3", 24, "10.1.2.200") && !reaches("10.1.2.3", 24, "10.1.3.3"));
        assert!(reaches("10.1.2.3", 0, "9.9.9.9") && !reaches("10.1.2.3", 32, "10.1.2.2"));
        assert!(reaches("fd00::1", 64, "fd00::2") && !reaches("fd00::1", 64, "fd00:0:0:1::2"));
        assert!(!reaches("fd00::1", 0, "10.0.0.1"));
    }
}
