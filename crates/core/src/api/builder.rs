//! Making communicators: by id, by the launcher's environment, or for threads of one process.

use super::communicator::Communicator;
use super::context::Context;
use super::init::{form, init};
use crate::bootstrap::{UniqueId, join_from_environment, process_env};
use crate::error::{Error, ErrorKind, Result};

/// What a communicator is made of; every field but the context has to be set.
#[derive(Debug, Clone)]
#[must_use = "`build` makes the communicator"]
pub struct CommunicatorBuilder<'a> {
    context: &'a Context,
    id: Option<UniqueId>,
    rank: Option<u32>,
    size: Option<u32>,
}

impl CommunicatorBuilder<'_> {
    /// The job's id, from [`Context::unique_id`] on one of its ranks.
    pub fn unique_id(mut self, id: UniqueId) -> Self {
        self.id = Some(id);
        self
    }

    /// This rank, from 0.
    pub fn rank(mut self, rank: u32) -> Self {
        self.rank = Some(rank);
        self
    }

    /// The number of ranks.
    pub fn size(mut self, size: u32) -> Self {
        self.size = Some(size);
        self
    }

    /// Makes the communicator; blocks until all ranks have come, at most `timeouts.connect`.
    ///
    /// # Errors
    /// `InvalidUsage` if a field is not set or ranks differ in what must be equal, `Timeout` naming the ranks
    /// that did not come, `Remote` when another rank ends meanwhile.
    pub fn build(self) -> Result<Communicator> {
        let unset = |what: &str| {
            Error::new(
                ErrorKind::InvalidUsage,
                format!("a communicator needs {what}: call `.{what}(…)`"),
            )
        };
        let id = self.id.as_ref().ok_or_else(|| unset("unique_id"))?;
        let rank = self.rank.ok_or_else(|| unset("rank"))?;
        let size = self.size.ok_or_else(|| unset("size"))?;
        init(self.context, id, rank, size)
    }
}

impl Communicator {
    /// Begins a communicator; see [`CommunicatorBuilder`].
    pub fn builder(context: &Context) -> CommunicatorBuilder<'_> {
        CommunicatorBuilder {
            context,
            id: None,
            rank: None,
            size: None,
        }
    }

    /// Makes the communicator of all ranks that a launcher started: `torchrun`, `mpirun`, `srun` or
    /// `infiniccl run`. Without a launcher it has this rank alone.
    ///
    /// Every rank calls it equally often. Blocks until all ranks have come, at most `timeouts.connect`.
    ///
    /// # Errors
    /// `InvalidUsage` when launchers contradict each other, or when nothing says where the ranks meet: the message
    /// names what to set. Otherwise those of [`CommunicatorBuilder::build`].
    pub fn from_environment(context: &Context) -> Result<Communicator> {
        form(context, join_from_environment(context.config(), &process_env)?)
    }

    /// Makes a communicator of `size` ranks that all live in this process, for one thread each.
    pub fn local(context: &Context, size: u32) -> Result<Vec<Communicator>> {
        let id = context.local_unique_id()?;
        let id = &id;
        std::thread::scope(|scope| {
            let ranks: Vec<_> = (0..size)
                .map(|rank| scope.spawn(move || init(context, id, rank, size)))
                .collect();
            ranks
                .into_iter()
                .map(|rank| {
                    rank.join().unwrap_or_else(|_| {
                        Err(Error::new(
                            ErrorKind::Internal,
                            "a thread that made a communicator panicked",
                        ))
                    })
                })
                .collect()
        })
    }
}
