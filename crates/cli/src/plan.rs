//! `infiniccl plan`: how a call would be carried out, what that costs by the model, and what lost.

use std::process::ExitCode;

use clap::Args;
use infiniccl::{Collective, DataType, PlanReport, ReduceOp};
use serde_json::json;

use crate::bench::bytes;
use crate::cluster_args::{ClusterArgs, OrderArg};
use crate::failure::Failure;
use crate::matrix::parse;
use crate::settings::ConfigArg;
use crate::table::{Align, lines};

/// Show the plan of a call, its cost, and the candidates that lost
#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    /// The collective
    collective: Collective,
    /// Bytes of the call's elements, with K, M or G
    #[arg(long, value_parser = bytes)]
    bytes: usize,
    /// The element type
    #[arg(short = 'd', long, default_value = "float32", value_parser = parse::<DataType>)]
    dtype: DataType,
    /// The operator, where the collective has one
    #[arg(short = 'o', long, default_value = "sum", value_parser = parse::<ReduceOp>)]
    op: ReduceOp,
    /// Ranks on one node
    #[arg(long, conflicts_with = "nodes")]
    ranks: Option<usize>,
    /// Ranks of each node, such as 3+1+2+2
    #[arg(long, value_name = "A+B+…")]
    nodes: Option<String>,
    /// How ranks are dealt to the nodes
    #[arg(long, value_enum, default_value_t = OrderArg::Block)]
    order: OrderArg,
    /// The root, where the collective has one
    #[arg(short = 'r', long, default_value_t = 0)]
    root: u32,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Ranks where nothing else is asked for.
const RANKS: usize = 8;

/// Prints the plan for ranks that each have this machine's first plugin.
pub(crate) fn run(args: &PlanArgs, config: &ConfigArg) -> Result<ExitCode, Failure> {
    let cluster = ClusterArgs {
        nodes: args.nodes.clone(),
        order: args.order,
        namespaces: None,
    };
    let ranks = if args.nodes.is_some() {
        None
    } else {
        Some(args.ranks.unwrap_or(RANKS))
    };
    let layout = cluster.layout(ranks)?;
    let nodes = layout
        .places()
        .iter()
        .map(|p| u32::try_from(p.node))
        .collect::<Result<Vec<_>, _>>();
    let nodes = nodes.map_err(|e| Failure::usage(e.to_string()))?;
    let count = (args.bytes / args.dtype.size()) as u64;
    let context = config.context()?;
    let plan = context.explain(&nodes, args.collective, args.dtype, args.op, count, args.root)?;
    if args.json {
        let candidates: Vec<_> = plan
            .candidates
            .iter()
            .map(|c| {
                let (cost, why) = match &c.cost_ns {
                    Ok(ns) => (Some(*ns), None),
                    Err(why) => (None, Some(why)),
                };
                json!({"algorithm": c.algorithm, "cost_ns": cost, "refused": why})
            })
            .collect();
        println!(
            "{:#}",
            json!({
                "config": context.config().origin().to_string(),
                "collective": args.collective.name(), "dtype": args.dtype.name(),
                "op": args.collective.reduces().then(|| args.op.name()),
                "count": count, "bytes": count * args.dtype.size() as u64, "nodes": layout.to_string(),
                "algorithm": plan.algorithm, "decided_by": plan.decided_by, "lowering": plan.lowering,
                "steps": plan.steps, "scratch_bytes": plan.scratch_bytes,
                "rounding_steps": plan.rounding_steps, "candidates": candidates,
            })
        );
    } else {
        let op = if args.collective.reduces() {
            format!(" {}", args.op)
        } else {
            String::new()
        };
        println!(
            "{} of {count} {}{op} on {} ranks, nodes of {layout}",
            args.collective,
            args.dtype,
            layout.ranks()
        );
        print(&plan).iter().for_each(|line| println!("{line}"));
    }
    Ok(ExitCode::SUCCESS)
}

fn print(plan: &PlanReport) -> Vec<String> {
    let mut out = vec![format!("{}, decided by the {}", plan.algorithm, plan.decided_by)];
    if let Some(lowering) = plan.lowering {
        out.push(format!("rewritten: {lowering}"));
    }
    out.push(format!(
        "rank 0: {} steps, {} bytes of scratch memory",
        plan.steps, plan.scratch_bytes
    ));
    if plan.rounding_steps > 0 {
        out.push(format!(
            "error bound: {} roundings of the element type",
            plan.rounding_steps
        ));
    }
    let mut table = vec![["candidate", "modelled us", ""].map(String::from).to_vec()];
    for candidate in &plan.candidates {
        let taken = if candidate.algorithm == plan.algorithm {
            "taken"
        } else {
            ""
        };
        table.push(match &candidate.cost_ns {
            Ok(ns) => vec![
                candidate.algorithm.clone(),
                format!("{:.1}", *ns as f64 / 1e3),
                taken.into(),
            ],
            Err(why) => vec![candidate.algorithm.clone(), "-".into(), why.clone()],
        });
    }
    out.extend(lines(&[Align::Left, Align::Right, Align::Left], &table));
    out
}
