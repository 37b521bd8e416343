//! How the processes of a job find each other, prove who they are, and stay in touch.
//!
//! ```text
//! launch, rendezvous   which rank of how many this process is, and where the root waits (unique id)
//! handshake, frame     both ends of every connection prove the job's key, every frame carries a code
//! arrival, join        all ranks arrive at the root, then form a tree of authenticated links
//! control              exchanges, heartbeats, failure flood and arbitration over that tree, for the communicator's life
//! ```
//! `member`, `rounds`, `inquiry`, `arbitration` and `handshake` are pure state machines; `member_io`, `arrival`, `gate`
//! and `dial` move their bytes. One service thread per process (`service`) serves all communicators.

mod arbitration;
mod arrival;
mod control;
mod dial;
mod environment;
mod frame;
mod gate;
mod handshake;
mod host_identity;
mod inquiry;
mod interfaces;
mod join;
mod keys;
mod launch;
mod link;
mod listen;
mod member;
mod member_io;
mod message;
mod mpi_presence;
mod offer;
mod plane_state;
mod pmi;
mod pmix;
mod record;
mod rendezvous;
mod report;
mod root_address;
mod rounds;
mod runtime_folder;
mod service;
mod settings;
mod shared_file;
mod tree;
mod unique_id;
pub(crate) mod wire;

#[cfg(test)]
mod tests;

pub use environment::launch;
pub use launch::{Launch, Launcher};
pub use unique_id::UniqueId;

pub(crate) use control::ControlPlane;
pub(crate) use environment::{join_from_environment, process_env};
pub(crate) use join::JoinParams;
pub(crate) use rendezvous::{Reach, create_unique_id, own_addresses};
pub(crate) use report::{CallRecord, Failure, StatusReport};
pub(crate) use settings::Settings;
