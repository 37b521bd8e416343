//! Workers behind handles: a handle that is stale, or in use by another thread, is an error and nothing worse.

use crate::error::{Failure, Result, usage};
use crate::worker::Worker;
use infiniccl_plugin_api::Status;
use std::sync::{Mutex, MutexGuard, TryLockError};

/// Most workers of a process.
const PLACES: usize = 4096;

/// A place for a worker, on cache lines of its own since its owner touches it at each call.
#[repr(align(128))]
struct Place(Mutex<Occupant>);

struct Occupant {
    /// Grows with each worker that stands here; handles carry it.
    generation: u32,
    worker: Option<Worker>,
}

static WORKERS: [Place; PLACES] = [const {
    Place(Mutex::new(Occupant {
        generation: 0,
        worker: None,
    }))
}; PLACES];

/// Places that were given back, and how many were ever used.
static FREE: Mutex<(Vec<u32>, u32)> = Mutex::new((Vec::new(), 0));

/// A panic inside a call poisons the whole plugin, so that nothing is ever read through a poisoned lock.
fn lock<T>(mutex: &Mutex<T>) -> Result<MutexGuard<'_, T>> {
    mutex
        .lock()
        .map_err(|_| Failure::new(Status::PANICKED, "a call panicked before"))
}

/// Takes a worker in and returns its handle.
pub(crate) fn insert(worker: Worker) -> Result<u64> {
    let mut free = lock(&FREE)?;
    let index = match free.0.pop() {
        Some(index) => index,
        None if (free.1 as usize) < PLACES => {
            free.1 += 1;
            free.1 - 1
        }
        None => {
            return Err(Failure::new(
                Status::SYSTEM,
                format!("this process has {PLACES} workers of net-tcp open; close some"),
            ));
        }
    };
    drop(free);
    let mut occupant = lock(&WORKERS[index as usize].0)?;
    occupant.generation += 1;
    occupant.worker = Some(worker);
    Ok(u64::from(occupant.generation) << 32 | u64::from(index))
}

/// The place of a handle, if nobody else uses it now.
fn place(handle: u64) -> Result<MutexGuard<'static, Occupant>> {
    let stale = || {
        usage(format!(
            "{handle:#x} is no worker of net-tcp; was it closed before?"
        ))
    };
    let index = (handle & u64::from(u32::MAX)) as usize;
    let place = WORKERS.get(index).ok_or_else(stale)?;
    let occupant = match place.0.try_lock() {
        Ok(occupant) => occupant,
        Err(TryLockError::WouldBlock) => {
            return Err(usage(format!(
                "two threads call worker {handle:#x} at once; it has one owner at a time"
            )));
        }
        Err(TryLockError::Poisoned(_)) => {
            return Err(Failure::new(
                Status::PANICKED,
                "a call of this worker panicked before",
            ));
        }
    };
    match u64::from(occupant.generation) == handle >> 32 && occupant.worker.is_some() {
        true => Ok(occupant),
        false => Err(stale()),
    }
}

/// Calls `body` with the worker of a handle.
#[inline]
pub(crate) fn with<T>(handle: u64, body: impl FnOnce(&mut Worker) -> Result<T>) -> Result<T> {
    let mut occupant = place(handle)?;
    match &mut occupant.worker {
        Some(worker) => body(worker),
        None => Err(usage("the worker is gone")),
    }
}

/// Takes a worker out; its handle is stale from now on.
pub(crate) fn remove(handle: u64) -> Result<Worker> {
    let mut occupant = place(handle)?;
    let worker = occupant
        .worker
        .take()
        .ok_or_else(|| usage("the worker is gone"))?;
    // A place whose generations are used up is left alone, since a handle would come back.
    let reusable = occupant.generation < u32::MAX;
    drop(occupant);
    if reusable {
        lock(&FREE)?.0.push((handle & u64::from(u32::MAX)) as u32);
    }
    Ok(worker)
}
