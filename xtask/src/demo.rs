//! The demo on every layout, in namespaces and on loopback.

use std::process::Stdio;
use std::time::Duration;

use crate::command::program;
use crate::repository::infiniccl;
use crate::steps::{Outcome, Step, built};

const LAYOUTS: [&str; 2] = ["2+2+2+2", "3+1+2+2"];
const ORDERS: [&str; 2] = ["block", "interleaved"];

/// One check for each layout, order and kind of node.
pub(crate) fn steps() -> Vec<Step> {
    let mut steps = Vec::new();
    for (place, namespaces) in [("namespaces", "always"), ("loopback", "never")] {
        for layout in LAYOUTS {
            for order in ORDERS {
                let run = move || {
                    let arguments = [
                        "demo",
                        "--nodes",
                        layout,
                        "--order",
                        order,
                        "--namespaces",
                        namespaces,
                    ];
                    match namespaces_refused() {
                        Some(why) if namespaces == "always" => Outcome::Skipped(why),
                        _ => built(infiniccl(), &arguments),
                    }
                };
                steps.push(Step::new(format!("demo {place} {layout} {order}"), run));
            }
        }
    }
    steps
}

/// Why no network namespace can be made here; `None` where one can.
pub(crate) fn namespaces_refused() -> Option<String> {
    let path = infiniccl();
    if !path.is_file() {
        return None;
    }
    let arguments = [
        "run",
        "--nodes",
        "1",
        "--namespaces",
        "always",
        "--timeout",
        "20",
        "--",
        "true",
    ];
    let mut command = program(path, &arguments);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    match command.output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ")),
        Err(e) => Some(format!("cannot try it within {:?}: {e}", Duration::from_secs(20))),
    }
}
