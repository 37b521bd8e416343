//! Hands the descriptor of nameless shared memory from rank 0 to the others, over a socket with an abstract name.

use super::shared;
use crate::error::{system, uninterrupted};
use infiniccl_plugin_api::{Failure, Status};
use rustix::io::{Errno, IoSlice, IoSliceMut};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Rank 0's end.
#[derive(Debug)]
pub(crate) struct Giver {
    listener: OwnedFd,
}

fn socket(name: &str) -> rustix::io::Result<(OwnedFd, SocketAddrUnix)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    Ok((socket, SocketAddrUnix::new_abstract_name(name.as_bytes())?))
}

/// Whether the process at the other end runs as the same user.
fn same_user(socket: BorrowedFd<'_>) -> bool {
    rustix::net::sockopt::socket_peercred(socket).is_ok_and(|peer| peer.uid == rustix::process::geteuid())
}

impl Giver {
    /// Starts to listen under `name`.
    pub(crate) fn listen(name: &str) -> Result<Giver, Failure> {
        let start = || {
            let (listener, address) = socket(name)?;
            rustix::net::bind(&listener, &address)?;
            rustix::net::listen(&listener, 128)?;
            Ok(listener)
        };
        let listener = start().map_err(|errno| system("a socket to hand shared memory over", errno))?;
        Ok(Giver { listener })
    }

    /// Answers everyone who has connected; never blocks. Strangers get nothing.
    pub(crate) fn serve(&self, file: BorrowedFd<'_>) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        while let Ok(peer) = uninterrupted(|| rustix::net::accept_with(&self.listener, flags)) {
            if !same_user(peer.as_fd()) {
                continue;
            }
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            let files = [file];
            if ancillary.push(SendAncillaryMessage::ScmRights(&files)) {
                let send = || {
                    rustix::net::sendmsg(&peer, &[IoSlice::new(&[1])], &mut ancillary, SendFlags::NOSIGNAL)
                };
                // A rank that is gone again shows as missing.
                let _ = uninterrupted(send);
            }
        }
    }
}

/// A rank's end: asks rank 0 for the descriptor; `None` while rank 0 does not offer it.
pub(crate) fn take(name: &str) -> Result<Option<OwnedFd>, Failure> {
    let text = "taking over the shared memory of rank 0";
    let (socket, address) = socket(name).map_err(|errno| system(text, errno))?;
    match uninterrupted(|| rustix::net::connect(&socket, &address)) {
        Ok(()) => {}
        Err(Errno::CONNREFUSED | Errno::AGAIN | Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(system(text, errno)),
    }
    if !same_user(socket.as_fd()) {
        return Err(Failure::new(
            Status::SYSTEM,
            "shared memory is offered by a process of another user",
        ));
    }
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let wait = rustix::time::Timespec {
        tv_sec: 1,
        tv_nsec: 0,
    };
    let mut ready = [rustix::event::PollFd::new(&socket, rustix::event::PollFlags::IN)];
    if uninterrupted(|| rustix::event::poll(&mut ready, Some(&wait))).unwrap_or(0) == 0 {
        return Ok(None);
    }
    let received = uninterrupted(|| {
        let mut data = [IoSliceMut::new(&mut byte)];
        rustix::net::recvmsg(&socket, &mut data, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
    });
    match received {
        Ok(_) => {}
        // Rank 0 went away before it answered: a missing rank, found by the time limit.
        Err(Errno::AGAIN | Errno::CONNRESET) => return Ok(None),
        Err(errno) => return Err(system(text, errno)),
    }
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(mut files) = message
            && let Some(file) = files.next()
        {
            shared::check_owner(file.as_fd())?;
            let sealed = rustix::fs::fcntl_get_seals(&file)
                .is_ok_and(|seals| seals.contains(rustix::fs::SealFlags::SHRINK));
            if !sealed {
                return Err(Failure::new(
                    Status::SYSTEM,
                    "shared memory of rank 0 could be cut off",
                ));
            }
            return Ok(Some(file));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_sealed_file_arrives_and_an_unsealed_one_is_refused() {
        let name = format!("infiniccl-handoff-test-{}", std::process::id());
        assert!(take(&name).expect("no error").is_none(), "nobody listens yet");
        let giver = Giver::listen(&name).expect("listening");
        let flags = rustix::fs::MemfdFlags::CLOEXEC | rustix::fs::MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create("test", flags).expect("memory");
        rustix::fs::ftruncate(&file, 8192).expect("sized");
        let ask = || {
            std::thread::scope(|scope| {
                let asker = scope.spawn(|| take(&name));
                while !asker.is_finished() {
                    giver.serve(file.as_fd());
                    std::thread::yield_now();
                }
                asker.join().expect("asker")
            })
        };
        assert!(ask().expect_err("unsealed").text.contains("cut off"));
        rustix::fs::fcntl_add_seals(&file, rustix::fs::SealFlags::SHRINK).expect("sealed");
        let copy = ask().expect("handed over").expect("a descriptor");
        assert_eq!(shared::size(copy.as_fd()).expect("size"), 8192);
    }
}
