//! The result as a table, as comma-separated values, or as JSON.

use infiniccl::Communicator;
use serde_json::{Value, json};

use super::BenchArgs;
use super::measure::Row;
use crate::table::{Align, lines};

/// How the result is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Table,
    Csv,
    Json,
}

impl From<&BenchArgs> for Form {
    fn from(args: &BenchArgs) -> Self {
        match (args.csv, args.json) {
            (true, _) => Form::Csv,
            (_, true) => Form::Json,
            _ => Form::Table,
        }
    }
}

const COLUMNS: [&str; 11] = [
    "collective",
    "dtype",
    "op",
    "count",
    "bytes",
    "min_us",
    "p50_us",
    "p95_us",
    "algbw_gbs",
    "busbw_gbs",
    "wrong",
];

/// Prints all rows on standard output.
pub(super) fn print(form: Form, comm: &Communicator, rows: &[Row]) {
    match form {
        Form::Csv => {
            println!("{}", COLUMNS.join(","));
            rows.iter().for_each(|row| println!("{}", cells(row).join(",")));
        }
        Form::Json => println!("{:#}", object(comm, rows)),
        Form::Table => {
            header(comm).iter().for_each(|line| println!("# {line}"));
            let mut table = vec![COLUMNS.map(String::from).to_vec()];
            table.extend(rows.iter().map(cells));
            let mut align = vec![Align::Left; 3];
            align.extend([Align::Right; 8]);
            lines(&align, &table).iter().for_each(|line| println!("{line}"));
        }
    }
}

/// Who takes part and over which paths, so that a job of many that are each alone is seen at once.
fn header(comm: &Communicator) -> Vec<String> {
    let placement = comm.placement();
    let mut hosts = placement.hosts.clone();
    hosts.dedup();
    let nodes: Vec<_> = placement.nodes.iter().map(|n| n.len().to_string()).collect();
    let mut head = vec![
        format!(
            "infiniccl {}, configuration {}",
            env!("CARGO_PKG_VERSION"),
            comm.context().config().origin()
        ),
        format!(
            "{} ranks on {} nodes ({}): {}",
            comm.size(),
            nodes.len(),
            nodes.join("+"),
            hosts.join(", ")
        ),
    ];
    head.extend(
        paths(comm)
            .into_iter()
            .map(|(path, peers)| format!("rank 0 reaches {peers} ranks over {path}")),
    );
    head
}

fn paths(comm: &Communicator) -> std::collections::BTreeMap<String, usize> {
    let mut paths = std::collections::BTreeMap::new();
    for link in comm.links() {
        *paths.entry(link.path).or_default() += 1;
    }
    paths
}

fn cells(row: &Row) -> Vec<String> {
    vec![
        row.collective.to_string(),
        row.dtype.to_string(),
        row.op.map_or("none".into(), |op| op.to_string()),
        row.count.to_string(),
        row.bytes.to_string(),
        format!("{:.2}", row.min_us),
        format!("{:.2}", row.p50_us),
        format!("{:.2}", row.p95_us),
        format!("{:.3}", row.algbw_gbs),
        format!("{:.3}", row.busbw_gbs),
        row.wrong.map_or("-".into(), |w| w.to_string()),
    ]
}

fn object(comm: &Communicator, rows: &[Row]) -> Value {
    let placement = comm.placement();
    let row = |r: &Row| {
        json!({
            "collective": r.collective.name(), "dtype": r.dtype.name(), "op": r.op.map(|op| op.name()),
            "count": r.count, "bytes": r.bytes, "min_us": r.min_us, "p50_us": r.p50_us, "p95_us": r.p95_us,
            "algbw_gbs": r.algbw_gbs, "busbw_gbs": r.busbw_gbs, "wrong": r.wrong,
        })
    };
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "config": comm.context().config().origin().to_string(),
        "ranks": comm.size(),
        "nodes": placement.nodes,
        "hosts": placement.hosts,
        "paths": paths(comm),
        "rows": rows.iter().map(row).collect::<Vec<_>>(),
    })
}
