//! Stored coverage: what an engine's own KV events say a worker's caches hold. One writer per worker, the engine; its
//! events make a *feed*, whose states are totally ordered by [`StoredKey`].
//!
//! The state is a set of block hashes per holder. A block hash is chained, so it names the whole prefix, and no chain has
//! to be stored or sent beside it. Join: the state with the larger key wins whole; equal keys must be equal states, which
//! holds because an op is a pure function of what the ingester held and the engine's batch (P3). Ops carry net effects and
//! are applied strictly in sequence; a gap is fetched, never guessed.
//!
//! Not here: engines' own hashes, copies, orphans (the gateway's `ingest`); who publishes a feed, its log (`covey-mesh`).
//! Upholds I4, I5 and I7 for feeds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::digest::Digest;
use crate::hash::BlockHash;
use crate::id::{Incarnation, LifeId, WorkerId};
use crate::keyspace::Keyspace;
use crate::lane::LaneId;
use crate::lattice::{Lattice, Merged};
use crate::limits::{KEYSPACES_PER_WORKER_MAX, STORED_BLOCKS_MAX};
use crate::plant::{Plant, planted};
use crate::worker::{holder_bytes, keyspace_bytes, worker_bytes};

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
    /// How many of the engine's batches are in the state, by the engine's own numbers: the number of the next one.
    pub position: u64,
    /// Which op of the last batch is the last in the state, from 0.
    pub part: u32,
}

/// What one op changes of one holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredLane {
    /// In which keyspace.
    pub keyspace: Arc<Keyspace>,
    /// Which of the worker's caches.
    pub lane: LaneId,
    /// Blocks present afterwards that were not before.
    pub added: Vec<BlockHash>,
    /// Blocks absent afterwards that were present before.
    pub removed: Vec<BlockHash>,
}

/// One op of a feed: the net effect of one batch of an engine's KV events, or of a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredOp {
    /// Whose.
    pub worker: WorkerId,
    /// Which state it leads to.
    pub key: StoredKey,
    /// Whether it opens its generation: the state is then exactly what it adds.
    pub begins: bool,
    /// Whether it is the last op of its batch: the state is then one the engine's cache was in.
    pub is_last: bool,
    /// Whether the state is all that the cache holds: its history is known from the start or from a clear.
    pub is_complete: bool,
    /// What changes; none twice.
    pub lanes: Vec<StoredLane>,
}

impl StoredOp {
    /// How many hashes it carries.
    #[must_use]
    pub fn hashes(&self) -> usize {
        self.lanes.iter().map(|lane| lane.added.len() + lane.removed.len()).sum()
    }
}

/// Why an op of a feed cannot be applied now. Nothing changed: fetch what lies between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedGap;

/// The set of one holder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredSet {
    blocks: BTreeSet<BlockHash>,
    digest: Digest,
}

impl StoredSet {
    fn insert(&mut self, block: BlockHash) -> bool {
        let is_new = self.blocks.insert(block);
        if is_new {
            self.digest.add(element(block));
        }
        is_new
    }

    fn remove(&mut self, block: BlockHash) -> bool {
        let was_there = self.blocks.remove(&block);
        if was_there {
            self.digest.remove(element(block));
        }
        was_there
    }

    /// The blocks, in ascending order.
    #[must_use]
    pub const fn blocks(&self) -> &BTreeSet<BlockHash> {
        &self.blocks
    }

    /// Over the blocks.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }
}

fn element(block: BlockHash) -> Digest {
    Digest::of(&block.0.to_be_bytes())
}

/// The holders of one feed, in canonical order.
pub type StoredLanes = BTreeMap<(Arc<Keyspace>, LaneId), StoredSet>;

/// The state of one worker's feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedState {
    /// How far into the stream.
    pub key: StoredKey,
    /// Whether the engine's cache was in this state: the last op was the last of its batch.
    pub is_last: bool,
    /// Whether it is all that the cache holds.
    pub is_complete: bool,
    lanes: StoredLanes,
    blocks: usize,
}

/// What an op did to a feed's sets, for the read index.
pub type LaneDelta = ((Arc<Keyspace>, LaneId), Vec<BlockHash>, Vec<BlockHash>);

impl FeedState {
    /// A state from its parts, as a peer sends it whole. `None` when it breaks a bound.
    #[must_use]
    pub fn new(key: StoredKey, is_last: bool, is_complete: bool, sets: Vec<StoredLane>) -> Option<Self> {
        let mut state = Self { key, is_last, is_complete, lanes: BTreeMap::new(), blocks: 0 };
        if sets.len() > KEYSPACES_PER_WORKER_MAX
            || sets.iter().map(|set| set.added.len()).sum::<usize>() > STORED_BLOCKS_MAX
        {
            return None;
        }
        let _ = state.change(&sets);
        Some(state)
    }

