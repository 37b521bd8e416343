//! InfiniCCL's side of a benchmark that runs several communication libraries in turn: one rank of it.
//!
//! The launcher gives RANK, SIZE, LOCAL_RANK, LOCAL_SIZE, NODE, ADDR, IFACE, ROOT_ADDR, ROOT_PORT, STORE (an empty
//! folder that all ranks see) and what to measure:
//!
//! | variable | holds | where it is not set |
//! |---|---|---|
//! | BENCH_PEER | name for the first column | `infiniccl` |
//! | BENCH_NET | name for the network column | `?` |
//! | BENCH_OPS | of `allreduce`, `allgather`, `pingpong`, `allreduce_bf16`, with commas | the first three |
//! | BENCH_SIZES | bytes per rank, with commas | 8 B to 128 MiB |
//! | BENCH_TIME | seconds for each line | 1 |
//! | BENCH_HEADER | 1: print the names of the columns | |
//!
//! Rank 0 prints `peer,op,ranks,net,bytes,iters,min_us,p50_us,p95_us,check`. The exit code is 1 after a wrong result.

mod environment;
mod measure;
mod operation;

use std::process::ExitCode;

use environment::{Environment, meet};
use operation::Operation;

type AnyError = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("infiniccl-peers: {e}");
            ExitCode::from(3)
        }
    }
}

fn run() -> Result<bool, AnyError> {
    let environment = Environment::read()?;
    let comm = meet(&environment)?;
    if comm.rank() == 0 && environment.header {
        println!("peer,op,ranks,net,bytes,iters,min_us,p50_us,p95_us,check");
    }
    let mut right = true;
    for &operation in &environment.operations {
        if operation == Operation::PingPong && comm.size() != 2 {
            continue;
        }
        for &bytes in environment
            .sizes
            .iter()
            .filter(|&&b| operation.can_have(b, comm.size() as usize))
        {
            let line = measure::line(&comm, operation, bytes, environment.seconds)?;
            right &= line.right;
            if comm.rank() == 0 {
                println!(
                    "{},{},{},{},{bytes},{},{:.2},{:.2},{:.2},{}",
                    environment.peer,
                    operation.name(),
                    comm.size(),
                    environment.net,
                    line.calls,
                    line.min_us,
                    line.p50_us,
                    line.p95_us,
                    if line.right { "ok" } else { "BAD" },
                );
            }
        }
    }
    comm.finalize()?;
    Ok(right)
}
