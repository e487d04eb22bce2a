//! What a gateway embeds: the routing seam ([`plugin`]), the lock-free read index ([`index`]), the [`policy`] and the
//! [`load`] counters. None of these needs a runtime or a socket, so the simulator links them as they are.
//!
//! Not here: what coverage is (`covey-crdt`), how gateways exchange it (`covey-mesh`).

pub mod bits;
pub mod index;
pub mod load;
pub mod plugin;
pub mod policy;
