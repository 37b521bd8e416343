//! A job of ranks that a test watches: their events, their processes, and how they ended.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use infiniccl_testkit::cluster::{Cluster, ClusterSpec, Layout, Order};
use infiniccl_testkit::job::{Capture, Exit, Job, Limits, OnFailure, Outcome, Stream};
use rustix::process::{Pid, Signal, kill_process};

use crate::Event;

/// The longest that a test waits for an event.
const PATIENCE: Duration = Duration::from_secs(40);

/// The longest that a job may take.
const LIMIT: Duration = Duration::from_secs(50);

/// As many nodes as `layout` has: namespaces where they can be made, loopback addresses otherwise.
///
/// # Panics
/// When the nodes cannot be made.
pub fn cluster(layout: &str) -> (Cluster, Layout) {
    let layout = Layout::parse(layout, Order::Block).expect("a layout");
    let spec = ClusterSpec {
        nodes: layout.nodes(),
        ..Default::default()
    };
    (Cluster::build(&spec).expect("nodes"), layout)
}

/// Asks `look` until it finds something.
///
/// # Panics
/// When that takes longer than 40 seconds.
pub fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "{what} did not happen");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Ranks that run; a failed rank is left to the library, as under `infiniccl run --on-failure wait`.
pub struct Ranks {
    job: Job,
    seen: Capture,
    size: usize,
}

impl Ranks {
    /// Starts `program` with `arguments` on every rank of `layout`.
    ///
    /// # Panics
    /// When a process cannot be started.
    pub fn start(cluster: &Cluster, layout: &Layout, program: &str, arguments: &[&str]) -> Self {
        Self::start_each(cluster, layout, |_| {
            let mut command = Command::new(program);
            command.args(arguments);
            command
        })
    }

    /// Starts a command for each rank.
    ///
    /// # Panics
    /// When a process cannot be started.
    pub fn start_each(cluster: &Cluster, layout: &Layout, command: impl FnMut(usize) -> Command) -> Self {
        let seen = Capture::new();
        let job = Job::start(cluster, layout, Box::new(seen.clone()), command).expect("the ranks start");
        Ranks {
            job,
            seen,
            size: layout.ranks(),
        }
    }

    /// The number of ranks.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The process of a rank.
    pub fn pid(&self, rank: usize) -> Pid {
        self.job.pid(rank)
    }

    /// Sends a signal to one rank.
    ///
    /// # Panics
    /// When the rank is gone.
    pub fn signal(&self, rank: usize, signal: Signal) {
        kill_process(self.pid(rank), signal)
            .unwrap_or_else(|e| panic!("rank {rank} cannot be signalled: {e}"));
    }

    /// Waits for an event of `rank`.
    ///
    /// # Panics
    /// When it does not come in time.
    pub fn event(&self, rank: usize, name: &str) -> Event {
        self.event_that(rank, name, |_| true)
    }

    /// Waits for an event of `rank` that `fits`.
    ///
    /// # Panics
    /// When it does not come in time.
    pub fn event_that(&self, rank: usize, name: &str, fits: impl Fn(&Event) -> bool) -> Event {
        let begun = Instant::now();
        loop {
            let found = events(&self.seen, rank)
                .into_iter()
                .find(|event| event.name() == name && fits(event));
            if let Some(event) = found {
                return event;
            }
            assert!(
                begun.elapsed() < PATIENCE,
                "rank {rank} did not say `{name}`:\n{}",
                self.seen.report()
            );
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits for an event on every rank.
    ///
    /// # Panics
    /// When one does not say it in time.
    pub fn all_say(&self, name: &str) {
        (0..self.size).for_each(|rank| {
            self.event(rank, name);
        });
    }

    /// Waits until every rank has ended.
    ///
    /// # Panics
    /// When the job reaches its limit, with all that the ranks said.
    pub fn wait(self) -> Ended {
        let limits = Limits {
            timeout: Some(LIMIT),
            on_failure: OnFailure::Wait,
            grace: Duration::from_secs(1),
        };
        let outcome = self.job.wait(&limits, None).expect("ranks can be waited for");
        Ended {
            outcome,
            seen: self.seen,
        }
    }
}

/// A job that has ended.
pub struct Ended {
    outcome: Outcome,
    seen: Capture,
}

impl Ended {
    /// How a rank ended.
    pub fn exit(&self, rank: usize) -> Exit {
        self.outcome.exits[rank].expect("every rank was waited for").0
    }

    /// The events of a rank with this name.
    pub fn events(&self, rank: usize, name: &str) -> Vec<Event> {
        let all = events(&self.seen, rank);
        all.into_iter().filter(|event| event.name() == name).collect()
    }

    /// The one event of a rank with this name.
    ///
    /// # Panics
    /// When there is none, or more than one.
    pub fn event(&self, rank: usize, name: &str) -> Event {
        let found = self.events(rank, name);
        match <[Event; 1]>::try_from(found) {
            Ok([event]) => event,
            Err(found) => panic!(
                "rank {rank} said `{name}` {} times:\n{}",
                found.len(),
                self.seen.report()
            ),
        }
    }

    /// All that was said, for the message of a failed assertion.
    pub fn report(&self) -> String {
        self.seen.report()
    }

    /// Asserts that every rank ended well.
    ///
    /// # Panics
    /// When one did not.
    #[track_caller]
    pub fn all_succeeded(&self) {
        assert!(
            self.outcome.is_success(),
            "{:?}\n{}",
            self.outcome.exits,
            self.report()
        );
    }
}

fn events(seen: &Capture, rank: usize) -> Vec<Event> {
    let lines = seen.lines(rank, Stream::Out);
    lines.iter().filter_map(|line| Event::parse(line)).collect()
}
