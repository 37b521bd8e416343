//! ReduceScatter: member i gets block i of the combination of all members' inputs.
//!
//! `blocks` says where the members' blocks lie in the input, equal on all members; lengths may differ
//! (ReduceScatterV). The output is one block. In place, it is the member's own block of the input.

mod direct;
mod recursive_halving;
mod ring;

pub(in crate::algo) use direct::Collector;
pub(crate) use direct::direct;
pub(crate) use recursive_halving::recursive_halving;
pub(in crate::algo) use ring::Ring;
pub(crate) use ring::ring;
