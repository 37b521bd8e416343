//! The `infiniccl` command.

mod cluster_args;
mod failure;
mod run;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Collective communication between accelerators of different vendors
#[derive(Debug, Parser)]
#[command(name = "infiniccl", version, max_term_width = 110)]
struct Cli {
    /// The configuration to take instead of searching for one
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Call,
}

#[derive(Debug, Subcommand)]
enum Call {
    /// Start ranks of a program on this machine
    Run(run::RunArgs),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        Call::Run(args) => run::run(args, cli.config.as_deref()),
    };
    result.unwrap_or_else(|failure| {
        eprintln!("infiniccl: {failure}");
        failure.exit_code()
    })
}
