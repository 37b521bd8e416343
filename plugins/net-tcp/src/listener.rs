//! The sockets that peers connect to: exactly on the addresses asked for, on free ports of the range asked for.

use crate::address::MAX_ENTRIES;
use crate::error::{Failure, Result, system};
use crate::interfaces::{Interface, link_local};
use crate::options::Options;
use crate::socket;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::sockopt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// Connections that may wait to be accepted; the kernel lowers it to its own limit.
const BACKLOG: i32 = 4096;

/// One listening socket.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) socket: OwnedFd,
    pub(crate) address: SocketAddr,
}

/// What a listener had.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// A connection, from this address if the kernel tells.
    Connection(OwnedFd, Option<SocketAddr>),
    /// Nothing, now.
    Nothing,
    /// One that was gone already.
    Gone,
    /// The host is out of this resource; later it may work again.
    Exhausted(Errno),
}

impl Listener {
    /// Takes the next connection.
    pub(crate) fn accept(&self) -> Incoming {
        loop {
            return match rustix::net::acceptfrom_with(&self.socket, socket::accept_flags()) {
                Ok((socket, from)) => Incoming::Connection(
                    socket,
                    from.and_then(|address| address.try_into().ok())
                        .map(socket::canonical),
                ),
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => Incoming::Nothing,
                Err(errno @ (Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)) => {
                    Incoming::Exhausted(errno)
                }
                // Everything else concerns one connection: it was aborted, or the network lost it meanwhile.
                Err(_) => Incoming::Gone,
            };
        }
    }
}

/// Listens on every address of the options, or, when there is none, everywhere.
pub(crate) fn open(options: &Options) -> Result<Vec<Listener>> {
    if options.addresses.is_empty() {
        let everywhere = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
        let listener = match listen(everywhere, options) {
            Err(error) if error.status == infiniccl_plugin_api::Status::UNSUPPORTED => {
                listen(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)), options)
            }
            other => other,
        };
        return Ok(vec![listener?]);
    }
    options
        .addresses
        .iter()
        .take(MAX_ENTRIES)
        .map(|address| listen(*address, options))
        .collect()
}

/// What to tell the peers: the addresses that are listened on, or those of all interfaces if that is everywhere.
pub(crate) fn advertised(listeners: &[Listener], interfaces: &[Interface]) -> Vec<SocketAddr> {
    let mut found = Vec::new();
    for listener in listeners {
        if !listener.address.ip().is_unspecified() {
            found.push(listener.address);
            continue;
        }
        let reachable = |interface: &&Interface| listener.address.is_ipv6() || interface.ip.is_ipv4();
        let mut usable: Vec<&Interface> = interfaces.iter().filter(reachable).collect();
        if usable.iter().any(|interface| !interface.loopback) {
            usable.retain(|interface| !interface.loopback);
        }
        usable.sort_by_key(|interface| link_local(interface.ip));
        found.extend(usable.into_iter().map(|interface| {
            let mut address = interface.address();
            address.set_port(listener.address.port());
            address
        }));
    }
    found.truncate(MAX_ENTRIES);
    found
}

fn listen(mut address: SocketAddr, options: &Options) -> Result<Listener> {
    let Some((low, high)) = options.port_range else {
        return try_listen(&address, options).map_err(|errno| refused(&address, errno));
    };
    for port in low..=high {
        address.set_port(port);
        match try_listen(&address, options) {
            Err(Errno::ADDRINUSE) => {}
            other => return other.map_err(|errno| refused(&address, errno)),
        }
    }
    let ip = address.ip();
    let text = match u32::from(high - low) + 1 {
        1 => format!(
            "{} is in use, and port_range allows no other port",
            SocketAddr::from((ip, low))
        ),
        tried => format!(
            "no free port on {ip}: all {tried} ports of port_range {low}-{high} are in use; widen the range or end \
             what listens there"
        ),
    };
    Err(system("cannot listen", text))
}

