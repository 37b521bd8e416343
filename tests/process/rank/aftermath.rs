//! What holds after an error: later calls answer with it, and abort and drop need no living peer.

use std::time::Instant;

use infiniccl::{Communicator, Error};
use infiniccl_tests::Event;

/// Says how the failed communicator behaves (`aftermath`), and gives the first error back.
pub(crate) fn examine(comm: Communicator, error: Error) -> Error {
    Event::error("call", &error).say();
    let again = comm
        .barrier()
        .expect_err("a failed communicator fails every call");
    let stored = comm.async_error().expect("a failed communicator has an error");
    let begun = Instant::now();
    comm.abort();
    let aborted = begun.elapsed();
    let begun = Instant::now();
    drop(comm);
    Event::now("aftermath")
        .with("same", again.to_string() == error.to_string())
        .with("stored", format!("{:?}", stored.kind()))
        .with("abort_ms", aborted.as_millis())
        .with("drop_ms", begun.elapsed().as_millis())
        .say();
    error
}
