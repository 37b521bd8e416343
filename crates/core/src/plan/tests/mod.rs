//! The planner: every way to carry out every request gives the right answer, and every rank plans the same.

mod agreement;
mod barrier;
mod bounds;
mod choices;
mod compose;
mod data;
mod golden;
mod large;
mod messages;
mod run;
mod trace;
mod vector;
mod worlds;
