//! The communicator of all ranks that a launcher started: how they meet, from what the environment offers.
//!
//! The ranks exchange one id per process, over the first of these that is there: INFINICCL_ROOT with a secret, the
//! launcher's store (PMIx, PMI), a private file when all ranks are on one host. Every further communicator of the same
//! processes derives its id from that one, and rank 0 listens on the same ports again.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use socket2::Socket;

use super::control::ControlPlane;
use super::join::JoinParams;
use super::launch::{Env, Launch, detect, must_be_asked};
use super::listen::{bound_addresses, listen, listen_and_reserve};
use super::mpi_presence::{self, Mpi};
use super::pmi::{self, Pmi};
use super::pmix;
use super::rendezvous::{Reach, own_addresses, serve};
use super::root_address::{root_addresses, root_id, secret};
use super::settings::Settings;
use super::shared_file::SharedFile;
use super::unique_id::UniqueId;
use crate::config::{Auth, Config};
use crate::{Error, ErrorKind, Result};

/// The environment of this process.
pub(crate) fn process_env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Joins the communicator of all ranks that the launcher started; one rank alone without a launcher. Every rank calls it
/// equally often. Blocks until all have joined, at most `timeouts.connect` for meeting and as long for joining. Plugins
/// that open an MPI library must be loaded before.
///
/// # Errors
/// `InvalidUsage` when launchers contradict each other, or nothing says where the ranks meet; `Timeout` and `System` when
/// they do not meet; the errors of [`ControlPlane::join`].
pub(crate) fn join_from_environment(config: &Config, env: Env<'_>) -> Result<ControlPlane> {
    let settings = Settings::from_config(config);
    let launch = launch_of_process(env, settings.connect)?;
    let (rank, size) = launch
        .as_ref()
        .map_or((0, 1), |launch| (launch.rank, launch.size));
    let id = match launch.as_ref().filter(|launch| launch.size > 1) {
        None => UniqueId::random(&[])?,
        Some(launch) => {
            let deadline = Instant::now() + settings.connect;
            next_id(&Wish {
                launch,
                config,
                settings: &settings,
                env,
                deadline,
            })?
        }
    };
    ControlPlane::join(&JoinParams {
        id: &id,
        rank,
        size,
        settings: &settings,
    })
}

/// Takes over what belongs to the communicator of `id`, if it is the first of its job.
pub(super) fn adopt(id: &UniqueId) -> Option<First> {
    let mut job = JOB.lock().unwrap_or_else(PoisonError::into_inner);
    let job = job.as_mut().filter(|job| job.process == std::process::id())?;
    job.first.take_if(|first| first.id == *id)
}

/// Who started this process, as which rank of how many; `None` when no launcher did.
///
/// Reads the environment; a launcher that sets no rank but a port where it tells it (`mpiexec -pmi-port`) is asked, for
/// ten seconds at most.
///
/// # Errors
/// `InvalidUsage` when a launcher's variables are incomplete, or two launchers contradict each other (the message names
/// both); `System` or `Timeout` when the launcher does not answer.
pub fn launch() -> Result<Option<Launch>> {
    launch_of_process(&process_env, Duration::from_secs(10))
}

/// What the launcher says about this process; where it must be asked over a port, that takes at most `limit`.
fn launch_of_process(env: Env<'_>, limit: Duration) -> Result<Option<Launch>> {
    let Some((rank, size)) = pmi::ask_rank_and_size(env, Instant::now() + limit)? else {
        return detect(env);
    };
    detect(&|name| match name {
        "PMI_RANK" => Some(rank.to_string()),
        "PMI_SIZE" => Some(size.to_string()),
        other => env(other),
    })
}

/// What the ranks of this process's job agreed on when they first met.
struct Job {
    process: u32,
    id: UniqueId,
    next: u64,
    /// What belongs to the first communicator, until it is joined.
    first: Option<First>,
    /// Keeps the ports of rank 0 for its next communicators.
    _reserved: Vec<Socket>,
}

/// What the first communicator of a job needs beside its id.
pub(super) struct First {
    id: UniqueId,
    /// What the launcher's store needs until the communicator ends.
    pub(super) hold: Option<Box<dyn Send + Sync>>,
    /// The file that others look for until they have joined.
    _file: Option<SharedFile>,
}

static JOB: Mutex<Option<Job>> = Mutex::new(None);

struct Wish<'a> {
    launch: &'a Launch,
    config: &'a Config,
    settings: &'a Settings,
    env: Env<'a>,
    deadline: Instant,
}

impl Wish<'_> {
    fn root_addresses(&self) -> Result<Vec<SocketAddr>> {
        let text = self.config.job.root.as_deref().unwrap_or_default();
        root_addresses(text, self.launch, self.settings, self.deadline)
    }
}

/// The id for the next communicator of this job; rank 0 listens for it when this returns.
fn next_id(wish: &Wish<'_>) -> Result<UniqueId> {
    let mut job = JOB.lock().unwrap_or_else(PoisonError::into_inner);
    if job.as_ref().is_some_and(|job| job.process != std::process::id()) {
        return Err(Error::new(
            ErrorKind::InvalidUsage,
            "this process was forked from a rank of the job and is none itself: it cannot join by its environment",
        ));
    }
    if let Some(job) = &mut *job {
        let id = job.id.nth(job.next);
        if wish.launch.rank == 0 {
            serve(&id, listen(&id.addresses(), None)?)?;
        }
        job.next += 1;
        return Ok(id);
    }
    let secret = secret(wish.config)?;
    let way = choose(wish, secret.is_some())?;
    tracing::info!("the ranks meet through {way}");
    let made = first_meeting(wish, way, secret.as_deref())?;
    let id = made.id.nth(0);
    *job = Some(made);
    Ok(id)
}

