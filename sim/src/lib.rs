//! The adversary and the yardstick.

pub mod invariants;
pub mod marks;
pub mod network;
pub mod oracle;
pub mod plan;
pub mod swarm;
pub mod traffic;
pub mod world;
