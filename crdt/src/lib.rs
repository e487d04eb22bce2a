//! Replicated coverage: which inference worker's KV cache holds which prompt-prefix blocks.
//!
//! Pure values: no I/O, no clock, no randomness, no async, no logging. Everything here merges by a join, so replicas
//! that saw the same updates, in whatever order and however often, are bit-identical.
//!
//! Not here: who tells whom and when (`covey-mesh`), and how a reader looks things up (`covey-gateway-plugin`).

pub mod chain;
pub mod change;
pub mod codec;
pub mod digest;
mod feed;
pub mod hash;
pub mod id;
pub mod inspect;
pub mod keyspace;
pub mod lane;
pub mod lattice;
pub mod limits;
pub mod lives;
pub mod op;
pub mod outline;
pub mod placed;
pub mod plant;
pub mod replica;
pub mod slice;
pub mod stamp;
pub mod stored;
pub mod walk;
pub mod worker;
