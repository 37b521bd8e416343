//! Broadcast: every member gets the root's input.
//!
//! `root` is a member of the group. Other members' inputs are not touched.

mod binomial;
mod chain;
mod scatter_allgather;

pub(crate) use binomial::binomial;
pub(crate) use chain::chain;
pub(crate) use scatter_allgather::scatter_allgather;
