//! InfiniCCL: collective communication between accelerators of different vendors.
//!
//! A program makes a [`Context`] (configuration and plugins), then [`Communicator`]s, and calls collectives on
//! them. Inside a node the vendor's own library does the work, between nodes a network plugin carries it, and what
//! a vendor lacks is composed: success always means the right answer.
//!
//! # Ranks that a launcher started
//! Under `infiniccl run`, `torchrun`, `mpirun` or `srun` the environment says who is who; without a launcher the
//! program is one rank alone, as here:
//! ```
//! use infiniccl::{Communicator, Context, ReduceOp};
//!
//! # fn main() -> infiniccl::Result<()> {
//! let context = Context::load()?;
//! let comm = Communicator::from_environment(&context)?;
//! let mut gradient = [1.0f32, 2.0, 3.0];
//! comm.all_reduce_in_place(&mut gradient, ReduceOp::Avg)?;
//! assert_eq!(gradient, [1.0, 2.0, 3.0]); // the mean of one
//! comm.finalize()
//! # }
//! ```
//!
//! # Ranks that are threads
//! ```
//! use infiniccl::{Communicator, Context, ReduceOp};
//!
//! # fn main() -> infiniccl::Result<()> {
//! let context = Context::load()?;
//! let ranks = Communicator::local(&context, 3)?;
//! std::thread::scope(|scope| {
//!     for comm in &ranks {
//!         scope.spawn(move || {
//!             let mine = [2 * comm.rank() as i8 + 2]; // 2, 4, 6
//!             let mut mean = [0i8];
//!             comm.all_reduce(&mine, &mut mean, ReduceOp::Avg).expect("AVG works on every card");
//!             assert_eq!(mean, [4]);
//!         });
//!     }
//! });
//! # Ok(()) }
//! ```
//!
//! # Calls that run beside their caller
//! A [`Work`] owns its buffers until the result is there, and gives them back:
//! ```
//! use infiniccl::{Communicator, Context, ReduceOp};
//!
//! # fn main() -> infiniccl::Result<()> {
//! let context = Context::load()?;
//! let comm = Communicator::from_environment(&context)?;
//! let work = comm.start_all_reduce(vec![1u64; 1000], ReduceOp::Sum)?;
//! // … compute something else …
//! let sum = work.wait()?;
//! assert_eq!(sum[999], u64::from(comm.size()));
//! # Ok(()) }
//! ```
//!
//! # What the rules are
//! - Every rank makes the same collective calls in the same order. Ranks that differ all get an error that names
//!   the first that differs; nothing waits without a limit.
//! - Slices must have the lengths that the calls document; in place follows NCCL's formulas.
//! - Integers wrap; AVG is exact for integers (truncated toward zero) and does not overflow for floats; NaN
//!   propagates through every operator; all ranks end with the same bytes after AllReduce.
//! - After an error a communicator answers every call with that error.

mod algo;
mod api;
pub mod bootstrap;
mod call;
mod capability;
pub mod config;
mod error;
mod exec;
mod plan;
pub mod plugin;
mod schedule;
#[cfg(test)]
mod simulate;
mod topology;

pub use api::{
    Communicator, CommunicatorBuilder, Context, Group, LinkReport, MatrixRow, PlacementReport, PlanCandidate,
    PlanReport, RawCall, VectorCounts, Work,
};
pub use bootstrap::UniqueId;
pub use call::{Collective, RedOp};
pub use error::{Error, ErrorKind, Result};
/// Version of this library, as in `Cargo.toml`.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

pub use infiniccl_reduce::{DataType, Element, F8E4M3, F8E5M2, ReduceOp};
