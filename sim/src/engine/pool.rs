//! A block-level prefix cache like vLLM's `BlockPool`: reference counts, a free queue in eviction order, and physical
//! copies of equal content.
//!
//! Freed blocks keep their content until they are handed out again, the tail of a chain before its prefix. Upholds: a
//! referenced block is never evicted; every block is either free or referenced; an abort frees in the same order as a
//! normal end.
//!
//! Not here: who gets blocks and when (`batch`).

use std::collections::HashMap;
use std::sync::Arc;

use super::content::{BlockContent, BlockKey};
use super::free_queue::FreeQueue;

/// One physical block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub u32);

/// What happened to the cache. Physical copies show: as in vLLM, nothing is said of other copies of the content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A request filled these blocks in one step, each behind the one before.
    Stored(Vec<Arc<BlockContent>>),
    /// A block was handed out again and lost this.
    Evicted(Arc<BlockContent>),
    /// Everything was forgotten.
    Cleared,
}

#[derive(Clone, Debug, Default)]
struct Block {
    refs: u32,
    content: Option<Arc<BlockContent>>,
    /// The next physical copy of the same content, in the order in which they were cached.
    next_copy: Option<BlockId>,
}

/// A fixed number of blocks and what they hold.
#[derive(Clone, Debug)]
pub struct BlockPool {
    blocks: Vec<Block>,
    free: FreeQueue,
    /// First copy of each cached content.
    cached: HashMap<BlockKey, BlockId>,
    evicted: u64,
    /// Oldest first, until somebody takes them.
    changes: Vec<Change>,
}

impl BlockPool {
    /// A pool of `blocks` empty, free blocks.
    #[must_use]
    pub fn new(blocks: u32) -> Self {
        let empty = vec![Block::default(); blocks as usize];
        Self { blocks: empty, free: FreeQueue::full(blocks), cached: HashMap::new(), evicted: 0, changes: Vec::new() }
    }

    /// How many blocks there are.
    #[must_use]
    pub fn len(&self) -> u32 {
        u32::try_from(self.blocks.len()).expect("made from a u32")
    }

    /// Whether there are no blocks at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// How many blocks nobody refers to. Their content can still be hit.
    #[must_use]
    pub const fn free_blocks(&self) -> u32 {
        self.free.len()
    }

