//! Pages of stored coverage: what a worker's own events say it holds, and how far they were read.
//!
//! Not here: placed coverage, asking (the parent). Upholds I9 (pages are bounded).

use serde::{Deserialize, Serialize};

use super::{Hex64, Hex128, IncarnationRow, Moment};

/// How far a worker's feed is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedRow {
    /// The life of the worker's cache.
    pub incarnation: IncarnationRow,
    /// How often counting began anew.
    pub generation: u32,
    /// Which life began it; zero in the first generation.
    pub generation_life: Hex128,
    /// The engine's number of the next batch.
    pub position: u64,
    /// Whether the engine's cache was in this state: between the ops of one batch it was not.
    pub is_last: bool,
    /// Whether it is all that the cache holds.
    pub is_complete: bool,
    /// Blocks in all sets together.
    pub blocks: u64,
    /// Over all sets: equal for equal sets, at whatever position.
    pub contents: Hex128,
}

/// One set of stored coverage, or a part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetRow {
    /// Names it among the worker's.
    pub id: Hex64,
    /// The model.
    pub model: String,
    /// Units in a block.
    pub block_units: u32,
    /// Which of the worker's caches, and on which tier.
    pub lane: u8,
    /// Over the whole set.
    pub digest: Hex128,
    /// Blocks in the whole set.
    pub blocks: u64,
    /// Those of this page, ascending: keyed hashes of whole prefixes.
    pub hashes: Vec<Hex64>,
}

/// Where a feed's next page begins: after this block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AfterStored {
    /// Its set.
    pub id: Hex64,
    /// Its hash.
    pub block: Hex64,
}

/// A page of a worker's stored coverage. Two pages are of one state when their `feed` is the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredPage {
    /// How the node was at that moment.
    #[serde(flatten)]
    pub at: Moment,
    /// How far the feed is; `None` when no events of the worker's present life are known.
    pub feed: Option<FeedRow>,
    /// Its sets, in canonical order.
    pub sets: Vec<SetRow>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<AfterStored>,
}
