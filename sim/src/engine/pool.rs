//! A block-level prefix cache like vLLM's `BlockPool`: reference counts, a free queue in eviction order, and physical
//! copies of equal content.
//!
//! Freed blocks keep their content until they are handed out again, the tail of a chain before its prefix. Upholds: a
//! referenced block is never evicted; every block is either free or referenced; an abort frees in the same order as a
//! normal end.
//!
//! Not here: who gets blocks and when (`batch`).

use std::collections::HashMap;

use super::content::BlockKey;
use super::free_queue::FreeQueue;

/// One physical block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub u32);

#[derive(Clone, Copy, Debug, Default)]
struct Block {
    refs: u32,
    key: Option<BlockKey>,
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
}

impl BlockPool {
    /// A pool of `blocks` empty, free blocks.
    #[must_use]
    pub fn new(blocks: u32) -> Self {
        let empty = vec![Block::default(); blocks as usize];
        Self { blocks: empty, free: FreeQueue::full(blocks), cached: HashMap::new(), evicted: 0 }
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
        self.blocks[block.0 as usize].key
    }

    /// How many requests refer to a block.
    #[must_use]
    pub fn refs(&self, block: BlockId) -> u32 {
        self.blocks[block.0 as usize].refs
    }

    /// The cached blocks of the longest cached prefix of `chain`, at most `blocks_max` of them.
    #[must_use]
    pub fn lookup(&self, chain: &[BlockKey], blocks_max: u32) -> Vec<BlockId> {
        chain.iter().take(blocks_max as usize).map_while(|key| self.cached.get(key).copied()).collect()
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

    /// Records what a referenced block holds from now on. Content that is cached already gets another physical copy.
    pub fn cache(&mut self, block: BlockId, key: BlockKey) {
        let slot = &mut self.blocks[block.0 as usize];
        assert!(slot.refs > 0, "only a referenced block can be filled");
        assert!(slot.key.is_none() && slot.next_copy.is_none(), "a block is filled once");
        slot.key = Some(key);
        let Some(&first) = self.cached.get(&key) else {
            self.cached.insert(key, block);
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
        let Block { key: Some(key), next_copy, .. } = self.blocks[block.0 as usize] else { return };
        self.evicted += 1;
        self.blocks[block.0 as usize] = Block::default();
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
