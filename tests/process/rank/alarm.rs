//! A timer whose signal interrupts every system call, from before the ranks meet until the end.

use infiniccl::{Communicator, ReduceOp, Result};

extern "C" fn ignore(_: libc::c_int) {}

/// Starts a SIGALRM every millisecond; its handler does nothing, and interrupted calls are not restarted.
pub(crate) fn begin() {
    // SAFETY: both structs are valid where they are read, and the handler touches nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let handler: extern "C" fn(libc::c_int) = ignore;
        action.sa_sigaction = handler as usize;
        let set = libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut());
        assert_eq!(set, 0, "the handler is installed");
        let every = libc::timeval {
            tv_sec: 0,
            tv_usec: 1000,
        };
        let timer = libc::itimerval {
            it_interval: every,
            it_value: every,
        };
        let started = libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut());
        assert_eq!(started, 0, "the timer runs");
    }
}

/// Two thousand sums of lengths in turn, with results that differ by round and index.
pub(crate) fn sums(comm: Communicator) -> Result<()> {
    let (rank, size) = (u64::from(comm.rank()), u64::from(comm.size()));
    let all: u64 = (0..size).sum();
    for round in 0..2000u64 {
        let count = [1, 33, 700, 9000][round as usize % 4];
        let mut buffer: Vec<u64> = (0..count).map(|i| rank * 1000 + round + i).collect();
        comm.all_reduce_in_place(&mut buffer, ReduceOp::Sum)?;
        let right = (0u64..)
            .zip(&buffer)
            .all(|(i, v)| *v == all * 1000 + size * (round + i));
        assert!(right, "round {round} is wrong");
    }
    comm.finalize()
}
