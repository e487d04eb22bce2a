//! The read model: which workers hold how much of a prompt, answered without a lock.
