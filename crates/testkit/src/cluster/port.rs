//! A TCP port that stays ours between the moment it is chosen and the moment a rank listens on it.

use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6};

use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with, sockopt};

/// A bound TCP socket that does not listen.
///
/// Linux gives its port to nobody who asks for a free one, yet lets a listener that sets `SO_REUSEADDR` (as
/// Rust's, Python's and libuv's do) bind exactly it. So the port cannot be taken between choice and use, which
/// closing it first would allow. Keep it until the job has ended.
#[derive(Debug)]
pub struct ReservedPort {
    address: SocketAddr,
    _socket: OwnedFd,
}

impl ReservedPort {
    /// Reserves a port of `address` in the network namespace of the calling thread.
    pub fn on(address: IpAddr) -> io::Result<Self> {
        let family = match address {
            IpAddr::V4(_) => AddressFamily::INET,
            IpAddr::V6(_) => AddressFamily::INET6,
        };
        let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        bind(&socket, &SocketAddr::new(address, 0))?;
        let bound = getsockname(&socket)?;
        let address = match SocketAddrV4::try_from(bound.clone()) {
            Ok(v4) => SocketAddr::V4(v4),
            Err(_) => SocketAddr::V6(SocketAddrV6::try_from(bound)?),
        };
        Ok(ReservedPort {
            address,
            _socket: socket,
        })
    }

    /// The address and port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}
