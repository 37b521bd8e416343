//! The bench that starts its own ranks: the same command once for each, whose rank 0 prints the result.

use std::io::{self, Write};
use std::process::{Command, ExitCode};

use infiniccl_testkit::job::{Job, Limits, Signals, Sink, Stream};

use super::BenchArgs;
use crate::failure::Failure;
use crate::settings::ConfigArg;

/// Starts the ranks and waits for them.
pub(super) fn run(args: &BenchArgs, config: &ConfigArg) -> Result<ExitCode, Failure> {
    // First of all, while there is one thread: the threads that follow inherit the mask.
    let signals = Signals::block()?;
    let layout = args
        .cluster
        .layout(args.ranks)
        .map_err(|e| Failure::usage(e.to_string().replace("-n ", "--ranks ")))?;
    let config = config.full_path()?;
    let cluster = args.cluster.build(&layout)?;
    eprintln!("infiniccl: {} ranks on {}", layout.ranks(), cluster.which());
    let program = std::env::current_exe()?;
    let job = Job::start(&cluster, &layout, Box::new(RankZero), |_| {
        let mut command = Command::new(&program);
        command.args(rank_arguments(args));
        if let Some(config) = &config {
            command.env("INFINICCL_CONFIG", config);
        }
        command
    })?;
    let limits = Limits {
        timeout: args.timeout,
        ..Default::default()
    };
    Ok(ExitCode::from(job.wait(&limits, Some(&signals))?.code()))
}

/// The arguments of one rank: all but what starts ranks.
fn rank_arguments(args: &BenchArgs) -> Vec<String> {
    let mut words = vec!["bench".to_string(), args.collective.name().to_string()];
    let mut option = |name: &str, value: String| words.extend([name.to_string(), value]);
    option("-b", args.begin.to_string());
    option("-e", args.end.to_string());
    option("-f", args.factor.to_string());
    option("-d", args.dtypes.clone());
    option("-o", args.ops.clone());
    option("-n", args.iterations.to_string());
    option("-w", args.warmup.to_string());
    option("-c", args.check.to_string());
    option("-r", args.root.to_string());
    words.extend(args.csv.then(|| "--csv".to_string()));
    words.extend(args.json.then(|| "--json".to_string()));
    words
}

/// Hands rank 0's output on as it is, and everything else with the rank before it to standard error.
struct RankZero;

impl Sink for RankZero {
    fn line(&mut self, rank: usize, stream: Stream, line: &[u8]) -> io::Result<()> {
        let mut text = match (rank, stream) {
            (0, Stream::Out) => Vec::new(),
            _ => format!("[{rank}] ").into_bytes(),
        };
        text.extend_from_slice(line);
        text.push(b'\n');
        match (rank, stream) {
            (0, Stream::Out) => io::stdout().lock().write_all(&text),
            _ => io::stderr().lock().write_all(&text),
        }
    }

    fn notice(&mut self, text: &str) {
        let _ = writeln!(io::stderr(), "infiniccl: {text}");
    }
}
