//! `infiniccl matrix`: what the plugin can do for each collective, type and operator, and what is made of it.

use std::process::ExitCode;

use clap::Args;
use infiniccl::config::Verify;
use infiniccl::{Collective, Communicator, DataType, MatrixRow, ReduceOp};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::launched;
use crate::settings::ConfigArg;
use crate::table::{Align, lines};

/// Show the capability matrix: declared, checked, override, effective
#[derive(Debug, Args)]
pub(crate) struct MatrixArgs {
    /// Only this collective
    #[arg(long)]
    collective: Option<Collective>,
    /// Only this element type
    #[arg(long, value_parser = parse::<DataType>)]
    dtype: Option<DataType>,
    /// Only this operator
    #[arg(long, value_parser = parse::<ReduceOp>)]
    op: Option<ReduceOp>,
    /// Ranks of the group that the matrix is for; inside ranks of a launcher it is theirs
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    ranks: u32,
    /// Every row by itself, instead of types with the same answer together
    #[arg(long)]
    all: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Reads a name, with the library's own words for a wrong one.
pub(crate) fn parse<T: std::str::FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|e: T::Err| e.to_string())
}

/// Prints the matrix of this machine's first plugin, or of the ranks' own.
pub(crate) fn run(args: &MatrixArgs, config: &ConfigArg) -> Result<ExitCode, Failure> {
    let context = config.context()?;
    let (rows, first) = if launched::evidence().is_some() {
        let comm = Communicator::from_environment(&context)?;
        let rows = comm.matrix();
        let first = comm.rank() == 0;
        comm.finalize()?;
        (rows, first)
    } else {
        (Communicator::local(&context, args.ranks)?[0].matrix(), true)
    };
    let wanted = |row: &MatrixRow| {
        args.collective.is_none_or(|c| c == row.collective)
            && args.dtype.is_none_or(|d| d == row.dtype)
            && args.op.is_none_or(|op| row.op == Some(op))
    };
    let rows: Vec<_> = rows.into_iter().filter(wanted).collect();
    if !first {
        return Ok(ExitCode::SUCCESS);
    }
    if args.json {
        println!(
            "{:#}",
            json!({"config": context.config().origin().to_string(), "ranks": args.ranks,
                                "rows": rows.iter().map(object).collect::<Vec<_>>()})
        );
    } else {
        println!("native: by the plugin; emulated: by this library, as the last column says");
        let verified = context.config().verify != Verify::Off;
        print(&rows, args.all, verified)
            .iter()
            .for_each(|line| println!("{line}"));
    }
    Ok(ExitCode::SUCCESS)
}

fn print(rows: &[MatrixRow], all: bool, verified: bool) -> Vec<String> {
    let head = [
        "plugin",
        "collective",
        "op",
        "types",
        "declared",
        "checked",
        "override",
        "effective",
        "how",
    ];
    let mut table = vec![head.map(String::from).to_vec()];
    // Types with the same answer share a line.
    let mut groups: Vec<(Vec<String>, Vec<&'static str>)> = Vec::new();
    for row in rows {
        let answer = vec![
            row.plugin.clone(),
            row.collective.to_string(),
            row.op.map_or("-".into(), |op| op.to_string()),
            if row.declared { "yes" } else { "no" }.into(),
            match &row.disproved {
                Some(what) => format!("wrong: {what}"),
                None if !row.declared => "-".into(),
                None if verified => "ok".into(),
                None => "off".into(),
            },
            row.overridden.unwrap_or("-").into(),
            row.effective.into(),
            row.how.clone(),
        ];
        match groups.iter_mut().find(|(known, _)| !all && *known == answer) {
            Some((_, types)) => types.push(row.dtype.name()),
            None => groups.push((answer, vec![row.dtype.name()])),
        }
    }
    for (mut answer, types) in groups {
        let types = if types.len() == DataType::ALL.len() {
            "all".into()
        } else {
            types.join(" ")
        };
        answer.insert(3, types);
        table.push(answer);
    }
    lines(&[Align::Left; 9], &table)
}

fn object(row: &MatrixRow) -> Value {
    json!({
        "plugin": row.plugin, "collective": row.collective.name(), "dtype": row.dtype.name(),
        "op": row.op.map(|op| op.name()), "declared": row.declared, "disproved": row.disproved,
        "override": row.overridden, "effective": row.effective, "how": row.how,
    })
}
