//! AllGather: every member gets all members' blocks.
//!
//! `blocks` says where the members' blocks go in the output, equal on all members; lengths may differ
//! (AllGatherV). The input is one block. In place, it is the member's own block of the output.

mod bruck;
mod direct;
mod ring;

pub(crate) use bruck::bruck;
pub(crate) use direct::direct;
pub(crate) use ring::ring;
