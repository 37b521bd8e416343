//! The commands that use the library, from outside: options, fields, exit codes, and standard output that parses.

use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn infiniccl(arguments: &[&str]) -> Output {
    with_variables(arguments, &[])
}

fn with_variables(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_infiniccl"))
        .args(arguments)
        .envs(variables.iter().copied())
        // Away from the repository, whose own configuration would be found.
        .current_dir(std::env::temp_dir())
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stdout)))
}

#[test]
fn bench_json_has_the_fields_and_nothing_else_is_on_standard_output() {
    let arguments = [
        "bench",
        "all_reduce",
        "--ranks",
        "3",
        "--nodes",
        "2+1",
        "--namespaces",
        "never",
    ];
    let options = [
        "-b",
        "8",
        "-e",
        "4K",
        "-f",
        "8",
        "-d",
        "float16,int64",
        "-o",
        "avg",
        "-n",
        "3",
        "-w",
        "1",
        "-c",
        "1",
    ];
    let all: Vec<_> = arguments.into_iter().chain(options).chain(["--json"]).collect();
    // At the chattiest level of the log, too.
    let object = json(&with_variables(&all, &[("INFINICCL_LOG", "trace")]));
    let rows = object["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 8, "two types by the sizes 8, 64, 512, 4096");
    for row in rows {
        assert_eq!(
            (&row["collective"], &row["op"]),
            (&"all_reduce".into(), &"avg".into())
        );
        assert!(row["dtype"] == "float16" || row["dtype"] == "int64");
        let number = |key: &str| row[key].as_f64().unwrap_or_else(|| panic!("{key} of {row}"));
        assert!(
            number("min_us") > 0.0
                && number("min_us") <= number("p50_us")
                && number("p50_us") <= number("p95_us")
        );
        assert!(
            number("algbw_gbs") > 0.0 && (number("busbw_gbs") / number("algbw_gbs") - 4.0 / 3.0).abs() < 1e-9
        );
        let size = if row["dtype"] == "float16" { 2.0 } else { 8.0 };
        assert_eq!(number("count") * size, number("bytes"));
        assert_eq!(number("wrong"), 0.0);
    }
    assert_eq!(object["ranks"], 3);
}

#[test]
fn bench_csv_is_a_head_and_a_line_for_each_size() {
    let output = infiniccl(&[
        "bench",
        "send_recv",
        "--ranks",
        "2",
        "-b",
        "1K",
        "-e",
        "2K",
        "-n",
        "2",
        "-c",
        "0",
        "--csv",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(
        lines[0],
        "collective,dtype,op,count,bytes,min_us,p50_us,p95_us,algbw_gbs,busbw_gbs,wrong"
    );
    assert_eq!(lines.len(), 3);
    assert!(
        lines[1].starts_with("send_recv,float32,none,256,1024,") && lines[1].ends_with(",-"),
        "{text}"
    );
}

#[test]
fn bench_inside_ranks_of_a_launcher_joins_them_and_starts_none() {
    let program = env!("CARGO_BIN_EXE_infiniccl");
    let inside = |more: &[&str]| {
        let launch = ["run", "-n", "2", "--timeout", "60", "--", program];
        let bench = ["bench", "all_gather", "-b", "64", "-e", "64", "-n", "2", "--csv"];
        infiniccl(&[&launch[..], &bench, more].concat())
    };
    let joined = inside(&[]);
    assert_eq!(joined.status.code(), Some(0), "{}", stderr(&joined));
    let text = String::from_utf8(joined.stdout).unwrap();
    assert_eq!(
        text.matches("[0] all_gather,").count(),
        1,
        "one table for all ranks: {text}"
    );
    assert_eq!(text.matches("[1] ").count(), 0, "{text}");

    let refused = inside(&["--ranks", "2"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        stderr(&refused).contains("RANK and WORLD_SIZE is set"),
        "{}",
        stderr(&refused)
    );
}

#[test]
fn bench_alone_is_one_rank_unless_a_launcher_says_otherwise() {
    let alone = json(&infiniccl(&[
        "bench",
        "all_reduce",
        "-b",
        "8",
        "-e",
        "8",
        "-n",
        "1",
        "--json",
    ]));
    assert_eq!(alone["ranks"], 1);
    for variables in [
        &[("OMPI_COMM_WORLD_SIZE", "4")][..],
        &[("PMI_SIZE", "4")],
        &[("WORLD_SIZE", "4")],
    ] {
        let output = with_variables(
            &["bench", "all_reduce", "-b", "8", "-e", "8", "--json"],
            variables,
        );
        assert_ne!(
            output.status.code(),
            Some(0),
            "{variables:?}: 4 ranks were promised, and none came"
        );
        assert!(output.stdout.is_empty());
        assert!(
            stderr(&output).contains(variables[0].0),
            "{variables:?}: {}",
            stderr(&output)
        );
    }
}

#[test]
fn wrong_arguments_of_bench_say_what_there_is() {
    for (arguments, text) in [
        (&["bench", "all_reduse"][..], "all_reduce"),
        (&["bench", "all_reduce", "-d", "float15"], "float16"),
        (&["bench", "all_reduce", "-o", "mean"], "avg"),
        (&["bench", "all_reduce", "-d", "bool", "-o", "avg"], "avg of bool"),
        (&["bench", "all_reduce", "-b", "1M", "-e", "1K"], "smallest"),
        (&["bench", "all_reduce", "-b", "4MB"], "64K"),
        (
            &["bench", "all_reduce", "--ranks", "3", "--nodes", "2+2"],
            "--ranks 3 and --nodes 2+2 disagree",
        ),
    ] {
        let output = infiniccl(arguments);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{arguments:?}: {}",
            stderr(&output)
        );
        assert!(
            stderr(&output).contains(text),
            "{arguments:?}: {}",
            stderr(&output)
        );
    }
}

#[test]
fn a_small_demo_is_right_and_its_numbers_agree() {
    let object = json(&infiniccl(&[
        "demo",
        "--nodes",
        "2+1",
        "--order",
        "interleaved",
        "--namespaces",
        "never",
        "--json",
    ]));
    assert_eq!(object["failed"], 0);
    assert_eq!(
        object["passed"].as_u64().unwrap() as usize,
        object["cases"].as_array().unwrap().len()
    );
    assert_eq!(
        object["about"]["paths"],
        serde_json::json!({"host": 1, "net-tcp": 2})
    );
    assert_eq!(object["about"]["nodes"], serde_json::json!([[0, 2], [1]]));
}

#[test]
fn a_demo_whose_ranks_cannot_start_fails_all_cases() {
    let output = infiniccl(&[
        "demo",
        "--nodes",
        "1+1",
        "--namespaces",
        "never",
        "--net",
        "net-none",
    ]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.trim_end().ends_with("0 passed, 417 failed"), "{text}");
    assert!(stderr(&output).contains("net-none"), "{}", stderr(&output));
}

#[test]
fn info_lists_plugins_devices_and_values_with_their_origin() {
    let object = json(&with_variables(
        &["info", "--json"],
        &[("INFINICCL_TIMEOUT", "7")],
    ));
    assert_eq!(object["config"], "built-in");
    let names: Vec<_> = object["plugins"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| p["name"].as_str().unwrap())
        .collect();
    assert!(names.contains(&"host") && names.contains(&"net-tcp"), "{names:?}");
    let values = object["values"].as_array().unwrap();
    let timeout = values.iter().find(|v| v["key"] == "timeouts.collective").unwrap();
    assert_eq!(timeout["origin"], "variable INFINICCL_TIMEOUT");
    let text = String::from_utf8(infiniccl(&["info", "--config"]).stdout).unwrap();
    assert!(text.contains("timeouts.collective"), "{text}");
}

#[test]
fn matrix_and_plan_have_a_row_for_all_and_a_taken_candidate() {
    let matrix = json(&infiniccl(&["matrix", "--json"]));
    let rows = matrix["rows"].as_array().unwrap();
    let refused: Vec<_> = rows.iter().filter(|r| r["effective"] == "refused").collect();
    assert!(
        !rows.is_empty() && refused.iter().all(|r| r["dtype"] == "bool" && r["op"] == "avg"),
        "{refused:?}"
    );
    let one = json(&infiniccl(&[
        "matrix",
        "--json",
        "--collective",
        "all_reduce",
        "--dtype",
        "int8",
        "--op",
        "avg",
    ]));
    assert_eq!(one["rows"].as_array().unwrap().len(), 1);

    let plan = json(&infiniccl(&[
        "plan",
        "all_reduce",
        "--bytes",
        "1M",
        "--nodes",
        "3+1+2+2",
        "-o",
        "avg",
        "--json",
    ]));
    let taken = &plan["algorithm"];
    let candidates = plan["candidates"].as_array().unwrap();
    let cost = |c: &Value| c["cost_ns"].as_u64();
    let least = candidates.iter().filter_map(cost).min();
    assert_eq!(
        candidates
            .iter()
            .find(|c| c["algorithm"] == *taken)
            .and_then(cost),
        least
    );
    assert!(
        plan["lowering"].is_string(),
        "a mean across nodes is rewritten: {plan}"
    );
}
