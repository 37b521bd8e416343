//! The progress thread of the process: drives the calls that nobody waits for.

use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::Duration;

/// What the progress thread drives.
pub(crate) trait Driven: Send + Sync {
    /// Does what can be done without waiting. `None`: nothing is under way; otherwise whether something moved.
    fn drive(&self) -> Option<bool>;
}

/// How long a round without any movement sleeps: short at first, so that a call that is about to end is noticed.
const SHORTEST: Duration = Duration::from_micros(20);
const LONGEST: Duration = Duration::from_millis(1);

#[derive(Default)]
struct Queue {
    work: Vec<Weak<dyn Driven>>,
    running: bool,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue {
    work: Vec::new(),
    running: false,
});
static MORE: Condvar = Condvar::new();

/// Has `driven` driven until nothing is under way there.
pub(crate) fn serve(driven: &Arc<dyn Driven>) {
    let mut queue = QUEUE.lock().unwrap_or_else(PoisonError::into_inner);
    if !queue
        .work
        .iter()
        .any(|w| std::ptr::addr_eq(w.as_ptr(), Arc::as_ptr(driven)))
    {
        queue.work.push(Arc::downgrade(driven));
    }
    if !queue.running {
        // Without the thread, whoever waits for a call drives it, only later.
        queue.running = std::thread::Builder::new()
            .name("infiniccl-progress".into())
            .spawn(run)
            .is_ok();
    }
    MORE.notify_one();
}

fn run() {
    let mut pause = SHORTEST;
    loop {
        let work: Vec<Arc<dyn Driven>> = {
            let mut queue = QUEUE.lock().unwrap_or_else(PoisonError::into_inner);
            queue.work.retain(|w| w.strong_count() > 0);
            while queue.work.is_empty() {
                let (back, waited) = MORE
                    .wait_timeout(queue, IDLE)
                    .unwrap_or_else(PoisonError::into_inner);
                queue = back;
                if waited.timed_out() && queue.work.is_empty() {
                    queue.running = false;
                    return;
                }
            }
            queue.work.iter().filter_map(Weak::upgrade).collect()
        };
        let mut moved = false;
        for driven in &work {
            match driven.drive() {
                Some(any) => moved |= any,
                None => remove(driven),
            }
        }
        drop(work);
        if moved {
            pause = SHORTEST;
        } else {
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST);
        }
    }
}

/// How long the thread stays without work before it ends.
const IDLE: Duration = Duration::from_secs(2);

fn remove(driven: &Arc<dyn Driven>) {
    let mut queue = QUEUE.lock().unwrap_or_else(PoisonError::into_inner);
    // What was submitted since `drive` looked must not be forgotten.
    if driven.drive().is_none() {
        queue
            .work
            .retain(|w| !std::ptr::addr_eq(w.as_ptr(), Arc::as_ptr(driven)));
    }
}
