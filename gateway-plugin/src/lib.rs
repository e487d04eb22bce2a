//! What a gateway embeds.
//!
//! Not here: what coverage is (`covey-crdt`), how gateways share it (`covey-mesh`).

pub mod tokens;
