//! Every algorithm in the simulator, on ranks, counts, roots, chunks, orders and buffers of all kinds.

mod bounds;
mod movement;
mod personal;
mod reductions;
mod world;
