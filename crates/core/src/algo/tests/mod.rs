//! Every algorithm in the simulator, on ranks, counts, roots, chunks, orders and buffers of all kinds.

mod bounds;
mod catalog;
mod movement;
mod personal;
mod reductions;
mod timing;
mod world;
