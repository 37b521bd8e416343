//! What the callers of a control plane and the service thread share: commands one way, results and the failure the other.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use super::report::{Failure, LateReport, StatusReport};
use super::tree::describe_ranks;

/// What a caller asks of the service thread.
pub(crate) enum Command {
    /// Give this record to an exchange.
    Gather { round: u64, what: String, blob: Vec<u8> },
    /// Declare the communicator failed.
    Fail(Failure),
    /// Data of this call from this peer belonged to another call.
    Disagree { seq: u64, peer: u32 },
    /// The hosts of all ranks.
    Hosts(Vec<String>),
    /// A call has begun to wait: look at the status soon.
    Nudge,
    /// This rank is done.
    Leave,
}

/// Results for the callers.
#[derive(Default)]
pub(crate) struct Board {
    /// The exchange that ended last.
    pub(crate) gathered: Option<(u64, Vec<Vec<u8>>)>,
    /// The exchange that waits: its round, how many ranks are missing, the first of them.
    pub(crate) waiting: Option<(u64, u32, Vec<u32>)>,
    /// Who is late, as the root said last.
    pub(crate) late: Option<LateReport>,
    /// The service thread has dropped its part of this communicator.
    pub(crate) ended: bool,
    /// Everything this rank had to say when it left is on its way.
    pub(crate) said: bool,
}

/// Provides what a rank is doing.
pub(crate) type StatusSource = std::sync::Arc<dyn Fn() -> StatusReport + Send + Sync>;
/// Is told of the failure, once.
pub(crate) type FailureHook = Box<dyn Fn(&Failure) + Send + Sync>;

/// The state that both sides hold.
pub(crate) struct PlaneState {
    commands: Mutex<Vec<Command>>,
    board: Mutex<Board>,
    changed: Condvar,
    failed: AtomicBool,
    failure: OnceLock<Failure>,
    status: Mutex<Option<StatusSource>>,
    hooks: Mutex<Hooks>,
}

#[derive(Default)]
struct Hooks {
    waiting: Vec<FailureHook>,
    called: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PlaneState {
    pub(crate) fn new() -> Self {
        PlaneState {
            commands: Mutex::new(Vec::new()),
            board: Mutex::new(Board::default()),
            changed: Condvar::new(),
            failed: AtomicBool::new(false),
            failure: OnceLock::new(),
            status: Mutex::new(None),
            hooks: Mutex::new(Hooks::default()),
        }
    }

    /// Leaves a command for the service thread.
    pub(crate) fn command(&self, command: Command) {
        lock(&self.commands).push(command);
    }

    /// Takes all commands.
    pub(crate) fn take_commands(&self) -> Vec<Command> {
        std::mem::take(&mut *lock(&self.commands))
    }

    /// Changes the board and wakes those who wait for it.
    pub(crate) fn post(&self, change: impl FnOnce(&mut Board)) {
        change(&mut lock(&self.board));
        self.changed.notify_all();
    }

    /// Looks at the board.
    pub(crate) fn read<T>(&self, look: impl FnOnce(&Board) -> T) -> T {
        look(&lock(&self.board))
    }

    /// Waits until `look` finds something on the board, or `deadline` has passed.
    pub(crate) fn wait<T>(
        &self,
        deadline: Instant,
        mut look: impl FnMut(&mut Board) -> Option<T>,
    ) -> Option<T> {
        let mut board = lock(&self.board);
        loop {
            if let Some(found) = look(&mut board) {
                return Some(found);
            }
            let left = deadline
                .checked_duration_since(Instant::now())
                .filter(|left| !left.is_zero())?;
            board = self
                .changed
                .wait_timeout(board, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Whether the communicator failed; one load.
    pub(crate) fn failed_flag(&self) -> &AtomicBool {
        &self.failed
    }

    /// The failure.
    pub(crate) fn failure(&self) -> Option<&Failure> {
        if self.failed.load(Ordering::Acquire) {
            self.failure.get()
        } else {
            None
        }
    }

    /// Sets the failure unless there is one, and wakes those who wait.
    pub(crate) fn set_failure(&self, failure: Failure) {
        let _ = self.failure.set(failure);
        self.failed.store(true, Ordering::Release);
        // Under the lock, so that a caller between its check and its wait does not miss it.
        drop(lock(&self.board));
        self.changed.notify_all();
    }

    /// What this rank is doing, as its owner says.
    pub(crate) fn status(&self) -> StatusReport {
        let source = lock(&self.status).clone();
        source.map(|source| source()).unwrap_or_default()
    }

    /// Sets who says what this rank is doing.
    pub(crate) fn set_status_source(&self, source: Option<StatusSource>) {
        *lock(&self.status) = source;
    }

    /// Adds a hook; when the hooks have been called already, this one is called now.
    pub(crate) fn add_hook(&self, hook: FailureHook) {
        let mut hooks = lock(&self.hooks);
        if !hooks.called {
            return hooks.waiting.push(hook);
        }
        drop(hooks);
        if let Some(failure) = self.failure() {
            hook(failure);
        }
    }

    /// Calls the hooks, once.
    pub(crate) fn call_hooks(&self) {
        let Some(failure) = self.failure() else { return };
        let waiting = {
            let mut hooks = lock(&self.hooks);
            hooks.called = true;
            std::mem::take(&mut hooks.waiting)
        };
        waiting.iter().for_each(|hook| hook(failure));
    }

    /// Who an exchange waits for, as a sentence; and the rank, where it is one alone.
    pub(crate) fn who_waits(&self, round: u64, size: u32) -> (String, Option<u32>) {
        self.read(|board| match &board.waiting {
            Some((at, count, missing)) if *at == round => {
                let total = usize::try_from(*count).unwrap_or(usize::MAX);
                let here = size - count.min(&size);
                let list = describe_ranks(missing, total);
                let only = missing.first().copied().filter(|_| *count == 1);
                (format!("{here} of {size} ranks took part; missing {list}"), only)
            }
            _ => ("the root has not said who is missing".to_owned(), None),
        })
    }
}
