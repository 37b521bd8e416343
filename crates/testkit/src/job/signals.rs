//! SIGINT, SIGTERM and SIGHUP as something to wait for, for a program that must end its ranks first.

use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::{io, mem, ptr};

use crate::cluster::ClusterError;

/// The signals that end a launcher, read from a descriptor.
#[derive(Debug)]
pub struct Signals {
    descriptor: OwnedFd,
}

impl Signals {
    /// Blocks the signals in the calling thread and in those it starts from now on, so call it before any
    /// other thread exists. The ranks of a [`Job`](super::Job) do not inherit the block.
    pub fn block() -> Result<Self, ClusterError> {
        let failed = || ClusterError::caused("cannot watch for signals", io::Error::last_os_error());
        let set = ending_signals();
        // SAFETY: `set` is valid, and no old mask is asked for.
        if unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set, ptr::null_mut()) } != 0 {
            return Err(failed());
        }
        // SAFETY: `set` is valid; -1 asks for a new descriptor.
        let fd = unsafe { libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        if fd < 0 {
            return Err(failed());
        }
        // SAFETY: the descriptor was just made and belongs to nobody else.
        let descriptor = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Signals { descriptor })
    }

    /// Readable when a signal is there.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// The number of a signal that has arrived.
    pub fn take(&self) -> Option<i32> {
        let mut record = [0u8; mem::size_of::<libc::signalfd_siginfo>()];
        match rustix::io::read(&self.descriptor, &mut record) {
            // The record starts with the signal's number.
            Ok(n) if n == record.len() => {
                Some(i32::from_ne_bytes([record[0], record[1], record[2], record[3]]))
            }
            _ => None,
        }
    }
}

/// Makes `command`, once spawned, receive the signals that its launcher may have blocked.
pub(super) fn receive(command: &mut Command) {
    let set = ending_signals();
    let unblock = move || {
        // SAFETY: `set` is valid, and no old mask is asked for.
        match unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, ptr::null_mut()) } {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    };
    // SAFETY: after the fork the closure makes one system call on memory that was prepared before.
    unsafe { command.pre_exec(unblock) };
}

fn ending_signals() -> libc::sigset_t {
    // SAFETY: sigset_t is plain data, and sigemptyset sets it up before anything reads it.
    let mut set: libc::sigset_t = unsafe { mem::zeroed() };
    // SAFETY: `set` is a valid sigset_t, and the numbers are valid signals.
    unsafe {
        libc::sigemptyset(&mut set);
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            libc::sigaddset(&mut set, signal);
        }
    }
    set
}
