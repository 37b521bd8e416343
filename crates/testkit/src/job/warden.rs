//! A process that outlives its launcher by a moment: when the launcher dies, by SIGKILL too, it kills the
//! process groups of all ranks, so that grandchildren go with them.

use std::io::{self, PipeWriter};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Pid, WaitOptions, waitpid};

use crate::cluster::ClusterError;

/// The most ranks of one job: the warden keeps their numbers on its stack, since it must not allocate.
const MOST_RANKS: usize = 4096;

/// The watch over the ranks of one job.
#[derive(Debug)]
pub(super) struct Warden {
    pid: Pid,
    /// Its end of file is the launcher's death; `None` once the warden has been dismissed.
    line: Option<PipeWriter>,
}

impl Warden {
    pub(super) fn start(ranks: usize) -> Result<Self, ClusterError> {
        if ranks > MOST_RANKS {
            return Err(ClusterError::new(format!(
                "{ranks} ranks: one launcher starts at most {MOST_RANKS}"
            )));
        }
        let failed = |e: io::Error| ClusterError::caused("cannot start the process that guards the ranks", e);
        let (reader, line) = io::pipe().map_err(failed)?;
        // SAFETY: the child calls `stand_watch` alone, which makes nothing but system calls and never returns.
        let pid = match unsafe { libc::fork() } {
            0 => stand_watch(reader.as_raw_fd()),
            pid => pid,
        };
        match Pid::from_raw(pid) {
            Some(pid) if !pid.is_init() && pid.as_raw_nonzero().get() > 0 => Ok(Warden {
                pid,
                line: Some(line),
            }),
            _ => Err(failed(io::Error::last_os_error())),
        }
    }

    /// Makes `command`, once spawned, tell the warden its process group before it becomes the program.
    pub(super) fn watch(&self, command: &mut Command) {
        let Some(line) = self.line.as_ref().map(AsRawFd::as_raw_fd) else {
            return;
        };
        let report = move || {
            // SAFETY: getpid cannot fail; the descriptor is the launcher's, inherited across the fork and open
            // until the program starts; four bytes are written at once and from valid memory.
            let written = unsafe {
                let pid = libc::getpid().to_ne_bytes();
                libc::write(line, pid.as_ptr().cast(), pid.len())
            };
            if written == 4 {
                Ok(())
            } else {
                Err(io::Error::last_os_error())
            }
        };
        // SAFETY: after the fork the closure makes two system calls and touches no other memory.
        unsafe { command.pre_exec(report) };
    }

    /// Sends the warden home. The ranks have to be gone.
    pub(super) fn dismiss(&mut self) {
        // A lone zero says that the end of the line is no death.
        if let Some(line) = self.line.take() {
            let _ = rustix::io::write(&line, &0i32.to_ne_bytes());
            drop(line);
            while let Err(rustix::io::Errno::INTR) = waitpid(Some(self.pid), WaitOptions::empty()) {}
        }
    }

    pub(super) fn is_dismissed(&self) -> bool {
        self.line.is_none()
    }
}

/// The life of the warden: notes the numbers that arrive, and acts on the end of the line.
fn stand_watch(line: RawFd) -> ! {
    let mut groups = [0i32; MOST_RANKS];
    let mut count = 0;
    // SAFETY: system calls on valid arguments only, as is due after the fork of a process with threads; the
    // buffers are on this stack. `_exit` runs no handlers of the launcher.
    unsafe {
        // What the terminal or an operator sends to the launcher's group is not for the warden.
        libc::setsid();
        for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGTERM] {
            libc::signal(signal, libc::SIG_IGN);
        }
        libc::prctl(libc::PR_SET_NAME, c"ranks-warden".as_ptr());
        // Keep nothing of the launcher open: neither its output, nor the lines of other wardens.
        if line > 0 {
            libc::syscall(libc::SYS_close_range, 0, line - 1, 0);
        }
        libc::syscall(libc::SYS_close_range, line + 1, libc::c_int::MAX, 0);
        loop {
            let mut number = [0u8; 4];
            match libc::read(line, number.as_mut_ptr().cast(), number.len()) {
                4 => match i32::from_ne_bytes(number) {
                    0 => libc::_exit(0),
                    group if count < MOST_RANKS => {
                        groups[count] = group;
                        count += 1;
                    }
                    _ => {}
                },
                -1 if *libc::__errno_location() == libc::EINTR => {}
                _ => break,
            }
        }
        for group in &groups[..count] {
            libc::kill(-group, libc::SIGKILL);
        }
        libc::_exit(0)
    }
}
