//! Listening sockets: bound to exactly the addresses that are asked for, inside the port range of the operator.

use std::net::{SocketAddr, TcpListener};
use std::ops::RangeInclusive;

use socket2::{Domain, Protocol, Socket, Type};

use crate::{Error, ErrorKind, Result};

/// Many ranks connect at once; the kernel caps this at its own limit (net.core.somaxconn).
const BACKLOG: i32 = 4096;

/// Listens on each of `addresses`. An address with port 0 takes the next free port of `range`, or any free one; the
/// same port on all addresses where that is possible, so that a small range lasts.
///
/// # Errors
/// `System` when no address can be bound: each with its address, port and the kernel's reason.
pub(crate) fn listen(
    addresses: &[SocketAddr],
    range: Option<&RangeInclusive<u16>>,
) -> Result<Vec<TcpListener>> {
    Ok(listen_and_reserve(addresses, range)?
        .into_iter()
        .map(|(listener, _)| listener)
        .collect())
}

/// As [`listen`], with a socket for each listener that keeps the kernel from giving its port away after the listener is
/// closed; the same process, or another one that is told the port, may listen on it again meanwhile.
pub(crate) fn listen_and_reserve(
    addresses: &[SocketAddr],
    range: Option<&RangeInclusive<u16>>,
) -> Result<Vec<(TcpListener, Socket)>> {
    let mut listeners: Vec<(TcpListener, Socket)> = Vec::new();
    let mut failures: Vec<Error> = Vec::new();
    let mut port = None;
    for address in addresses {
        let preferred = port
            .map(|port| with_port(*address, port))
            .filter(|_| address.port() == 0);
        let bound = preferred
            .and_then(|same| bind(same).ok())
            .map_or_else(|| listen_on(*address, range), Ok);
        match bound {
            Ok((listener, reservation)) => {
                port = port.or(listener.local_addr().ok().map(|a| a.port()));
                listeners.push((listener, reservation));
            }
            Err(error) => {
                tracing::debug!("{error}");
                failures.push(error);
            }
        }
    }
    if listeners.is_empty() {
        return Err(failures
            .into_iter()
            .next()
            .unwrap_or_else(|| Error::new(ErrorKind::Internal, "no address was given to listen on")));
    }
    Ok(listeners)
}

/// The addresses that `listeners` are bound to, with their real ports.
pub(crate) fn bound_addresses(listeners: &[TcpListener]) -> Vec<SocketAddr> {
    listeners.iter().filter_map(|l| l.local_addr().ok()).collect()
}

fn listen_on(address: SocketAddr, range: Option<&RangeInclusive<u16>>) -> Result<(TcpListener, Socket)> {
    let (Some(range), 0) = (range, address.port()) else {
        return bind(address).map_err(|e| {
            let message = match e.kind() == std::io::ErrorKind::AddrInUse {
                false => format!("cannot listen on {address}"),
                true if address.port() == 0 => format!(
                    "cannot listen on {}: no port is free (net.ipv4.ip_local_port_range); wait for ended connections \
                     to time out, or widen the range",
                    address.ip()
                ),
                true => format!(
                    "cannot listen on {address}: the port is in use by another process; choose another one"
                ),
            };
            Error::new(ErrorKind::System, message)
                .with("address", address)
                .with_source(e)
        });
    };
    for port in range.clone() {
        match bind(with_port(address, port)) {
            Ok(listener) => return Ok(listener),
            Err(e) if e.kind() == std::io::ErrorKind::AddrInUse => {}
            Err(e) => {
                return Err(Error::new(
                    ErrorKind::System,
                    format!("cannot listen on {}", with_port(address, port)),
                )
                .with("address", address.ip())
                .with_source(e));
            }
        }
    }
    Err(Error::new(
        ErrorKind::System,
        format!(
            "all {} ports of the range {}-{} (network.port_range) are in use on {}: widen the range",
            range.len(),
            range.start(),
            range.end(),
            address.ip()
        ),
    )
    .with("address", address.ip()))
}

/// A listener, and a socket bound beside it that does not listen.
fn bind(address: SocketAddr) -> std::io::Result<(TcpListener, Socket)> {
    let reservation = bound(address)?;
    let actual = reservation.local_addr()?.as_socket().unwrap_or(address);
    let socket = bound(actual)?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok((socket.into(), reservation))
}

fn bound(address: SocketAddr) -> std::io::Result<Socket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM.cloexec(),
        Some(Protocol::TCP),
    )?;
    // Sockets that set this share a port as long as at most one of them listens; the port of ended connections can be
    // taken again, one that somebody listens on cannot.
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    Ok(socket)
}

fn with_port(mut address: SocketAddr, port: u16) -> SocketAddr {
    address.set_port(port);
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    #[test]
    fn port_zero_takes_a_free_port_and_the_same_one_on_every_address() {
        let others = [local(0), SocketAddr::from(([127, 0, 0, 2], 0))];
        let bound = bound_addresses(&listen(&others, None).unwrap());
        assert_eq!(bound.len(), 2);
        assert_ne!(bound[0].port(), 0);
        assert_eq!(bound[0].port(), bound[1].port());
        assert_eq!(
            bound[1].ip().to_string(),
            "127.0.0.2",
            "exactly the address asked for"
        );
    }

    #[test]
    fn a_reserved_port_can_be_listened_on_again() {
        let (listener, reservation) = listen_and_reserve(&[local(0)], None).unwrap().remove(0);
        let address = listener.local_addr().unwrap();
        drop(listener);
        for _ in 0..20 {
            let others = listen(&[local(0)], None).unwrap();
            assert_ne!(bound_addresses(&others)[0], address);
        }
        let again = listen(&[address], None).unwrap();
        assert_eq!(bound_addresses(&again), [address]);
        drop(reservation);
    }

    #[test]
    fn an_occupied_port_is_named() {
        let first = listen(&[local(0)], None).unwrap();
        let taken = bound_addresses(&first)[0];
        let error = listen(&[taken], None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::System);
        assert!(
            error.message().contains(&taken.to_string()) && error.message().contains("in use"),
            "{error}"
        );
    }

    #[test]
    fn ports_stay_inside_the_range_until_it_is_used_up() {
        // A free stretch of ports is found by asking for one that is free and trying the three above it.
        let (range, held) = (0..100)
            .find_map(|_| {
                let start = bound_addresses(&listen(&[local(0)], None).unwrap())[0].port();
                let range = start..=start.checked_add(2)?;
                let held: Vec<_> = (0..3)
                    .map_while(|_| listen(&[local(0)], Some(&range)).ok())
                    .collect();
                (held.len() == 3).then_some((range, held))
            })
            .expect("three neighbouring free ports");
        let mut ports: Vec<u16> = held.iter().map(|l| bound_addresses(l)[0].port()).collect();
        ports.sort_unstable();
        assert_eq!(ports, range.clone().collect::<Vec<_>>());
        let error = listen(&[local(0)], Some(&range)).unwrap_err();
        assert!(
            error.message().contains("all 3 ports") && error.message().contains("port_range"),
            "{error}"
        );
        drop(held);
        assert!(listen(&[local(0)], Some(&range)).is_ok());
    }

    #[test]
    fn an_address_of_another_host_is_refused_with_its_name() {
        let error = listen(&["192.0.2.77:0".parse().unwrap()], None).unwrap_err();
        assert!(error.message().contains("192.0.2.77"), "{error}");
    }
}
