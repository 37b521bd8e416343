//! `infiniccl demo`: several nodes of ranks here, every collective, type and operator against the oracle.

mod cases;
mod rank;
mod results;
mod summary;

use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use infiniccl_testkit::cluster::{Cluster, Layout};
use infiniccl_testkit::job::{Cause, Job, Limits, Signals};
use serde_json::json;

use crate::cluster_args::{ClusterArgs, seconds};
use crate::failure::Failure;
use crate::settings::ConfigArg;
use results::{Collector, Results};

pub(crate) use rank::{RankArgs, run_rank};

/// The nodes where nothing else is asked for.
const NODES: &str = "2+2+2+2";

/// Try every collective, type and operator on several nodes played by this machine
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// The network plugin to use between nodes
    #[arg(long, value_name = "NAME")]
    net: Option<String>,
    /// End the demo after this many seconds
    #[arg(long, value_name = "S", value_parser = seconds, default_value = "300")]
    timeout: Duration,
    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,
}

/// Runs the demo; the exit code is 0 if everything was right.
pub(crate) fn run(args: &DemoArgs, config: &ConfigArg) -> Result<ExitCode, Failure> {
    // First of all, while there is one thread: the threads that follow inherit the mask.
    let signals = Signals::block()?;
    let origin = config.load()?.origin().to_string();
    let nodes = ClusterArgs {
        nodes: Some(args.cluster.nodes.clone().unwrap_or(NODES.into())),
        ..args.cluster
    };
    let layout = nodes.layout(None)?;
    let cluster = nodes.build(&layout)?;
    if !args.json {
        println!(
            "{} ranks on nodes of {layout}, dealt {}",
            layout.ranks(),
            layout.order()
        );
        println!("nodes: {cluster}");
        println!("configuration: {origin}");
    }

    let results = Arc::new(Results::new(layout.ranks()));
    let job = start(args, config, &cluster, &layout, &results)?;
    let limits = Limits {
        timeout: Some(args.timeout),
        ..Default::default()
    };
    let outcome = job.wait(&limits, Some(&signals))?;
    results.clear_progress();

    let verdict = results.verdict();
    if args.json {
        let object = json!({
            "config": origin,
            "nodes": layout.to_string(),
            "order": layout.order().to_string(),
            "cluster": cluster.which(),
            "namespaces": cluster.has_namespaces(),
            "ranks": layout.ranks(),
            "about": results.about(),
            "cases": verdict.cases,
            "passed": verdict.passed,
            "failed": verdict.failed,
        });
        println!("{object:#}");
    } else {
        for line in summary::lines(&verdict, &results.about()) {
            println!("{line}");
        }
        println!("{} passed, {} failed", verdict.passed, verdict.failed);
    }
    match outcome.cause {
        Cause::Interrupted(_) => Ok(ExitCode::from(outcome.code())),
        _ if verdict.failed > 0 || !outcome.is_success() => Ok(ExitCode::FAILURE),
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn start(
    args: &DemoArgs,
    config: &ConfigArg,
    cluster: &Cluster,
    layout: &Layout,
    results: &Arc<Results>,
) -> Result<Job, Failure> {
    let program = std::env::current_exe()?;
    let config = config.full_path()?;
    let job = Job::start(
        cluster,
        layout,
        Box::new(Collector::new(Arc::clone(results))),
        |_| {
            let mut command = Command::new(&program);
            command.arg("demo-rank");
            if let Some(net) = &args.net {
                command.args(["--net", net]);
            }
            if let Some(config) = &config {
                command.env("INFINICCL_CONFIG", config);
            }
            command
        },
    )?;
    Ok(job)
}
