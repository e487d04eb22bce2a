//! Workers as request threads see them: a small number each, and atomics for what this gateway has outstanding there.
//!
//! Not here: other gateways' load (the index carries it), whether a worker is a good choice (`policy`).

mod cell;
mod progress;
mod unseen;
mod workers;

pub use cell::{WorkerCell, WorkerNo};
pub use workers::{Table, Workers};
