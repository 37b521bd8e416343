//! What the launcher says, and how the ranks meet: rank 0 leaves the communicator's id in the shared folder.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};
use std::{env, thread};

use infiniccl::config::Config;
use infiniccl::{Communicator, Context, UniqueId};

use crate::AnyError;
use crate::operation::Operation;

/// How long a rank waits for rank 0's file.
const LIMIT: Duration = Duration::from_secs(60);

const SIZES: &str = "8,1024,65536,1048576,16777216,134217728";

/// The variables of this rank.
#[derive(Debug)]
pub(crate) struct Environment {
    rank: u32,
    size: u32,
    interface: Option<String>,
    store: PathBuf,
    pub(crate) peer: String,
    pub(crate) net: String,
    pub(crate) operations: Vec<Operation>,
    pub(crate) sizes: Vec<usize>,
    pub(crate) seconds: f64,
    pub(crate) header: bool,
}

impl Environment {
    pub(crate) fn read() -> Result<Self, AnyError> {
        let text = |name: &str, default: &str| env::var(name).unwrap_or_else(|_| default.to_string());
        let wanted = text("BENCH_OPS", "allreduce,allgather,pingpong");
        let known = wanted
            .split(',')
            .map(|w| Operation::from_name(w).ok_or(format!("BENCH_OPS: unknown '{w}'")));
        let sizes = text("BENCH_SIZES", SIZES);
        let sizes = sizes
            .split(',')
            .map(|s| s.parse().map_err(|_| format!("BENCH_SIZES: '{s}' is no size")));
        Ok(Environment {
            rank: number("RANK")?,
            size: number("SIZE")?,
            interface: env::var("IFACE").ok().filter(|name| !name.is_empty()),
            store: env::var_os("STORE")
                .ok_or("STORE is not set: name a folder that all ranks see")?
                .into(),
            peer: text("BENCH_PEER", "infiniccl"),
            net: text("BENCH_NET", "?"),
            operations: known.collect::<Result<_, _>>()?,
            sizes: sizes.collect::<Result<_, _>>()?,
            seconds: text("BENCH_TIME", "1")
                .parse()
                .map_err(|_| "BENCH_TIME is no number of seconds")?,
            header: env::var("BENCH_HEADER").is_ok_and(|h| h == "1"),
        })
    }
}

fn number<T: FromStr>(name: &str) -> Result<T, AnyError> {
    let text = env::var(name).map_err(|_| format!("{name} is not set"))?;
    Ok(text
        .parse()
        .map_err(|_| format!("{name} is '{text}', which is no number"))?)
}

/// Makes the communicator of all ranks.
pub(crate) fn meet(environment: &Environment) -> Result<Communicator, AnyError> {
    let mut config = Config::load(None)?;
    if let Some(interface) = &environment.interface {
        config.set("network.interfaces", interface)?;
    }
    let context = Context::new(config)?;
    let file = environment.store.join("infiniccl-id");
    let id = if environment.rank == 0 {
        let id = context.unique_id()?;
        leave(&file, &id)?;
        id
    } else {
        find(&file)?
    };
    let builder = Communicator::builder(&context)
        .unique_id(id)
        .rank(environment.rank)
        .size(environment.size);
    Ok(builder.build()?)
}

/// Writes the id where the others look for it, whole or not at all. It holds the job's key.
fn leave(file: &Path, id: &UniqueId) -> Result<(), AnyError> {
    let draft = file.with_extension("draft");
    let mut out = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&draft)?;
    out.write_all(&id.to_bytes())?;
    fs::rename(&draft, file)?;
    Ok(())
}

fn find(file: &Path) -> Result<UniqueId, AnyError> {
    let end = Instant::now() + LIMIT;
    loop {
        match fs::read(file) {
            Ok(bytes) => {
                let bytes = bytes
                    .as_slice()
                    .try_into()
                    .map_err(|_| format!("{}: no id", file.display()))?;
                return Ok(UniqueId::from_bytes(bytes)?);
            }
            Err(e) if Instant::now() > end => return Err(format!("{}: {e}", file.display()).into()),
            Err(_) => thread::sleep(Duration::from_millis(5)),
        }
    }
}
