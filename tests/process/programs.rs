//! Programs that a test starts by themselves, without the job runner: all at once, with one limit.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use infiniccl_testkit::cluster::FOREIGN_VARIABLES;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::Event;

/// Variables of a job that a rank must not inherit from whoever started the test.
const OWN_VARIABLES: [&str; 9] = [
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "INFINICCL_ROOT",
    "INFINICCL_SECRET",
    "INFINICCL_NODE",
    "INFINICCL_INTERFACE",
    "INFINICCL_CONFIG",
];

/// A program that no launcher started, as far as its environment tells.
pub fn by_hand(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for name in FOREIGN_VARIABLES.iter().chain(&OWN_VARIABLES) {
        command.env_remove(name);
    }
    command
}

/// How a program ended, and what it wrote.
#[derive(Debug)]
pub struct Written {
    /// Its exit code or signal.
    pub status: ExitStatus,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Written {
    /// The events in its standard output, also behind the `[rank]` that `infiniccl run` puts before each line.
    pub fn events(&self, name: &str) -> Vec<Event> {
        let bare = |line: &'_ str| line.find('@').map(|at| line[at..].to_string());
        let events = self.out.lines().filter_map(bare);
        let events = events.filter_map(|line| Event::parse(&line));
        events.filter(|event| event.name() == name).collect()
    }

    /// The one event with this name.
    ///
    /// # Panics
    /// When there is none, or more than one.
    pub fn event(&self, name: &str) -> Event {
        match <[Event; 1]>::try_from(self.events(name)) {
            Ok([event]) => event,
            Err(found) => panic!("{} events are called `{name}`: {self:#?}", found.len()),
        }
    }
}

/// A program that runs, in a process group of its own; killed when it is dropped.
pub struct Running {
    child: Child,
    out: Option<JoinHandle<String>>,
    err: Option<JoinHandle<String>>,
}

impl Running {
    /// Starts `command`.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn start(mut command: Command) -> Self {
        command
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .unwrap_or_else(|e| panic!("cannot start {command:?}: {e}"));
        Running {
            out: Some(read(child.stdout.take().expect("stdout is piped"))),
            err: Some(read(child.stderr.take().expect("stderr is piped"))),
            child,
        }
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When it has not ended at `deadline`.
    pub fn wait(mut self, deadline: Instant) -> Written {
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a child can be waited for") {
                break Some(status);
            }
            if Instant::now() >= deadline {
                break None;
            }
            thread::sleep(Duration::from_millis(2));
        };
        self.end();
        let text = |stream: &mut Option<JoinHandle<String>>| {
            let reader = stream.take().expect("read once");
            reader.join().expect("the reader does not panic")
        };
        let (out, err) = (text(&mut self.out), text(&mut self.err));
        match status {
            Some(status) => Written { status, out, err },
            None => panic!("the program did not end in time; it wrote:\n{out}\n{err}"),
        }
    }

    /// Kills whatever is left of its group.
    fn end(&mut self) {
        let group = Pid::from_child(&self.child);
        // An empty group is what we wanted.
        let _ = kill_process_group(group, Signal::KILL);
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

fn read(mut stream: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What came before an error is what there is.
        let _ = stream.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Starts all of them, and waits for all, at most `limit`.
///
/// # Panics
/// When one cannot be started or does not end in time.
pub fn run_all(commands: impl IntoIterator<Item = Command>, limit: Duration) -> Vec<Written> {
    let deadline = Instant::now() + limit;
    let running: Vec<Running> = commands.into_iter().map(Running::start).collect();
    running
        .into_iter()
        .map(|program| program.wait(deadline))
        .collect()
}

/// As [`run_all`], for one.
///
/// # Panics
/// When it cannot be started or does not end in time.
pub fn run_one(command: Command, limit: Duration) -> Written {
    Running::start(command).wait(Instant::now() + limit)
}
