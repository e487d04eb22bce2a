//! The simulator's tests: one binary.

mod swarm;