    /// The state that an op which begins a generation leads to.
    #[must_use]
    pub fn begun(op: &StoredOp) -> Self {
        let (is_last, is_complete) = (op.is_last, op.is_complete);
        let mut state = Self { key: op.key.clone(), is_last, is_complete, lanes: BTreeMap::new(), blocks: 0 };
        let _ = state.change(&op.lanes);
        state
    }

    /// Whether `key` is the very next one: the next part of the batch, or the first of the next batch.
    #[must_use]
    pub fn precedes(&self, key: &StoredKey) -> bool {
        if self.key.incarnation != key.incarnation || self.key.generation != key.generation {
            return false;
        }
        if self.is_last {
            key.part == 0 && self.key.position.checked_add(1) == Some(key.position)
        } else {
            key.position == self.key.position && self.key.part.checked_add(1) == Some(key.part)
        }
    }

    /// Applies the op that follows. Says what changed, holder by holder.
    ///
    /// # Errors
    /// [`FeedGap`] when it does not follow.
    pub fn apply(&mut self, op: &StoredOp) -> Result<Vec<LaneDelta>, FeedGap> {
        let jumps = planted(Plant::FeedGapApplied) && self.key < op.key;
        if op.begins || !(self.precedes(&op.key) || jumps) {
            return Err(FeedGap);
        }
        let deltas = self.change(&op.lanes);
        (self.key, self.is_last, self.is_complete) = (op.key.clone(), op.is_last, op.is_complete);
        Ok(deltas)
    }

    fn change(&mut self, lanes: &[StoredLane]) -> Vec<LaneDelta> {
        let mut deltas = Vec::new();
        for lane in lanes {
            let key = (Arc::clone(&lane.keyspace), lane.lane);
            // Bounds depend on the ops before alone, so they are the same everywhere.
            if !self.lanes.contains_key(&key) && self.lanes.len() >= KEYSPACES_PER_WORKER_MAX {
                continue;
            }
            let set = self.lanes.entry(key.clone()).or_default();
            let removed: Vec<_> = lane.removed.iter().copied().filter(|block| set.remove(*block)).collect();
            self.blocks -= removed.len();
            let mut added = Vec::with_capacity(lane.added.len());
            for block in &lane.added {
                if self.blocks < STORED_BLOCKS_MAX && set.insert(*block) {
                    self.blocks += 1;
                    added.push(*block);
                }
            }
            if set.blocks.is_empty() {
                self.lanes.remove(&key);
            }
            if !(added.is_empty() && removed.is_empty()) {
                deltas.push((key, added, removed));
            }
        }
        deltas
    }

    /// The sets that hold something, in canonical order.
    #[must_use]
    pub const fn lanes(&self) -> &StoredLanes {
        &self.lanes
    }

    /// Blocks in all sets together.
    #[must_use]
    pub const fn blocks(&self) -> usize {
        self.blocks
    }

    /// Over the whole state: O(holders).
    #[must_use]
    pub fn digest(&self, worker: &WorkerId) -> Digest {
        let mut bytes = worker_bytes(worker);
        bytes.extend_from_slice(&self.key.incarnation.counter.to_be_bytes());
        bytes.extend_from_slice(&(self.key.incarnation.token.as_str().len() as u32).to_be_bytes());
        bytes.extend_from_slice(self.key.incarnation.token.as_str().as_bytes());
        bytes.extend_from_slice(&self.key.generation.counter.to_be_bytes());
        bytes.extend_from_slice(&self.key.generation.life.to_be_bytes());
        bytes.extend_from_slice(&self.key.position.to_be_bytes());
        bytes.extend_from_slice(&self.key.part.to_be_bytes());
        bytes.extend_from_slice(&[u8::from(self.is_last), u8::from(self.is_complete)]);
        for ((keyspace, lane), set) in &self.lanes {
            bytes.extend_from_slice(&holder_bytes(worker, keyspace, *lane));
            bytes.extend_from_slice(&set.digest.0.to_be_bytes());
        }
        Digest::of(&bytes)
    }

    /// Over the sets alone: equal for equal sets, whoever's they are and at whatever key. O(holders).
    #[must_use]
    pub fn contents(&self) -> Digest {
        let mut all = Digest::default();
        for ((keyspace, lane), set) in &self.lanes {
            let mut bytes = keyspace_bytes(keyspace);
            bytes.push(lane.0);
            bytes.extend_from_slice(&set.digest.0.to_be_bytes());
            all.add(Digest::of(&bytes));
        }
        all
    }

    /// Whether every incremental count and digest equals one computed anew.
    #[must_use]
    pub fn is_consistent(&self) -> bool {
        let mut blocks = 0;
        let sums = self.lanes.values().all(|set| {
            let mut digest = Digest::default();
            set.blocks.iter().for_each(|block| digest.add(element(*block)));
            blocks += set.blocks.len();
            digest == set.digest && !set.blocks.is_empty()
        });
        sums && blocks == self.blocks
    }
}

impl Lattice for FeedState {
    fn merge(&mut self, other: &Self) -> Merged {
        if other.key <= self.key {
            return Merged::Unchanged;
        }
        *self = other.clone();
        Merged::Grew
    }
}
