//! What a merge altered, as the read index needs to know it. The index is built from these and from nothing else.
//!
//! Not here: recency, floors, digests (but that of a feed's sets, for people); a reader only asks "how deep does this holder reach". Runs and slots are local
//! numbers of one replica: they are never compared between replicas and never go over the wire.

use std::sync::Arc;

use crate::digest::Digest;
use crate::hash::BlockHash;
use crate::id::{Incarnation, WorkerId};
use crate::keyspace::Keyspace;
use crate::lane::LaneId;
use crate::stored::{FeedState, StoredKey};

/// A run of chained block hashes in one replica's chain store; the number is reused after [`Change::RunFreed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(pub u32);

impl RunId {
    /// The empty run every chain hangs from.
    pub const ROOT: Self = Self(0);
}

/// A position in the chain store: the first `blocks` blocks of `run`. `(ROOT, 0)` is the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The run.
    pub run: RunId,
    /// How many of its blocks lie before the position.
    pub blocks: u32,
}

impl Place {
    /// Before the first block of every chain.
    pub const ROOT: Self = Self { run: RunId::ROOT, blocks: 0 };
}

/// A small local number for one holder; reused after [`Change::HolderFreed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HolderSlot(pub u32);

/// What coverage is recorded for: worker × keyspace × lane.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HolderKey {
    /// The worker.
    pub worker: WorkerId,
    /// In which space its blocks are named.
    pub keyspace: Arc<Keyspace>,
    /// Which of its caches.
    pub lane: LaneId,
}

/// Which kind of coverage a holder's slot stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Coverage {
    /// Where gateways sent chains: reaches into runs.
    Placed,
    /// What the engine says it holds: sets of blocks.
    Stored,
}

/// How far a worker's feed is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedView {
    /// The state.
    pub key: StoredKey,
    /// Whether the engine's cache was in it: between the ops of one batch it was not.
    pub is_last: bool,
    /// Whether it is all that the cache holds.
    pub is_complete: bool,
    /// Blocks in it.
    pub blocks: usize,
    /// In which keyspace they are, the first of several; `None` while there are none.
    pub keyspace: Option<Arc<Keyspace>>,
    /// Over its sets: equal for equal sets, whatever the key.
    pub contents: Digest,
}

impl FeedView {
    /// What a reader may know of a state.
    #[must_use]
    pub fn of(state: &FeedState) -> Self {
        let (is_last, is_complete) = (state.is_last, state.is_complete);
        let keyspace = state.lanes().keys().next().map(|(keyspace, _)| Arc::clone(keyspace));
        let (blocks, contents) = (state.blocks(), state.contents());
        Self { key: state.key.clone(), is_last, is_complete, blocks, keyspace, contents }
    }
}

/// What a reader may know of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerView {
    /// Which worker.
    pub worker: WorkerId,
    /// The life of its cache.
    pub incarnation: Incarnation,
    /// Cache capacity in tokens; `None` while unknown.
    pub capacity_tokens: Option<u64>,
}

/// One alteration of a replica. Applied in order, they rebuild its coverage exactly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A new run of 1 to [`RUN_BLOCKS_MAX`](crate::limits::RUN_BLOCKS_MAX) blocks hangs at `parent`. Runs never change after this.
    Run {
        /// Its number.
        run: RunId,
        /// Where it hangs; several runs may hang at one place, with different first hashes.
        parent: Place,
        /// Its block hashes, from the one after `parent`.
        hashes: Arc<[BlockHash]>,
    },
    /// No holder reaches the run and nothing hangs from it any more.
    RunFreed {
        /// Its number.
        run: RunId,
    },
    /// `slot` now stands for this holder, which covers nothing yet.
    Holder {
        /// The number.
        slot: HolderSlot,
        /// The holder.
        key: HolderKey,
        /// What kind of coverage; a holder with both has two slots.
        coverage: Coverage,
    },
    /// The holder is gone; it covered nothing any more when it went.
    HolderFreed {
        /// The number, free to be reused.
        slot: HolderSlot,
    },
    /// The holder now covers exactly the first `blocks` blocks of the run (0 = none of it).
    Reach {
        /// Who.
        slot: HolderSlot,
        /// Where.
        run: RunId,
        /// How far.
        blocks: u32,
    },
    /// The holder's set of stored blocks changed. What is added was not in it, what is removed was.
    Stored {
        /// Who.
        slot: HolderSlot,
        /// Blocks that came.
        added: Arc<[BlockHash]>,
        /// Blocks that went.
        removed: Arc<[BlockHash]>,
    },
    /// A worker's feed moved on, began or is over.
    Feed {
        /// Whose.
        worker: WorkerId,
        /// Where it is now; `None`: nothing is known of the present incarnation.
        feed: Option<FeedView>,
    },
    /// A worker's record is new or has changed.
    Worker(WorkerView),
    /// A worker's record is gone.
    WorkerFreed {
        /// Which.
        worker: WorkerId,
    },
}
