//! AllReduce: every member gets the combination of all members' inputs, with the same bytes everywhere.
//!
//! Either each element is computed by one member and copied, or all compute it by the same operations.

mod direct;
mod double_tree;
mod rabenseifner;
mod recursive_doubling;
mod ring;

pub(crate) use direct::direct;
pub(crate) use double_tree::double_tree;
pub(crate) use rabenseifner::rabenseifner;
pub(crate) use recursive_doubling::recursive_doubling;
pub(crate) use ring::ring;
