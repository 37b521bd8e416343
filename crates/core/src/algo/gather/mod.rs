//! Gather: the root gets all members' blocks.
//!
//! `blocks` says where the members' blocks go in the root's output, equal on all members; lengths may differ. The
//! input is one block. In place, the root's input is its own block of the output. Other members' outputs are not
//! touched.

mod binomial;
mod linear;

pub(crate) use binomial::binomial;
pub(crate) use linear::linear;
