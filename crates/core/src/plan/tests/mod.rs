//! The planner: every way to carry out every request gives the right answer, and every rank plans the same.

mod compose;
mod data;
mod run;
mod worlds;
