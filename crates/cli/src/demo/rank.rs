//! One rank of the demo: runs all cases and reports each as a line of JSON on standard output.

use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use infiniccl::{Collective, Communicator, Context, DataType, ErrorKind, ReduceOp};
use infiniccl_testkit::oracle::Mismatches;
use serde_json::{Value, json};

use super::cases::{Unit, calls, units};
use crate::failure::Failure;
use crate::settings::ConfigArg;
use infiniccl_testkit::call::Call;

/// A rank of the demo
#[derive(Debug, Args)]
pub(crate) struct RankArgs {
    /// The network plugin to use between nodes
    #[arg(long, value_name = "NAME")]
    net: Option<String>,
}

/// Runs all cases as the rank that the environment says.
pub(crate) fn run_rank(args: &RankArgs, config: &ConfigArg) -> Result<ExitCode, Failure> {
    let file = config.file()?;
    let mut settings = infiniccl::config::Config::load(file)?;
    if let Some(net) = &args.net {
        settings.set("path.order", &format!("vendor, node, {net}"))?;
    }
    crate::log::start(&settings)?;
    let context = Context::new(settings)?;
    if let Some(net) = &args.net {
        require(&context, net)?;
    }
    let comm = Communicator::from_environment(&context)?;
    let mut usable = true;
    for (number, unit) in units().into_iter().enumerate() {
        let began = Instant::now();
        let line = match run_unit(&comm, number, unit) {
            Ok(found) => json!({"unit": number, "wrong": found.wrong, "first": found.first,
                                "us": began.elapsed().as_micros() as u64}),
            Err(e) => {
                // After a refusal of the call alone the communicator goes on.
                usable = matches!(e.kind(), ErrorKind::NotSupported | ErrorKind::InvalidArgument);
                json!({"unit": number, "wrong": 1, "first": e.to_string()})
            }
        };
        println!("{line}");
        if !usable {
            return Err(Failure::new(
                "the communicator failed: the cases that follow were not run",
            ));
        }
    }
    println!("{}", json!({"links": links(&comm)}));
    if comm.rank() == 0 {
        println!("{}", json!({"about": about(&context, &comm)}));
    }
    comm.finalize()?;
    Ok(ExitCode::SUCCESS)
}

/// Refuses a name that no network plugin in use has, and says which ones there are.
fn require(context: &Context, net: &str) -> Result<(), Failure> {
    let names: Vec<_> = context
        .registry()
        .nets()
        .iter()
        .map(|n| n.name().to_string())
        .collect();
    if names.iter().any(|n| n == net) {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "--net {net}: no such network plugin is in use; there are: {}",
        names.join(", ")
    )))
}

fn run_unit(comm: &Communicator, number: usize, unit: Unit) -> infiniccl::Result<Mismatches> {
    if unit.collective.is_none() {
        return comm.barrier().map(|()| Mismatches::default());
    }
    let mut total = Mismatches::default();
    for (case, placement) in calls(number, unit, comm.size() as usize) {
        let Some(mut call) = Call::new(case, comm.rank() as usize, placement) else {
            continue;
        };
        call.run(comm)?;
        let found = call.check();
        total.wrong += found.wrong;
        if let Some(first) = found.first {
            total.first.get_or_insert(format!(
                "{} elements, {placement:?}, {:?}: {first}",
                case.count, case.values
            ));
        }
    }
    Ok(total)
}

/// How this rank reached each of the others.
fn links(comm: &Communicator) -> Vec<Value> {
    comm.links()
        .into_iter()
        .map(|l| json!({"peer": l.peer, "path": l.path, "state": l.state}))
        .collect()
}

/// What one rank knows for all: plugins, places, and how the collectives are carried out.
fn about(context: &Context, comm: &Communicator) -> Value {
    let plugins: Vec<_> = context
        .registry()
        .rows()
        .iter()
        .map(|r| json!({"name": r.name, "version": r.version, "place": r.place(), "status": r.status.name()}))
        .collect();
    let placement = comm.placement();
    let matrix = comm.matrix();
    let ways: Vec<_> = Collective::ALL
        .iter()
        .filter(|c| !c.is_message())
        .map(|&collective| {
            let rows = matrix.iter().filter(|r| r.collective == collective);
            let (mut native, mut emulated, mut refused) = (0, 0, 0);
            for row in rows {
                match row.effective {
                    "native" => native += 1,
                    "emulated" => emulated += 1,
                    _ => refused += 1,
                }
            }
            let algorithm = |bytes: u64| {
                let plan = comm.explain(collective, DataType::Float32, ReduceOp::Sum, bytes / 4, 0);
                plan.map(|p| p.algorithm).unwrap_or_default()
            };
            json!({"collective": collective.name(), "native": native, "emulated": emulated, "refused": refused,
                   "small": algorithm(1 << 10), "large": algorithm(1 << 20)})
        })
        .collect();
    json!({"plugins": plugins, "nodes": placement.nodes, "islands": placement.islands,
           "island_plugins": placement.plugins, "ways": ways})
}
