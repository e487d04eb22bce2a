//! What an engine tells of its cache: the changes of a step under names that mean nothing outside this engine, and the
//! cache as it was after the last batch of them.
//!
//! As vLLM does: one batch for each step that changed the cache, numbered from 0; physical copies are reported, so two
//! requests that compute one block store it twice, and evicting one copy says that the block was removed although the
//! other still hits; blocks that are not full are never mentioned.
//!
//! Not here: how it is written and sent (`worker`).

use std::collections::BTreeMap;
use std::sync::Arc;

use covey_mesh::input::MonoTime;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::content::{BlockContent, BlockKey};
use super::pool::{BlockPool, Change};

/// Blocks that one request filled in one step, each behind the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvStored {
    /// The engine's names of the blocks.
    pub hashes: Vec<u64>,
    /// The block before the first; `None` at the start of a prompt.
    pub parent: Option<u64>,
    /// The ids of their tokens, all blocks in one run.
    pub tokens: Vec<u32>,
    /// The salt of the prompt they belong to.
    pub salt: Option<Arc<str>>,
}

/// One event of an engine's cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KvEvent {
    /// Blocks were stored.
    Stored(KvStored),
    /// One copy of the block of this name is gone.
    Removed(u64),
    /// Everything is gone.
    Cleared,
}

/// What one step changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvBatch {
    /// Its number, from 0.
    pub seq: u64,
    /// When the step ended.
    pub at: MonoTime,
    /// At least one.
    pub events: Vec<KvEvent>,
}

/// A cached block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvBlock {
    /// The engine's name of it.
    pub hash: u64,
    /// The block before it.
    pub parent: Option<u64>,
    /// What it holds.
    pub content: Arc<BlockContent>,
    /// Physical copies, at least 1.
    pub copies: u32,
}

/// A cache at a position of its stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvTruth {
    /// Batches made so far: the number of the next.
    pub position: u64,
    /// By name, ascending.
    pub blocks: Vec<KvBlock>,
}

/// Names blocks and numbers batches: one life of an engine.
#[derive(Clone, Debug)]
pub(super) struct KvLog {
    seed: u64,
    next_seq: u64,
    /// The cache before a reset that no batch has told yet.
    before_reset: Option<KvTruth>,
}

impl KvLog {
    pub(super) const fn new(seed: u64) -> Self {
        Self { seed, next_seq: 0, before_reset: None }
    }

    fn name(&self, key: BlockKey) -> u64 {
        xxh3_64_with_seed(&key.0.to_le_bytes(), self.seed)
    }

    /// The changes since the last batch; `None` when there are none.
    pub(super) fn batch(&mut self, at: MonoTime, pool: &mut BlockPool) -> Option<KvBatch> {
        let events: Vec<_> = pool.take_changes().into_iter().map(|change| self.event(&change)).collect();
        if events.is_empty() {
            return None;
        }
        self.before_reset = None;
        let seq = self.next_seq;
        self.next_seq += 1;
        Some(KvBatch { seq, at, events })
    }

    fn event(&self, change: &Change) -> KvEvent {
        match change {
            Change::Stored(contents) => KvEvent::Stored(KvStored {
                hashes: contents.iter().map(|content| self.name(content.key)).collect(),
                parent: contents[0].parent.map(|key| self.name(key)),
                tokens: contents.iter().flat_map(|content| content.tokens.iter().copied()).collect(),
                salt: contents[0].salt.clone(),
            }),
            Change::Evicted(content) => KvEvent::Removed(self.name(content.key)),
            Change::Cleared => KvEvent::Cleared,
        }
    }

    /// Empties the cache; told by the next batch. `false`, nothing changed, when a block is in use.
    pub(super) fn reset(&mut self, pool: &mut BlockPool) -> bool {
        let before = self.truth(pool);
        if !pool.clear() {
            return false;
        }
        self.before_reset = before;
        true
    }

    /// The cache as the batches so far tell it; `None` while a step has changed it and is not over.
    pub(super) fn truth(&self, pool: &BlockPool) -> Option<KvTruth> {
        if self.before_reset.is_some() || pool.has_changes() {
            return self.before_reset.clone();
        }
        let mut blocks = BTreeMap::new();
        for content in pool.contents() {
            let hash = self.name(content.key);
            let parent = content.parent.map(|key| self.name(key));
            let block = || KvBlock { hash, parent, content: Arc::clone(content), copies: 0 };
            blocks.entry(hash).or_insert_with(block).copies += 1;
        }
        Some(KvTruth { position: self.next_seq, blocks: blocks.into_values().collect() })
    }
}
