//! Gathers what the ranks report, and shows how far they have come.

use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use infiniccl_testkit::job::{Sink, Stream};
use serde_json::{Value, json};

use super::cases::{Unit, units};

/// What the ranks have reported so far.
pub(super) struct Results {
    units: Vec<Unit>,
    ranks: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// For each unit: the ranks that reported it.
    done: Vec<usize>,
    /// For each unit: wrong elements on all ranks, and the first of them in words.
    wrong: Vec<(u64, Option<String>)>,
    about: Value,
    /// Pairs of ranks by the plugin that carries their messages, each counted from both ends.
    paths: std::collections::BTreeMap<String, usize>,
}

/// The end of the demo.
pub(super) struct Verdict {
    pub(super) passed: usize,
    pub(super) failed: usize,
    /// For each unit, whether it passed.
    pub(super) units: Vec<(Unit, bool)>,
    /// Each unit with what was wrong.
    pub(super) cases: Vec<Value>,
}

impl Results {
    pub(super) fn new(ranks: usize) -> Self {
        let units = units();
        let state = State {
            done: vec![0; units.len()],
            wrong: vec![(0, None); units.len()],
            ..Default::default()
        };
        Results {
            units,
            ranks,
            state: Mutex::new(state),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a line of a rank's report; false if it is none.
    fn take(&self, rank: usize, line: &[u8]) -> bool {
        let Ok(Value::Object(mut object)) = serde_json::from_slice(line) else {
            return false;
        };
        let mut state = self.lock();
        if let Some(about) = object.remove("about") {
            state.about = about;
        } else if let Some(Value::Array(links)) = object.remove("links") {
            for path in links.iter().filter_map(|l| l["path"].as_str()) {
                *state.paths.entry(path.to_string()).or_default() += 1;
            }
        } else if let Some(number) = object.get("unit").and_then(Value::as_u64) {
            let Some(unit) = usize::try_from(number).ok().filter(|&n| n < self.units.len()) else {
                return false;
            };
            state.done[unit] += 1;
            let entry = &mut state.wrong[unit];
            entry.0 += object.get("wrong").and_then(Value::as_u64).unwrap_or(1);
            if let Some(first) = object.get("first").and_then(Value::as_str) {
                entry.1.get_or_insert_with(|| format!("rank {rank}: {first}"));
            }
            if rank == 0 {
                self.show_progress(unit + 1);
            }
        } else {
            return false;
        }
        true
    }

    /// One line that is written over, on terminals only.
    fn show_progress(&self, done: usize) {
        if io::stderr().is_terminal() {
            let _ = write!(io::stderr(), "\r{done} of {} cases", self.units.len());
        }
    }

    pub(super) fn clear_progress(&self) {
        if io::stderr().is_terminal() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }

    /// What rank 0 said about the job, with the paths of all pairs.
    pub(super) fn about(&self) -> Value {
        let state = self.lock();
        let mut about = state.about.clone();
        if let Value::Object(object) = &mut about {
            let paths = state
                .paths
                .iter()
                .map(|(path, ends)| (path.clone(), json!(ends / 2)))
                .collect();
            object.insert("paths".into(), Value::Object(paths));
        }
        about
    }

    /// A unit has passed when every rank has reported it, and none found anything wrong.
    pub(super) fn verdict(&self) -> Verdict {
        let state = self.lock();
        let passes = |i: usize| state.done[i] == self.ranks && state.wrong[i].0 == 0;
        let units: Vec<_> = self
            .units
            .iter()
            .enumerate()
            .map(|(i, &unit)| (unit, passes(i)))
            .collect();
        let case = |(i, (unit, ok)): (usize, &(Unit, bool))| {
            let first = match (&state.wrong[i].1, state.done[i] == self.ranks) {
                (Some(first), _) => Some(first.clone()),
                (None, true) => None,
                (None, false) => Some(format!("{} of {} ranks got here", state.done[i], self.ranks)),
            };
            json!({"collective": unit.collective_name(), "dtype": unit.dtype.name(),
                   "op": unit.op.map(|op| op.name()), "passed": ok, "wrong": state.wrong[i].0, "first": first})
        };
        let cases = units.iter().enumerate().map(case).collect();
        let passed = units.iter().filter(|(_, ok)| *ok).count();
        Verdict {
            passed,
            failed: units.len() - passed,
            units,
            cases,
        }
    }
}

/// Hands the ranks' lines to the results; what is no report goes to standard error.
pub(super) struct Collector {
    results: Arc<Results>,
}

impl Collector {
    pub(super) fn new(results: Arc<Results>) -> Self {
        Collector { results }
    }
}

impl Sink for Collector {
    fn line(&mut self, rank: usize, stream: Stream, line: &[u8]) -> io::Result<()> {
        if stream == Stream::Out && self.results.take(rank, line) {
            return Ok(());
        }
        self.results.clear_progress();
        writeln!(io::stderr(), "[{rank}] {}", String::from_utf8_lossy(line))
    }

    fn notice(&mut self, text: &str) {
        self.results.clear_progress();
        let _ = writeln!(io::stderr(), "infiniccl: {text}");
    }
}
