//! The read model: which workers hold how much of a prompt, answered without a lock.
//!
//! Built only from the replica's changes and the mesh's load registers; it can be thrown away and rebuilt at any time.
//! Readers ([`Index::load`]) take no lock, wait for nobody and allocate nothing but their answer. One [`Writer`] per life
//! of the mesh member feeds it. Not here: coverage itself (`covey-crdt`), what an answer is worth (`policy`).

mod model;
mod op;
mod overlap;
mod publish;
mod runs;
mod sets;
#[cfg(test)]
mod tests;
mod walk;

pub use overlap::{Overlap, Step, StepWorkers, Version};
pub use publish::{Index, LOG_OPS_MAX, PUBLISH_RETRY, Reading, Writer};