/// How ranks meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Root,
    Pmix,
    Pmi,
    File,
}

impl std::fmt::Display for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Way::Root => "INFINICCL_ROOT",
            Way::Pmix => "the launcher's PMIx store",
            Way::Pmi => "the launcher's PMI store",
            Way::File => "a private file on this host",
        })
    }
}

fn choose(wish: &Wish<'_>, has_secret: bool) -> Result<Way> {
    let Wish {
        launch, config, env, ..
    } = wish;
    let told = |name: &str| env(name).is_some_and(|text| text.trim() == launch.rank.to_string());
    if config.job.root.is_some() {
        if has_secret || config.auth == Auth::None {
            return Ok(Way::Root);
        }
        return Err(Error::new(
            ErrorKind::InvalidUsage,
            "INFINICCL_ROOT says where the ranks meet, but they share no secret: set INFINICCL_SECRET to the same random \
             text on all ranks, or INFINICCL_SECRET_FILE to a file that holds it (auth = \"none\" lets anybody join)",
        ));
    }
    if pmix::is_offered(*env, launch.rank) {
        return Ok(Way::Pmix);
    }
    if (told("PMI_RANK") || must_be_asked(*env)) && Pmi::is_offered(*env) {
        return Ok(Way::Pmi);
    }
    fallback(launch)
}

/// The way that needs no store.
fn fallback(launch: &Launch) -> Result<Way> {
    if launch.on_one_host() {
        return Ok(Way::File);
    }
    Err(Error::new(
        ErrorKind::InvalidUsage,
        format!(
            "{} says that this is rank {} of {}, and nothing says where the ranks meet: set INFINICCL_ROOT=HOST:PORT (an \
             address of rank 0's host and a free port there) and INFINICCL_SECRET (the same random text on all ranks) or \
             INFINICCL_SECRET_FILE; `infiniccl run` sets them. If this process is meant to be alone, unset the \
             launcher's variables",
            launch.launcher, launch.rank, launch.size
        ),
    ))
}

/// Meets the other ranks for the first time.
fn first_meeting(wish: &Wish<'_>, way: Way, secret: Option<&[u8]>) -> Result<Job> {
    let Wish {
        launch,
        settings,
        env,
        deadline,
        ..
    } = *wish;
    let mix = |id: UniqueId| match (way, secret) {
        // A root's id is made from the secret already.
        (Way::Root, _) | (_, None) => id,
        (_, Some(secret)) => id.with_secret(secret),
    };
    let mut own = None;
    let mut reserved = Vec::new();
    if launch.rank == 0 {
        let reach = if launch.on_one_host() {
            Reach::ThisHost
        } else {
            Reach::AnyHost
        };
        let addresses = if way == Way::Root {
            wish.root_addresses()?
        } else {
            own_addresses(settings, reach, None)?
        };
        let listeners = listen_and_reserve(&addresses, settings.port_range.as_ref())?;
        let (listeners, sockets): (Vec<_>, Vec<_>) = listeners.into_iter().unzip();
        let bound = bound_addresses(&listeners);
        let id = if way == Way::Root {
            root_id(env, secret, &bound)
        } else {
            UniqueId::random(&bound)?
        };
        serve(&mix(id).nth(0), listeners)?;
        (own, reserved) = (Some(id), sockets);
    }
    let mut hold: Option<Box<dyn Send + Sync>> = None;
    let mut file = None;
    let id = match (way, own) {
        (Way::Root, Some(id)) => id,
        (Way::Root, None) => root_id(env, secret, &wish.root_addresses()?),
        (Way::Pmix, own) => match pmix::exchange(own.map(|id| id.to_hex()), deadline) {
            Ok((text, kept)) => {
                hold = kept.map(|kept| Box::new(kept) as _);
                text.parse()?
            }
            // Without the library the ranks can still meet, in a way that all of them find.
            Err(e) if e.kind() == ErrorKind::NotSupported => {
                tracing::warn!("{e}");
                return first_meeting(wish, fallback(launch)?, secret);
            }
            Err(e) => return Err(e),
        },
        (Way::Pmi, own) => {
            let mut pmi = Pmi::connect(env, deadline)?;
            let text = pmi.exchange(own.map(|id| id.to_hex()).as_deref())?;
            // MPI could not be initialised any more after this process took its leave, so that waits where MPI is loaded.
            hold = (mpi_presence::look() != Mpi::Absent).then(|| Box::new(pmi) as _);
            text.parse()?
        }
        (Way::File, own) => {
            let file = file.insert(SharedFile::of_job(env, &launch.job)?);
            match own {
                Some(id) => {
                    file.publish(&id)?;
                    id
                }
                None => file.find((launch.rank, launch.size), deadline, &|id| mix(*id).nth(0))?,
            }
        }
    };
    let id = mix(id);
    let first = First {
        id: id.nth(0),
        hold,
        _file: file,
    };
    Ok(Job {
        process: std::process::id(),
        id,
        next: 1,
        first: Some(first),
        _reserved: reserved,
    })
}

#[cfg(test)]
#[path = "environment_tests.rs"]
mod tests;
