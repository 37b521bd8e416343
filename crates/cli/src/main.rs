//! The `infiniccl` command.

mod bench;
mod cluster_args;
mod config_check;
mod demo;
mod failure;
mod info;
mod launched;
mod log;
mod matrix;
mod plan;
mod run;
mod settings;
mod table;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use settings::ConfigArg;

/// Collective communication between accelerators of different vendors
#[derive(Debug, Parser)]
#[command(name = "infiniccl", version, max_term_width = 110)]
struct Cli {
    #[command(flatten)]
    config: ConfigArg,
    #[command(subcommand)]
    command: Call,
}

#[derive(Debug, Subcommand)]
enum Call {
    Demo(demo::DemoArgs),
    Run(run::RunArgs),
    Bench(bench::BenchArgs),
    Info(info::InfoArgs),
    Matrix(matrix::MatrixArgs),
    Plan(plan::PlanArgs),
    /// What concerns the configuration
    #[command(subcommand)]
    Config(config_check::ConfigCall),
    /// A rank of the demo
    #[command(hide = true)]
    DemoRank(demo::RankArgs),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        Call::Demo(args) => demo::run(&args, &cli.config),
        Call::DemoRank(args) => demo::run_rank(&args, &cli.config),
        Call::Run(args) => run::run(args, &cli.config),
        Call::Bench(args) => bench::run(&args, &cli.config),
        Call::Info(args) => info::run(&args, &cli.config),
        Call::Matrix(args) => matrix::run(&args, &cli.config),
        Call::Plan(args) => plan::run(&args, &cli.config),
        Call::Config(config_check::ConfigCall::Check(args)) => config_check::run(&args, &cli.config),
    };
    result.unwrap_or_else(|failure| {
        eprintln!("infiniccl: {failure}");
        failure.exit_code()
    })
}
