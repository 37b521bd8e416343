//! The demo's result as a person reads it: one line for each collective, paths, and what was wrong.

use infiniccl_testkit::oracle::{Collective, Op};
use serde_json::Value;

use super::results::Verdict;
use crate::table::{Align, lines as align};

/// Failed cases that are shown in words.
const SHOWN_FAILURES: usize = 20;

/// The lines of the summary, but for the last one.
pub(super) fn lines(verdict: &Verdict, about: &Value) -> Vec<String> {
    if verdict.units.iter().all(|(_, ok)| !ok) {
        return vec!["no case came to its end on all ranks: what stopped them stands above".into()];
    }
    let mut out = plugins(about);
    out.push(String::new());
    out.push("element types that came out right, of all that there are".into());
    out.extend(collectives(verdict, about));
    out.push(String::new());
    if let Some(paths) = about["paths"].as_object() {
        let path = |(name, pairs): (&String, &Value)| format!("{pairs} over {name}");
        out.push(format!(
            "pairs of ranks: {}",
            paths.iter().map(path).collect::<Vec<_>>().join(", ")
        ));
    }
    let failed: Vec<_> = verdict
        .cases
        .iter()
        .filter(|c| c["passed"] != Value::Bool(true))
        .collect();
    for case in failed.iter().take(SHOWN_FAILURES) {
        let op = case["op"].as_str().map(|op| format!(" {op}")).unwrap_or_default();
        let word = |key: &str| case[key].as_str().unwrap_or("").to_string();
        out.push(format!(
            "FAILED {} {}{op}: {}",
            word("collective"),
            word("dtype"),
            word("first")
        ));
    }
    if failed.len() > SHOWN_FAILURES {
        out.push(format!("… and {} more", failed.len() - SHOWN_FAILURES));
    }
    out
}

fn plugins(about: &Value) -> Vec<String> {
    let in_use = about["plugins"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|p| p["status"] == "loaded");
    let name = |p: &Value| {
        let word = |key: &str| p[key].as_str().unwrap_or("").to_string();
        format!("{} {} ({})", word("name"), word("version"), word("place"))
    };
    vec![format!(
        "plugins: {}",
        in_use.map(name).collect::<Vec<_>>().join(", ")
    )]
}

/// The table: right types by operator, how one node's plugin serves it, and the algorithms across nodes.
fn collectives(verdict: &Verdict, about: &Value) -> Vec<String> {
    let head = [
        "collective",
        "sum",
        "prod",
        "max",
        "min",
        "avg",
        "data",
        "on a node",
        "at 1 KiB",
        "at 1 MiB",
    ];
    let mut rows = vec![head.map(String::from).to_vec()];
    let ways = about["ways"].as_array();
    let names = Collective::ALL.iter().map(|&c| Some(c)).chain([None]);
    for collective in names {
        let score = |op: Option<Op>| {
            let all = verdict
                .units
                .iter()
                .filter(|(u, _)| u.collective == collective && u.op == op);
            let (right, total) = all.fold((0, 0), |(right, total), (_, ok)| {
                (right + usize::from(*ok), total + 1)
            });
            if total == 0 {
                String::new()
            } else {
                format!("{right}/{total}")
            }
        };
        let name = collective.map_or("barrier", Collective::name);
        let mut row = vec![name.to_string()];
        row.extend(Op::ALL.iter().map(|&op| score(Some(op))));
        row.push(score(None));
        match ways.and_then(|w| w.iter().find(|w| w["collective"] == name)) {
            Some(way) => {
                row.push(served(way));
                row.extend(["small", "large"].map(|size| way[size].as_str().unwrap_or("").to_string()));
            }
            None => row.extend([String::new(), "messages".into(), "messages".into()]),
        }
        rows.push(row);
    }
    let mut columns = vec![Align::Left];
    columns.extend([Align::Right; 6]);
    columns.extend([Align::Left; 3]);
    align(&columns, &rows)
}

/// "native", "emulated", or how many combinations of types and operators are which.
fn served(way: &Value) -> String {
    let count = |key: &str| way[key].as_u64().unwrap_or(0);
    match (count("native"), count("emulated")) {
        (_, 0) => "native".into(),
        (0, _) => "emulated".into(),
        (native, emulated) => format!("{native} native, {emulated} emulated"),
    }
}
