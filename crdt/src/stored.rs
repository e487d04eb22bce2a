//! Stored coverage: what an engine's own KV events say, one writer per worker. Here is its key, which totally orders
//! the states of one holder; the state with the larger key wins whole, equal keys must be equal states.
//!
//! Not here yet: the block sets and their join. The op and the vector entry exist so that no log format has to change;
//! a replica counts such ops as applied and keeps none of their blocks.

use crate::id::{Incarnation, LifeId};

/// Restart of an engine stream's counting after a gap that nobody could fill: `(counter, life)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation {
    /// How often counting restarted.
    pub counter: u32,
    /// Which life restarted it; 0 in the first generation.
    pub life: u128,
}

impl Generation {
    /// The generation after this one, opened by `life`.
    #[must_use]
    pub const fn next(self, life: LifeId) -> Self {
        Self { counter: self.counter.saturating_add(1), life: life.0 }
    }
}

/// How far into an engine's event stream a state is. One vector entry per worker feed is the largest of these (ruling R2).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoredKey {
    /// The life of the worker's cache.
    pub incarnation: Incarnation,
    /// Which count.
    pub generation: Generation,
    /// The engine's number of the last event in the state.
    pub position: u64,
}
