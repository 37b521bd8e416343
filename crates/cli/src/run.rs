//! `infiniccl run`: starts ranks here, carries their output, and ends all of them together.

use std::ffi::OsString;
use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::{Args, ValueEnum};
use infiniccl_testkit::job::{Job, Limits, OnFailure, PrefixedOutput, Signals};

use crate::cluster_args::{ClusterArgs, seconds};
use crate::failure::Failure;
use crate::settings::ConfigArg;

/// What a failed rank means for the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnFailureArg {
    /// End them: SIGTERM, and SIGKILL after 5 seconds
    Kill,
    /// Leave them to the library, which tells them
    Wait,
}

/// Start ranks of a program on this machine
#[derive(Debug, Args)]
#[command(after_help = "\
Each rank finds torchrun's variables (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, …), INFINICCL_ROOT and \
INFINICCL_SECRET. Its standard input is empty; its lines appear here with [rank] before them. The exit code is \
that of the rank that failed first (128 and the signal's number if it was killed), 124 after --timeout.")]
pub(crate) struct RunArgs {
    /// Number of ranks
    #[arg(
        short = 'n',
        long = "ranks",
        value_name = "RANKS",
        required_unless_present = "nodes"
    )]
    ranks: Option<usize>,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// End the whole job after this many seconds
    #[arg(long, value_name = "S", value_parser = seconds)]
    timeout: Option<Duration>,
    /// What to do with the others when a rank fails
    #[arg(long, value_enum, default_value_t = OnFailureArg::Kill)]
    on_failure: OnFailureArg,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// Runs the job; the exit code is the job's.
pub(crate) fn run(args: RunArgs, config: &ConfigArg) -> Result<ExitCode, Failure> {
    // First of all, while there is one thread: the threads that follow inherit the mask.
    let signals = Signals::block()?;
    let layout = args.cluster.layout(args.ranks)?;
    let config = config.full_path()?;
    let cluster = args.cluster.build(&layout)?;
    if args.cluster.nodes.is_some() {
        eprintln!("infiniccl: {} ranks on {}", layout.ranks(), cluster.which());
    }
    let (program, arguments) = args.program.split_first().expect("the parser asks for a program");
    let job = Job::start(
        &cluster,
        &layout,
        Box::new(PrefixedOutput::new("infiniccl")),
        |_| {
            let mut command = Command::new(program);
            command.args(arguments);
            if let Some(config) = &config {
                command.env("INFINICCL_CONFIG", config);
            }
            command
        },
    )?;
    let limits = Limits {
        timeout: args.timeout,
        on_failure: match args.on_failure {
            OnFailureArg::Kill => OnFailure::Kill,
            OnFailureArg::Wait => OnFailure::Wait,
        },
        ..Default::default()
    };
    let outcome = job.wait(&limits, Some(&signals))?;
    Ok(ExitCode::from(outcome.code()))
}
