//! A communicator: the ranks that do collectives together, as one of them sees it.

use super::inner::{Inner, Parts};
use super::raw::RawCall;
use super::work::Work;
use crate::call::Collective;
use crate::error::{Error, Result};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The ranks that do collectives together, as one of them sees it.
///
/// It may be used from several threads; their calls are served one after the other. Dropping it says goodbye to
/// the other ranks and frees everything; [`Communicator::finalize`] also waits for them.
pub struct Communicator {
    inner: Arc<Inner>,
}

impl Communicator {
    pub(super) fn assemble(parts: Parts) -> Self {
        Communicator {
            inner: Arc::new(Inner::new(parts)),
        }
    }

    /// This rank, from 0.
    pub fn rank(&self) -> u32 {
        self.inner.rank
    }

    /// The number of ranks.
    pub fn size(&self) -> u32 {
        self.inner.size
    }

    /// Configuration and plugins that it was made with.
    pub fn context(&self) -> &super::Context {
        &self.inner.context
    }

    /// Ends the communicator on all ranks, from any thread, without waiting for anybody: calls under way, here and
    /// elsewhere, fail with [`crate::ErrorKind::Aborted`].
    pub fn abort(&self) {
        self.inner.watch.abort();
        self.inner.aborters.iter().for_each(|stop| stop());
    }

    /// The error that ended the communicator, if one did; never blocks.
    pub fn async_error(&self) -> Option<Error> {
        self.inner.watch.has_failed().then(|| self.inner.watch.failure())
    }

    /// Waits until the work under way has ended and all ranks have come so far, then frees everything.
    pub fn finalize(self) -> Result<()> {
        self.inner.drain()?;
        let limit = self.inner.context.config().timeouts.connect;
        let deadline = Instant::now() + limit;
        self.inner.control.barrier("finalize", deadline)?;
        self.inner.control.close(deadline);
        Ok(())
    }

    pub(super) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    /// Runs a call to its end.
    pub(super) fn run(&self, call: RawCall) -> Result<()> {
        let output = self.inner.bool_output(&call);
        let mut core = self.inner.lock();
        let ticket = self.inner.submit(&mut core, call)?;
        core.engine.wait(ticket)?;
        output.map_or(Ok(()), |output| output.normalise())
    }

    /// As [`Self::run`]; a call that cannot be built counts as this rank's call all the same.
    pub(super) fn run_built(
        &self,
        collective: Collective,
        build: impl FnOnce() -> Result<RawCall>,
    ) -> Result<()> {
        match build() {
            Ok(call) => self.run(call),
            Err(error) => Err(self.inner.refuse(collective, error)),
        }
    }

    pub(super) fn start<B: Send + 'static>(&self, call: RawCall, owner: B) -> Result<Work<B>> {
        let output = self.inner.bool_output(&call);
        let ticket = self.inner.submit(&mut self.inner.lock(), call)?;
        self.inner.serve();
        Ok(Work::new(self.inner.clone(), ticket, owner, output))
    }

    /// Runs any call to its end.
    ///
    /// # Safety
    /// The pointers of `call` must be valid for what the call reads and writes.
    pub unsafe fn run_raw(&self, call: RawCall) -> Result<()> {
        self.run(call)
    }
}

impl std::fmt::Debug for Communicator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Communicator")
            .field("rank", &self.rank())
            .field("size", &self.size())
            .finish_non_exhaustive()
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        // Works that nobody waited for still use their buffers: they end first, unless the communicator failed.
        let _ = self.inner.drain();
        self.inner.lock().engine.close(CLOSE);
    }
}

/// How long a dropped communicator waits for its last messages to leave.
const CLOSE: Duration = Duration::from_secs(2);
