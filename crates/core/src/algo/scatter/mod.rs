//! Scatter: each member gets its block of the root's input.
//!
//! `blocks` says where the members' blocks lie in the root's input, equal on all members; lengths may differ. The
//! output is one block. In place, the root's output is its own block of the input. Other members' inputs are not
//! touched.

mod binomial;
mod linear;

pub(crate) use binomial::binomial;
pub(crate) use linear::linear;