fn try_listen(address: &SocketAddr, options: &Options) -> rustix::io::Result<Listener> {
    let socket = socket::create(address)?;
    // Ports of connections that ended a moment ago are free to listen on; a port that is listened on is not.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, !address.ip().is_unspecified())?;
    }
    // Connections inherit the sizes, and the window's scale is settled before `accept` returns.
    if let Some(bytes) = options.receive_buffer {
        sockopt::set_socket_recv_buffer_size(&socket, bytes)?;
    }
    rustix::net::bind(&socket, address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    let address = rustix::net::getsockname(&socket)?.try_into()?;
    Ok(Listener { socket, address })
}

fn refused(address: &SocketAddr, errno: Errno) -> Failure {
    let status = match errno {
        Errno::AFNOSUPPORT => infiniccl_plugin_api::Status::UNSUPPORTED,
        _ => infiniccl_plugin_api::Status::SYSTEM,
    };
    let hint = match errno {
        Errno::ADDRNOTAVAIL => " (no interface of this host has this address)",
        Errno::ACCESS => " (ports below 1024 need a privilege)",
        _ => "",
    };
    Failure {
        status,
        text: format!(
            "cannot listen on {address}: {}{hint}",
            std::io::Error::from(errno)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn options(rows: &[(&str, &str)]) -> Options {
        Options::read([("auth", "none")].iter().chain(rows).copied()).unwrap()
    }

    #[test]
    fn only_the_given_addresses_listen() {
        let listeners = open(&options(&[("addresses", "127.0.0.1,127.0.0.9")])).unwrap();
        let ips: Vec<String> = listeners
            .iter()
            .map(|listener| listener.address.ip().to_string())
            .collect();
        assert_eq!(ips, ["127.0.0.1", "127.0.0.9"]);
        assert!(listeners.iter().all(|listener| listener.address.port() != 0));
        let interfaces = crate::interfaces::list().unwrap();
        assert_eq!(advertised(&listeners, &interfaces).len(), 2);
    }

    #[test]
    fn everywhere_is_advertised_as_addresses_that_mean_something() {
        let listeners = open(&options(&[])).unwrap();
        let interfaces = crate::interfaces::list().unwrap();
        let advertised = advertised(&listeners, &interfaces);
        assert!(!advertised.is_empty());
        assert!(
            advertised
                .iter()
                .all(|address| !address.ip().is_unspecified() && address.port() != 0)
        );
    }

    #[test]
    fn ports_come_from_the_range_and_a_full_range_says_so() {
        // A window of three ports that are free now; other tests of this machine may take one in between.
        let (low, taken) = (0..50)
            .find_map(|_| {
                let first = TcpListener::bind("127.0.0.77:0").ok()?;
                let low = first.local_addr().ok()?.port();
                (low < u16::MAX - 2).then_some((low, first))
            })
            .unwrap();
        let range = format!("{low}-{}", low + 2);
        let of_three = options(&[("addresses", "127.0.0.77"), ("port_range", &range)]);
        let mut held = Vec::new();
        let error = loop {
            match open(&of_three) {
                Ok(listeners) => held.extend(listeners),
                Err(error) => break error,
            }
        };
        assert!(held.len() <= 2, "port {low} was taken");
        assert!(
            held.iter()
                .all(|listener| (low + 1..=low + 2).contains(&listener.address.port()))
        );
        for part in ["127.0.0.77", &range, "3 ports"] {
            assert!(error.text.contains(part), "{part} in {}", error.text);
        }
        let fixed = format!("{low}-{low}");
        let error = open(&options(&[("addresses", "127.0.0.77"), ("port_range", &fixed)])).unwrap_err();
        assert!(
            error.text.contains(&format!("127.0.0.77:{low}")),
            "{}",
            error.text
        );
        drop(taken);
    }

    #[test]
    fn an_address_of_another_host_is_named() {
        let error = open(&options(&[("addresses", "203.0.113.7")])).unwrap_err();
        assert!(
            error.text.contains("203.0.113.7") && error.text.contains("no interface"),
            "{}",
            error.text
        );
    }
}
