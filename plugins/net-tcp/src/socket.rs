//! Sockets: how they are made, and the two calls that move bytes.

use crate::options::Options;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, sockopt};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

/// What became of an attempt to move bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moved {
    /// So many bytes; zero on reading: the other end will send no more.
    Bytes(usize),
    /// None now.
    Blocked,
    /// The connection is gone.
    Broken(Errno),
}

/// A stream socket that never blocks and does not survive `exec`.
pub(crate) fn create(address: &SocketAddr) -> rustix::io::Result<OwnedFd> {
    let family = if address.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    rustix::net::socket_with(family, SocketType::STREAM, FLAGS, Some(ipproto::TCP))
}

/// Flags for `accept` that give the same kind of socket.
pub(crate) const fn accept_flags() -> SocketFlags {
    FLAGS
}

/// Sets what every connection has: no delay for small messages, keepalive, and sizes that were asked for.
///
/// No limit is set for data that is not acknowledged (`TCP_USER_TIMEOUT`): it would also end connections to ranks
/// that are merely late and do not read.
pub(crate) fn configure(socket: BorrowedFd<'_>, options: &Options) -> rustix::io::Result<()> {
    sockopt::set_tcp_nodelay(socket, true)?;
    if options.keepalive > 0 {
        let idle = u64::from(options.keepalive);
        sockopt::set_socket_keepalive(socket, true)?;
        // The kernel takes at most 32767 s.
        sockopt::set_tcp_keepidle(socket, Duration::from_secs(idle.min(32_767)))?;
        sockopt::set_tcp_keepintvl(socket, Duration::from_secs((idle / 3).clamp(1, 75)))?;
        sockopt::set_tcp_keepcnt(socket, 4)?;
    }
    if let Some(bytes) = options.send_buffer {
        sockopt::set_socket_send_buffer_size(socket, bytes)?;
    }
    if let Some(bytes) = options.receive_buffer {
        sockopt::set_socket_recv_buffer_size(socket, bytes)?;
    }
    Ok(())
}

/// Makes `close` reset the connection, so that the other end notices at once.
pub(crate) fn reset_on_close(socket: BorrowedFd<'_>) {
    // If it cannot be set, the other end sees an orderly end without a goodbye, which tells it the same.
    let _ = sockopt::set_socket_linger(socket, Some(Duration::ZERO));
}

/// The address of this end and of the other one, IPv4 as such on a socket that takes both.
pub(crate) fn ends(socket: BorrowedFd<'_>) -> (Option<SocketAddr>, Option<SocketAddr>) {
    let local = rustix::net::getsockname(socket)
        .ok()
        .and_then(|address| address.try_into().ok());
    let peer = rustix::net::getpeername(socket)
        .ok()
        .flatten()
        .and_then(|address| address.try_into().ok());
    (local.map(canonical), peer.map(canonical))
}

/// The same address, IPv4 as such.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => SocketAddr::from((ip, address.port())),
        IpAddr::V6(_) => address,
    }
}

/// How long ago the last byte came, if the kernel tells.
pub(crate) fn silence(socket: BorrowedFd<'_>) -> Option<Duration> {
    // SAFETY: an all-zero `tcp_info` is a valid value of plain integers.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut len = libc::socklen_t::try_from(size_of::<libc::tcp_info>()).ok()?;
    // SAFETY: the kernel writes at most `len` bytes to `info`.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut len,
        )
    };
    (result == 0).then(|| Duration::from_millis(u64::from(info.tcpi_last_data_recv)))
}

fn retry(mut call: impl FnMut() -> isize) -> Moved {
    loop {
        if let Ok(count) = usize::try_from(call()) {
            return Moved::Bytes(count);
        }
        let errno = Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO);
        match errno {
            Errno::INTR => {}
            // The kernel is short of memory for the moment.
            Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM => return Moved::Blocked,
            errno => return Moved::Broken(errno),
        }
    }
}

/// Gives the memory of `parts`, in order, to the socket.
///
/// # Safety
/// Each part is readable for the duration of the call.
#[inline]
pub(crate) unsafe fn send(socket: BorrowedFd<'_>, parts: &mut [libc::iovec]) -> Moved {
    let message = message(parts);
    // SAFETY: `message` names `parts`, whose memory the caller vouches for.
    retry(|| unsafe {
        libc::sendmsg(
            socket.as_raw_fd(),
            &raw const message,
            libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT,
        )
    })
}

/// Fills the memory of `parts`, in order, from the socket.
///
/// # Safety
/// Each part is writable, and used by nobody else, for the duration of the call.
#[inline]
pub(crate) unsafe fn receive(socket: BorrowedFd<'_>, parts: &mut [libc::iovec]) -> Moved {
    let mut message = message(parts);
    // SAFETY: `message` names `parts`, whose memory the caller vouches for.
    retry(|| unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) })
}

/// Fills `bytes` from the socket.
#[inline]
pub(crate) fn receive_into(socket: BorrowedFd<'_>, bytes: &mut [u8]) -> Moved {
    // SAFETY: the slice is writable for its length.
    retry(|| unsafe {
        libc::recv(
            socket.as_raw_fd(),
            bytes.as_mut_ptr().cast(),
            bytes.len(),
            libc::MSG_DONTWAIT,
        )
    })
}

/// Gives `bytes` to the socket.
pub(crate) fn send_from(socket: impl AsFd, bytes: &[u8]) -> Moved {
    // SAFETY: the slice is readable for its length.
    retry(|| unsafe {
        libc::send(
            socket.as_fd().as_raw_fd(),
            bytes.as_ptr().cast(),
            bytes.len(),
            libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT,
        )
    })
}

fn message(parts: &mut [libc::iovec]) -> libc::msghdr {
    // SAFETY: an all-zero `msghdr` is a valid one without address, parts and control data.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = parts.as_mut_ptr();
    message.msg_iovlen = parts.len() as _;
    message
}
