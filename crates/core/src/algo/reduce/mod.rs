//! Reduce: the root gets the combination of all members' inputs.
//!
//! `root` is a member of the group. Other members' outputs are not touched.

mod binomial;
mod chain;
mod direct;
mod scatter_gather;

pub(crate) use binomial::binomial;
pub(crate) use chain::chain;
pub(crate) use direct::direct;
pub(crate) use scatter_gather::scatter_gather;
