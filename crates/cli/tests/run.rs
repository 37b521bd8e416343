//! `infiniccl run` from outside: what a shell sees, and that nothing stays behind.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn infiniccl(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_infiniccl"));
    command.args(arguments).stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> Output {
    let mut all = vec!["run", "--timeout", "60"];
    all.extend(arguments);
    infiniccl(&all).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Whether a process exists and is no zombie.
fn lives(pid: &str) -> bool {
    fs::read_to_string(Path::new("/proc").join(pid).join("stat")).is_ok_and(|stat| {
        !stat
            .rsplit(')')
            .next()
            .unwrap_or("")
            .trim_start()
            .starts_with('Z')
    })
}

fn gone_within(limit: Duration, pids: &[String]) {
    let end = Instant::now() + limit;
    while let Some(pid) = pids.iter().find(|p| lives(p)) {
        assert!(
            Instant::now() < end,
            "process {pid} is still there after {limit:?}"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Starts two ranks that each tell their own process and a grandchild's, and sleep.
fn sleepers(prelude: &str) -> (Child, Vec<String>) {
    let script = format!("{prelude} sleep 120 & echo $$; echo $!; while :; do wait; done");
    let mut child = infiniccl(&["run", "-n", "2", "--timeout", "60", "--", "sh", "-c", &script])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    let pids = (0..4)
        .map(|_| {
            lines
                .next()
                .unwrap()
                .unwrap()
                .split(' ')
                .nth(1)
                .unwrap()
                .to_string()
        })
        .collect();
    (child, pids)
}

fn signal(child: &Child, name: &str) {
    let status = Command::new("kill")
        .args([name, &child.id().to_string()])
        .status()
        .unwrap();
    assert!(status.success());
}

#[test]
fn lines_carry_their_rank_and_stay_on_their_stream() {
    let output = run(&["-n", "2", "--", "sh", "-c", "echo out; printf err >&2"]);
    assert_eq!(output.status.code(), Some(0));
    let mut lines: Vec<_> = std::str::from_utf8(&output.stdout).unwrap().lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["[0] out", "[1] out"]);
    let errors = stderr(&output);
    assert!(
        errors.contains("[0] err\n") && errors.contains("[1] err\n"),
        "{errors}"
    );
}

#[test]
fn the_first_failing_rank_gives_the_code_and_is_named() {
    let began = Instant::now();
    let output = run(&[
        "-n",
        "4",
        "--",
        "sh",
        "-c",
        "[ $RANK = 2 ] && { sleep 1; exit 3; }; exec sleep 120",
    ]);
    assert_eq!(output.status.code(), Some(3));
    assert!(began.elapsed() < Duration::from_secs(15));
    assert!(
        stderr(&output).contains("infiniccl: rank 2 exited with 3 after 1."),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_killed_rank_gives_128_and_its_signal() {
    let output = run(&[
        "-n",
        "2",
        "--",
        "sh",
        "-c",
        "[ $RANK = 1 ] && kill -SEGV $$; exec sleep 120",
    ]);
    assert_eq!(output.status.code(), Some(139));
    assert!(
        stderr(&output).contains("rank 1 was killed by signal 11 (SIGSEGV)"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn on_failure_wait_lets_the_others_finish() {
    let script = "[ $RANK = 0 ] && exit 5; sleep 0.5; echo finished";
    let output = run(&["-n", "2", "--on-failure", "wait", "--", "sh", "-c", script]);
    assert_eq!(output.status.code(), Some(5));
    assert_eq!(output.stdout, b"[1] finished\n");
}

#[test]
fn the_time_limit_gives_124() {
    let output = infiniccl(&["run", "-n", "2", "--timeout", "0.5", "--", "sleep", "120"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(124));
    assert!(
        stderr(&output).contains("limit of 0.5 s: ending ranks 0, 1"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_program_that_is_not_there_gives_127_and_one_that_may_not_run_126() {
    let output = run(&["-n", "2", "--", "/nowhere/program"]);
    assert_eq!(output.status.code(), Some(127));
    assert!(
        stderr(&output).contains("cannot start '/nowhere/program'"),
        "{}",
        stderr(&output)
    );
    assert_eq!(run(&["-n", "1", "--", "/etc/passwd"]).status.code(), Some(126));
}

#[test]
fn ranks_and_nodes_that_disagree_are_refused() {
    let output = run(&["-n", "5", "--nodes", "2+2", "--", "true"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("-n 5 and --nodes 2+2 disagree: the nodes have 4 ranks together"));
    assert_eq!(run(&["--", "true"]).status.code(), Some(2));
}

#[test]
fn interrupting_the_launcher_interrupts_the_ranks() {
    for (name, code) in [("-INT", 130), ("-TERM", 143), ("-HUP", 129)] {
        let (mut child, pids) = sleepers("trap 'echo caught; exit 0' INT TERM HUP;");
        signal(&child, name);
        assert_eq!(child.wait().unwrap().code(), Some(code), "{name}");
        let mut rest = String::new();
        child.stdout.take().unwrap().read_to_string(&mut rest).unwrap();
        assert_eq!(rest.matches("caught").count(), 2, "{name}: {rest}");
        gone_within(Duration::from_secs(5), &pids);
    }
}

#[test]
fn killing_the_launcher_takes_ranks_and_grandchildren_along() {
    let (mut child, pids) = sleepers("trap '' INT TERM HUP;");
    signal(&child, "-KILL");
    child.wait().unwrap();
    gone_within(Duration::from_secs(5), &pids);
}

#[test]
fn a_reader_that_leaves_ends_the_job() {
    let mut child = infiniccl(&["run", "-n", "2", "--timeout", "60", "--", "sh", "-c", "exec yes"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(&line[3..], " y\n");
    assert_eq!(child.wait().unwrap().code(), Some(128 + 13));
}

#[test]
fn the_secret_is_in_the_environment_and_nowhere_else() {
    let script =
        "echo $INFINICCL_SECRET; tr '\\0' ' ' </proc/$PPID/cmdline; tr '\\0' ' ' </proc/$$/cmdline; echo";
    let output = run(&["-n", "1", "--", "sh", "-c", script]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let secret = text.lines().next().unwrap().strip_prefix("[0] ").unwrap();
    assert_eq!(secret.len(), 64);
    assert_eq!(text.matches(secret).count(), 1);
    assert!(!stderr(&output).contains(secret));
}

#[test]
fn nodes_in_a_namespace_have_names_and_an_interface() {
    let script = "hostname; echo $INFINICCL_NODE; echo $INFINICCL_INTERFACE; echo $MASTER_ADDR";
    let output = run(&[
        "--nodes",
        "1+1",
        "--namespaces",
        "always",
        "--",
        "sh",
        "-c",
        script,
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for rank in 0..2 {
        let prefix = format!("[{rank}] ");
        let lines: Vec<_> = text
            .lines()
            .filter_map(|l| l.strip_prefix(prefix.as_str()))
            .collect();
        assert_eq!(lines[0], lines[1]);
        assert!(lines[0].ends_with(&format!("-{rank}")), "{text}");
        assert_eq!(lines[2..], ["eth0", "10.83.0.1"]);
    }
}

#[test]
fn the_configuration_reaches_the_ranks_as_a_full_path() {
    let folder = std::env::temp_dir().join(format!("infiniccl-run-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("mine.toml"), "").unwrap();
    let output = infiniccl(&[
        "run",
        "--config",
        "mine.toml",
        "-n",
        "1",
        "--",
        "sh",
        "-c",
        "echo $INFINICCL_CONFIG",
    ])
    .current_dir(&folder)
    .output()
    .unwrap();
    let missing = infiniccl(&["--config", "none.toml", "run", "-n", "1", "--", "true"])
        .current_dir(&folder)
        .output()
        .unwrap();
    fs::remove_dir_all(&folder).unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        text.starts_with("[0] /") && text.ends_with("/mine.toml\n"),
        "{text}"
    );
    assert_eq!(missing.status.code(), Some(1));
    assert!(
        stderr(&missing).contains("--config none.toml"),
        "{}",
        stderr(&missing)
    );
}
