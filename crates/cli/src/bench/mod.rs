//! `infiniccl bench`: times a collective over sizes, types and operators, with a check of the data.

mod measure;
mod report;
mod size;
mod start;

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use infiniccl::Communicator;
use infiniccl_testkit::oracle::{Collective, Dtype, Op};

use crate::cluster_args::{ClusterArgs, seconds};
use crate::failure::Failure;
use crate::launched;
use crate::settings::ConfigArg;
pub(crate) use size::bytes;

/// Time a collective, with the option letters of nccl-tests
#[derive(Debug, Args)]
#[command(after_help = "\
A time is that of one call on its slowest rank. algbw is bytes by the median time; busbw is algbw times what the \
busiest link carries of it, as nccl-tests counts. Inside ranks that a launcher started the bench joins them; \
otherwise --ranks or --nodes start ranks here.")]
pub(crate) struct BenchArgs {
    /// The collective: all_reduce, broadcast, reduce, all_gather, reduce_scatter, gather, scatter, all_to_all,
    /// send_recv, …
    #[arg(value_parser = collective)]
    collective: Collective,
    /// Ranks to start here
    #[arg(long)]
    ranks: Option<usize>,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Smallest size in bytes, with K, M or G
    #[arg(short = 'b', long = "min-bytes", value_parser = bytes, default_value = "8")]
    begin: usize,
    /// Largest size
    #[arg(short = 'e', long = "max-bytes", value_parser = bytes, default_value = "16M")]
    end: usize,
    /// Factor from one size to the next
    #[arg(short = 'f', long = "factor", default_value_t = 2, value_parser = clap::value_parser!(u64).range(2..))]
    factor: u64,
    /// Element types, with commas, or all
    #[arg(short = 'd', long = "dtype", default_value = "float32")]
    dtypes: String,
    /// Operators, with commas, or all
    #[arg(short = 'o', long = "op", default_value = "sum")]
    ops: String,
    /// Timed calls of each size
    #[arg(short = 'n', long = "iters", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    iterations: u64,
    /// Calls before, which are not timed
    #[arg(short = 'w', long = "warmup", default_value_t = 5)]
    warmup: u64,
    /// Whether every element is checked, before and after: 1 or 0
    #[arg(short = 'c', long = "check", default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=1))]
    check: u8,
    /// The root, where the collective has one
    #[arg(short = 'r', long = "root", default_value_t = 0)]
    root: usize,
    /// End the bench after this many seconds; only with --ranks or --nodes
    #[arg(long, value_name = "S", value_parser = seconds)]
    timeout: Option<Duration>,
    /// Print comma-separated values
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Starts ranks, or is one.
pub(crate) fn run(args: &BenchArgs, config: &ConfigArg) -> Result<ExitCode, Failure> {
    let plan = Plan::of(args)?;
    let starts = args.ranks.is_some() || args.cluster.nodes.is_some();
    match (launched::evidence(), starts) {
        (Some(evidence), true) => Err(Failure::usage(format!(
            "--ranks and --nodes start ranks, but this is one that a launcher started ({evidence} is set): leave them out"
        ))),
        (None, true) => start::run(args, config),
        (_, false) => {
            let context = config.context()?;
            let comm = Communicator::from_environment(&context)?;
            plan.fits(comm.size() as usize)?;
            let rows = measure::all(&comm, &plan)?;
            let wrong: u64 = rows.iter().filter_map(|r| r.wrong).sum();
            if comm.rank() == 0 {
                report::print(args.into(), &comm, &rows);
            }
            comm.finalize()?;
            Ok(if wrong == 0 {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            })
        }
    }
}

/// What is measured.
#[derive(Debug)]
struct Plan {
    collective: Collective,
    dtypes: Vec<Dtype>,
    /// One operator, of no meaning, where the collective has none.
    ops: Vec<Op>,
    sizes: Vec<usize>,
    iterations: usize,
    warmup: usize,
    check: bool,
    root: usize,
}

impl Plan {
    fn of(args: &BenchArgs) -> Result<Self, Failure> {
        let number = |n: u64| usize::try_from(n).map_err(|_| Failure::usage(format!("{n} is too large")));
        let dtypes = list("type", &args.dtypes, Dtype::ALL, Dtype::name)?;
        let mut ops = list("operator", &args.ops, Op::ALL, Op::name)?;
        if !args.collective.reduces() {
            ops.truncate(1);
        } else if !dtypes.iter().any(|d| ops.iter().any(|&o| d.supports(o))) {
            return Err(Failure::usage(
                "avg of bool is not defined: choose another type or operator",
            ));
        }
        Ok(Plan {
            collective: args.collective,
            dtypes,
            ops,
            sizes: size::series(args.begin, args.end, number(args.factor)?)?,
            iterations: number(args.iterations)?,
            warmup: number(args.warmup)?,
            check: args.check == 1,
            root: args.root,
        })
    }

    fn fits(&self, ranks: usize) -> Result<(), Failure> {
        if self.collective.has_root() && self.root >= ranks {
            return Err(Failure::usage(format!(
                "--root {} is no rank: there are {ranks}",
                self.root
            )));
        }
        Ok(())
    }
}

fn collective(text: &str) -> Result<Collective, String> {
    Collective::from_name(text).ok_or_else(|| {
        let names: Vec<_> = Collective::ALL.iter().map(|c| c.name()).collect();
        format!("there are: {}", names.join(", "))
    })
}

/// The values of a list with commas, or all.
fn list<T: Copy>(
    what: &str,
    text: &str,
    all: &[T],
    name: impl Fn(T) -> &'static str,
) -> Result<Vec<T>, Failure> {
    if text == "all" {
        return Ok(all.to_vec());
    }
    let find = |word: &str| {
        all.iter().copied().find(|&v| name(v) == word).ok_or_else(|| {
            let names: Vec<_> = all.iter().map(|&v| name(v)).collect();
            Failure::usage(format!(
                "unknown {what} '{word}'; there are: {}",
                names.join(", ")
            ))
        })
    };
    text.split(',').map(find).collect()
}
