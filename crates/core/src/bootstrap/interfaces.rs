//! Network interfaces of this host, and the choice of those whose addresses other ranks may be told.

use std::ffi::CStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use crate::config::{Interface, InterfaceSelector};
use crate::{Error, ErrorKind, Result};

/// Interfaces that container and virtual machine software makes; both hosts often have the same address on them.
const VIRTUAL: [&str; 13] = [
    "docker", "br-", "virbr", "veth", "lxcbr", "lxdbr", "cni", "flannel", "cali", "kube", "podman", "vmnet",
    "vboxnet",
];

/// One address of one interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InterfaceAddress {
    /// Name of the interface, such as `eth0`.
    pub(crate) name: String,
    /// Index of the interface, which is also the scope of its link-local addresses.
    pub(crate) index: u32,
    /// The address.
    pub(crate) ip: IpAddr,
    /// Whether the interface is up.
    pub(crate) up: bool,
    /// Whether it is the loopback interface.
    pub(crate) loopback: bool,
}

impl InterfaceAddress {
    /// The address with `port`, and with the scope that a link-local address needs.
    pub(crate) fn socket(&self, port: u16) -> SocketAddr {
        match self.ip {
            IpAddr::V6(ip) if ip.is_unicast_link_local() => {
                SocketAddr::V6(SocketAddrV6::new(ip, port, 0, self.index))
            }
            ip => SocketAddr::new(ip, port),
        }
    }

    fn to_config(&self) -> Interface {
        Interface {
            name: self.name.clone(),
            address: self.ip,
            up: self.up,
        }
    }

    fn is_virtual(&self) -> bool {
        VIRTUAL.iter().any(|prefix| self.name.starts_with(prefix))
    }
}

/// All addresses of this host, as the kernel reports them now.
pub(crate) fn addresses() -> Result<Vec<InterfaceAddress>> {
    let failed = |e: std::io::Error| {
        Error::new(
            ErrorKind::System,
            "cannot list the network interfaces (getifaddrs)",
        )
        .with_source(e)
    };
    let mut list: *mut libc::ifaddrs = std::ptr::null_mut();
    let mut tries = 0;
    // SAFETY: `list` is a valid place for the pointer; on success it owns a list that is freed below.
    while unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        // It talks to the kernel over a socket, which may be interrupted or short of memory for a moment.
        let error = std::io::Error::last_os_error();
        tries += 1;
        if tries > 10
            || !matches!(
                error.kind(),
                std::io::ErrorKind::Interrupted | std::io::ErrorKind::WouldBlock
            )
        {
            return Err(failed(error));
        }
        std::thread::yield_now();
    }
    let mut found = Vec::new();
    let mut next = list;
    while !next.is_null() {
        // SAFETY: `next` is an entry of the list, which lives until `freeifaddrs`.
        let entry = unsafe { &*next };
        next = entry.ifa_next;
        // SAFETY: `ifa_addr` is null or points to a socket address of the size that its family says.
        let Some(ip) = (unsafe { ip_of(entry.ifa_addr) }) else {
            continue;
        };
        // SAFETY: `ifa_name` is a NUL-terminated string of the list.
        let name = unsafe { CStr::from_ptr(entry.ifa_name) };
        // SAFETY: `ifa_name` is a NUL-terminated string.
        let index = unsafe { libc::if_nametoindex(entry.ifa_name) };
        let has = |flag: libc::c_int| u32::try_from(flag).is_ok_and(|flag| entry.ifa_flags & flag != 0);
        found.push(InterfaceAddress {
            name: name.to_string_lossy().into_owned(),
            index,
            ip,
            up: has(libc::IFF_UP),
            loopback: has(libc::IFF_LOOPBACK) || ip.is_loopback(),
        });
    }
    // SAFETY: `list` came from `getifaddrs`, and nothing borrowed from it is left.
    unsafe { libc::freeifaddrs(list) };
    Ok(found)
}

/// The IP address in a socket address.
///
/// # Safety
/// `address` is null or points to a socket address that is as long as its family needs.
unsafe fn ip_of(address: *const libc::sockaddr) -> Option<IpAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: not null; the family is the first field of every socket address.
    match i32::from(unsafe { (*address).sa_family }) {
        libc::AF_INET => {
            // SAFETY: the family says that this is a `sockaddr_in`; read unaligned, since the list packs them.
            let v4 = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(IpAddr::V4(Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr))))
        }
        libc::AF_INET6 => {
            // SAFETY: the family says that this is a `sockaddr_in6`.
            let v6 = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(IpAddr::V6(Ipv6Addr::from(v6.sin6_addr.s6_addr)))
        }
        _ => None,
    }
}

/// Chooses from `all` by `selector`, best first: container bridges behind real interfaces, IPv6 behind IPv4.
///
/// Where the operator asked for nothing and nothing but container bridges and loopback is up, those serve: the job may
/// well be on this host alone, and a handshake proves every address before it is used.
///
/// # Errors
/// `InvalidUsage` when the selector fits no usable interface; the message lists every interface with the reason.
pub(crate) fn select(
    all: Vec<InterfaceAddress>,
    selector: &InterfaceSelector,
) -> Result<Vec<InterfaceAddress>> {
    let selection = selector.select(&all.iter().map(InterfaceAddress::to_config).collect::<Vec<_>>());
    for entry in &selection.unmatched {
        tracing::warn!("the interface selector `{entry}` fits no interface of this host");
    }
    for (interface, why) in &selection.rejected {
        tracing::debug!("interface {interface} is not used: {why}");
    }
    let taken = |a: &InterfaceAddress| selection.chosen.contains(&a.to_config());
    let mut chosen: Vec<InterfaceAddress> = all.iter().filter(|a| taken(a)).cloned().collect();
    if chosen.is_empty() && selector.is_default() {
        chosen = all.into_iter().filter(|a| a.up && !is_link_local(a.ip)).collect();
    }
    if chosen.is_empty() {
        return Err(selection.require().err().unwrap_or_else(|| {
            Error::new(
                ErrorKind::Internal,
                "the interface selector chose an interface that does not exist",
            )
        }));
    }
    chosen.sort_by_key(|a| (a.loopback, a.is_virtual(), a.ip.is_ipv6()));
    Ok(chosen)
}