    /// How many blocks lost their content to a new one, ever.
    #[must_use]
    pub const fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Free blocks, the next to be evicted first.
    pub fn eviction_order(&self) -> impl Iterator<Item = BlockId> + '_ {
        self.free.iter()
    }

    /// What a block holds.
    #[must_use]
    pub fn key(&self, block: BlockId) -> Option<BlockKey> {
        self.blocks[block.0 as usize].content.as_ref().map(|content| content.key)
    }

    /// What is cached, once for each physical copy, in the order of the blocks.
    pub fn contents(&self) -> impl Iterator<Item = &Arc<BlockContent>> {
        self.blocks.iter().filter_map(|block| block.content.as_ref())
    }

    /// Whether changes wait to be taken.
    #[must_use]
    pub const fn has_changes(&self) -> bool {
        !self.changes.is_empty()
    }

    /// What changed since the last call, oldest first.
    #[must_use]
    pub fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// Forgets all content. `false`, nothing changed, when a block is in use. The order of eviction stays.
    pub fn clear(&mut self) -> bool {
        if self.free.len() < self.len() {
            return false;
        }
        self.blocks.fill(Block::default());
        self.cached.clear();
        self.changes.push(Change::Cleared);
        true
    }

    /// How many requests refer to a block.
    #[must_use]
    pub fn refs(&self, block: BlockId) -> u32 {
        self.blocks[block.0 as usize].refs
    }

    /// The cached blocks of the longest cached prefix of `chain`, at most `blocks_max` of them.
    #[must_use]
    pub fn lookup(&self, chain: &[Arc<BlockContent>], blocks_max: u32) -> Vec<BlockId> {
        chain.iter().take(blocks_max as usize).map_while(|block| self.cached.get(&block.key).copied()).collect()
    }

    /// Takes a reference to each of `hits` and to `fresh` new blocks, evicting what is freed longest. Gives `hits` and
    /// the new ones in this order, or `None`, nothing changed, when too few blocks are free.
    #[must_use]
    pub fn acquire(&mut self, hits: &[BlockId], fresh: u32) -> Option<Vec<BlockId>> {
        let hits_free = hits.iter().filter(|&&hit| self.refs(hit) == 0).count();
        if u64::from(fresh) + hits_free as u64 > u64::from(self.free.len()) {
            return None;
        }
        hits.iter().for_each(|&hit| self.touch(hit));
        let mut taken = hits.to_vec();
        taken.extend((0..fresh).map(|_| self.take()));
        Some(taken)
    }

    /// Records what referenced blocks, as many as `contents`, hold from now on. Content that is cached already gets another
    /// physical copy.
    pub fn cache(&mut self, blocks: &[BlockId], contents: &[Arc<BlockContent>]) {
        assert_eq!(blocks.len(), contents.len(), "every block is filled with something");
        if contents.is_empty() {
            return;
        }
        blocks.iter().zip(contents).for_each(|(&block, content)| self.fill(block, content));
        self.changes.push(Change::Stored(contents.to_vec()));
    }

    fn fill(&mut self, block: BlockId, content: &Arc<BlockContent>) {
        let slot = &mut self.blocks[block.0 as usize];
        assert!(slot.refs > 0, "only a referenced block can be filled");
        assert!(slot.content.is_none() && slot.next_copy.is_none(), "a block is filled once");
        slot.content = Some(Arc::clone(content));
        let Some(&first) = self.cached.get(&content.key) else {
            self.cached.insert(content.key, block);
            return;
        };
        let mut last = first;
        while let Some(next) = self.blocks[last.0 as usize].next_copy {
            last = next;
        }
        self.blocks[last.0 as usize].next_copy = Some(block);
    }

    /// Gives back one reference to each block of a chain, root first; those nobody else needs are queued, tail first.
    pub fn release(&mut self, chain: &[BlockId]) {
        for &block in chain.iter().rev() {
            let slot = &mut self.blocks[block.0 as usize];
            assert!(slot.refs > 0, "block {} was released twice", block.0);
            slot.refs -= 1;
            if slot.refs == 0 {
                self.free.push_back(block);
            }
        }
    }

    fn touch(&mut self, hit: BlockId) {
        if self.refs(hit) == 0 {
            self.free.remove(hit);
        }
        self.blocks[hit.0 as usize].refs += 1;
    }

    fn take(&mut self) -> BlockId {
        let block = self.free.pop_front().expect("the caller counted the free blocks");
        self.evict(block);
        self.blocks[block.0 as usize].refs = 1;
        block
    }

    /// Forgets what a free block holds. Other copies of the content stay.
    fn evict(&mut self, block: BlockId) {
        let Block { content: Some(content), next_copy, .. } = std::mem::take(&mut self.blocks[block.0 as usize]) else {
            return;
        };
        self.evicted += 1;
        let key = content.key;
        self.changes.push(Change::Evicted(content));
        let first = self.cached[&key];
        match (first == block, next_copy) {
            (true, Some(next)) => drop(self.cached.insert(key, next)),
            (true, None) => drop(self.cached.remove(&key)),
            (false, _) => self.unlink_copy(first, block, next_copy),
        }
    }

    fn unlink_copy(&mut self, first: BlockId, gone: BlockId, after: Option<BlockId>) {
        let mut copy = first;
        loop {
            let next = self.blocks[copy.0 as usize].next_copy.expect("a filled block is among its content's copies");
            if next == gone {
                self.blocks[copy.0 as usize].next_copy = after;
                return;
            }
            copy = next;
        }
    }
}
