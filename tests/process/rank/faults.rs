//! Ranks that do wrong, and what the others see of it.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use infiniccl::{Communicator, Error, ErrorKind, ReduceOp, Result};
use infiniccl_tests::Event;

use crate::aftermath;
use crate::arguments::Arguments;

/// How long a rank lets the others wait inside a call.
const HEAD_START: Duration = Duration::from_millis(300);

/// The exit code of a rank that leaves without a word.
const LEFT: i32 = 77;

/// `rank` leaves between two calls: `how` is `exit` (the process ends) or `drop` (the communicator does, and the
/// process stays a while). The others go on until they hear of it.
pub(crate) fn leave(comm: Communicator, arguments: &Arguments) -> Result<()> {
    let (rank, how): (u32, String) = (arguments.get("rank"), arguments.get("how"));
    let mut outcome = comm.barrier();
    if comm.rank() == rank {
        outcome?;
        Event::now("leaves").say();
        match how.as_str() {
            "exit" => std::process::exit(LEFT),
            _ => drop(comm),
        }
        return Ok(());
    }
    let error = loop {
        match outcome {
            Ok(()) => outcome = comm.all_reduce_in_place(&mut [1u64; 1000], ReduceOp::Sum),
            Err(error) => break error,
        }
    };
    Err(aftermath::examine(comm, error))
}

/// `rank` calls `seconds` later than the others, who wait for it in the call.
pub(crate) fn late(comm: Communicator, arguments: &Arguments) -> Result<()> {
    let rank: u32 = arguments.get("rank");
    let mut buffer = vec![u64::from(comm.rank()) + 1; 1000];
    if comm.rank() == rank {
        thread::sleep(Duration::from_secs_f64(arguments.get("seconds")));
    }
    Event::now("call").say();
    match comm.all_reduce_in_place(&mut buffer, ReduceOp::Sum) {
        Ok(()) => {
            let ranks = u64::from(comm.size());
            assert_eq!(buffer, vec![ranks * (ranks + 1) / 2; 1000]);
            comm.finalize()
        }
        Err(error) => Err(aftermath::examine(comm, error)),
    }
}

/// `rank` aborts while the others wait for it in a call, some time after the file `go` has appeared.
pub(crate) fn abort(comm: Communicator, arguments: &Arguments) -> Result<()> {
    if comm.rank() == arguments.get("rank") {
        let go: PathBuf = arguments.get("go");
        while !go.exists() {
            thread::sleep(Duration::from_millis(5));
        }
        thread::sleep(HEAD_START);
        Event::now("aborts").say();
        comm.abort();
        let error = comm.barrier().expect_err("it was aborted here");
        return Err(aftermath::examine(comm, error));
    }
    Event::now("call").say();
    let error = comm
        .all_reduce_in_place(&mut vec![1.5f32; 1 << 20], ReduceOp::Sum)
        .expect_err("a rank aborts");
    Err(aftermath::examine(comm, error))
}

/// All but `rank` end the communicator and wait for it; `rank` sleeps, for the test to kill it.
pub(crate) fn goodbye(comm: Communicator, arguments: &Arguments) -> Result<()> {
    comm.barrier()?;
    if comm.rank() == arguments.get("rank") {
        Event::now("sleeps").say();
        thread::sleep(Duration::from_secs(60));
        return Ok(());
    }
    Event::now("goodbye").say();
    comm.finalize()
}

/// Rank 2 means another call than the others, each time on a new communicator; every rank says its error.
pub(crate) fn disagree(first: Communicator, join: &dyn Fn() -> Result<Communicator>) -> Result<()> {
    type Call = fn(&Communicator) -> Result<()>;
    let even: Call = |comm| comm.all_reduce_in_place(&mut [1u32; 1000], ReduceOp::Sum);
    let rooted: Call = |comm| comm.broadcast(&mut [1u32; 1000], 0);
    let cases: [(&str, Call, Call); 6] = [
        ("count", even, |comm| {
            comm.all_reduce_in_place(&mut [1u32; 1001], ReduceOp::Sum)
        }),
        ("op", even, |comm| {
            comm.all_reduce_in_place(&mut [1u32; 1000], ReduceOp::Max)
        }),
        ("dtype", even, |comm| {
            comm.all_reduce_in_place(&mut [1f32; 1000], ReduceOp::Sum)
        }),
        ("root", rooted, |comm| comm.broadcast(&mut [1u32; 1000], 3)),
        ("collective", even, Communicator::barrier),
        ("argument", even, |comm| {
            comm.all_reduce(&[1u32; 1000], &mut [0; 999], ReduceOp::Sum)
        }),
    ];
    let mut comm = Some(first);
    for (what, even, odd) in cases {
        let comm = match comm.take() {
            Some(comm) => comm,
            None => join()?,
        };
        let call = if comm.rank() == 2 { odd } else { even };
        Event::error(what, &verdict(&comm, call)).say();
    }
    Ok(())
}

/// The error that a rank gets for `call`, or at a later call if its part could be done.
fn verdict(comm: &Communicator, call: impl Fn(&Communicator) -> Result<()>) -> Error {
    let mut outcome = call(comm);
    loop {
        match outcome {
            // A rank that is told of its own wrong argument goes on, and learns what became of the others.
            Err(error) if error.kind() != ErrorKind::InvalidArgument => return error,
            _ => outcome = comm.barrier(),
        }
    }
}