/// Addresses of another host as this one can use them: a link-local one counts on each interface of this host, since the
/// number of the other host's interface means nothing here.
pub(crate) fn seen_from_here(addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    let scoped = |a: &SocketAddr| matches!(a, SocketAddr::V6(v6) if v6.ip().is_unicast_link_local());
    if !addresses.iter().any(scoped) {
        return addresses.to_vec();
    }
    let mut indexes: Vec<u32> = addresses_here_with_link_local();
    indexes.sort_unstable();
    indexes.dedup();
    let forms = |address: &SocketAddr| match address {
        SocketAddr::V6(v6) if scoped(address) => {
            let on = |index: &u32| SocketAddr::V6(SocketAddrV6::new(*v6.ip(), v6.port(), 0, *index));
            indexes.iter().map(on).collect()
        }
        other => vec![*other],
    };
    addresses.iter().flat_map(forms).collect()
}

fn addresses_here_with_link_local() -> Vec<u32> {
    let all = addresses().unwrap_or_default();
    all.into_iter()
        .filter(|a| a.up && a.ip.is_ipv6() && is_link_local(a.ip))
        .map(|a| a.index)
        .collect()
}

fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(name: &str, index: u32, ip: &str, up: bool) -> InterfaceAddress {
        let ip: IpAddr = ip.parse().unwrap();
        InterfaceAddress {
            name: name.into(),
            index,
            ip,
            up,
            loopback: ip.is_loopback(),
        }
    }

    fn host() -> Vec<InterfaceAddress> {
        vec![
            address("lo", 1, "127.0.0.1", true),
            address("lo", 1, "::1", true),
            address("docker0", 2, "172.17.0.1", true),
            address("br-12ab", 6, "172.18.0.1", true),
            address("eth0", 3, "fd00::9", true),
            address("eth0", 3, "10.9.0.1", true),
            address("eth0", 3, "fe80::1", true),
            address("eth1", 4, "10.8.0.1", false),
            address("ib0", 5, "10.7.0.1", true),
        ]
    }

    fn chosen(selector: &str, all: Vec<InterfaceAddress>) -> Vec<String> {
        let selector = if selector.is_empty() {
            InterfaceSelector::default()
        } else {
            InterfaceSelector::parse(selector).unwrap()
        };
        select(all, &selector)
            .unwrap()
            .iter()
            .map(|a| a.ip.to_string())
            .collect()
    }

    #[test]
    fn defaults_leave_out_what_leads_to_oneself_and_prefer_real_interfaces() {
        assert_eq!(
            chosen("", host()),
            ["10.9.0.1", "10.7.0.1", "fd00::9", "172.18.0.1"]
        );
    }

    #[test]
    fn bridges_then_loopback_serve_when_nothing_else_is_there() {
        let mut all = host();
        all.retain(|a| a.loopback || a.name == "docker0");
        assert_eq!(chosen("", all), ["172.17.0.1", "127.0.0.1", "::1"]);
        let only_down = vec![address("eth0", 1, "10.0.0.1", false)];
        let error = select(only_down, &InterfaceSelector::default()).unwrap_err();
        assert!(error.message().contains("eth0 10.0.0.1 is down"), "{error}");
    }

    #[test]
    fn the_operator_decides_and_a_link_local_address_keeps_its_scope() {
        assert_eq!(chosen("ib0,docker0", host()), ["10.7.0.1", "172.17.0.1"]);
        assert_eq!(chosen("^eth0,^br-*", host()), ["10.7.0.1"]);
        let picked = select(host(), &InterfaceSelector::parse("fe80::1").unwrap()).unwrap();
        assert_eq!(picked[0].socket(5).to_string(), "[fe80::1%3]:5");
        let error = select(host(), &InterfaceSelector::parse("eth1").unwrap()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidUsage);
        assert!(error.message().contains("docker0 172.17.0.1"), "{error}");
    }

    #[test]
    fn link_local_addresses_of_others_take_this_hosts_interfaces() {
        let plain: Vec<SocketAddr> = ["10.0.0.1:5", "[fd00::1]:5"]
            .iter()
            .map(|a| a.parse().unwrap())
            .collect();
        assert_eq!(seen_from_here(&plain), plain);
        let theirs = SocketAddr::V6(SocketAddrV6::new("fe80::7".parse().unwrap(), 5, 0, 99_999));
        let seen = seen_from_here(&[plain[0], theirs]);
        assert_eq!(seen[0], plain[0]);
        assert!(!seen.contains(&theirs), "no interface here has that number");
    }

    #[test]
    fn this_host_has_a_loopback_interface() {
        let all = addresses().unwrap();
        let lo = all
            .iter()
            .find(|a| a.ip == IpAddr::V4(Ipv4Addr::LOCALHOST))
            .expect("127.0.0.1");
        assert!(lo.up && lo.loopback && lo.index > 0 && !lo.name.is_empty());
        assert!(!select(all, &InterfaceSelector::default()).unwrap().is_empty());
    }
}
