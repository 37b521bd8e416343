//! AllToAll: member i's block for member j becomes member j's block from member i.

mod bruck;
mod pairwise;

pub(crate) use bruck::bruck;
pub(crate) use pairwise::pairwise;
