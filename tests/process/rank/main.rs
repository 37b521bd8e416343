//! A rank of a test's job: joins by its environment, plays a scenario, and says what happens, one event a line.
//!
//! `infiniccl-test-rank [--set KEY=VALUE]… SCENARIO [NAME=VALUE]…`; it exits with 0, or with the code of its error.

mod aftermath;
mod alarm;
mod arguments;
mod faults;
mod sums;

use std::process::ExitCode;

use infiniccl::config::Config;
use infiniccl::{Communicator, Context, Result};
use infiniccl_tests::Event;

use arguments::Arguments;

fn main() -> ExitCode {
    let arguments = Arguments::read(std::env::args().skip(1));
    match play(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(code) => ExitCode::from(code),
    }
}

/// Runs the scenario; an error has been said when this returns.
fn play(arguments: &Arguments) -> std::result::Result<(), u8> {
    let failed = |phase: &str, error: &infiniccl::Error| {
        Event::error(phase, error).say();
        u8::try_from(error.kind().code()).expect("codes are small")
    };
    if arguments.scenario == "alarm" {
        alarm::begin();
    }
    let context = context(arguments).map_err(|e| failed("configuration", &e))?;
    let join = || Communicator::from_environment(&context);
    Event::now("start").say();
    let comm = join().map_err(|e| failed("joining", &e))?;
    Event::now("joined")
        .with("rank", comm.rank())
        .with("size", comm.size())
        .with("pid", std::process::id())
        .say();
    let outcome = match arguments.scenario.as_str() {
        "sum" => sums::sum(comm),
        "loop" => sums::repeat(comm, arguments),
        "paths" => sums::paths(comm),
        "alarm" => alarm::sums(comm),
        "leave" => faults::leave(comm, arguments),
        "late" => faults::late(comm, arguments),
        "abort" => faults::abort(comm, arguments),
        "goodbye" => faults::goodbye(comm, arguments),
        "disagree" => faults::disagree(comm, &join),
        other => panic!("no scenario is called `{other}`"),
    };
    outcome.map_err(|e| failed("scenario", &e))?;
    Event::now("done").say();
    Ok(())
}

fn context(arguments: &Arguments) -> Result<Context> {
    let mut config = Config::load(None)?;
    for (key, value) in &arguments.settings {
        config.set(key, value)?;
    }
    Context::new(config)
}
