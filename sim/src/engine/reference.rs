//! The slow, obvious cache the fast one is compared with: lists, scanned from end to end.
//!
//! Not here: the comparisons themselves (`tests`).

use std::sync::Arc;

use super::{BlockContent, BlockId, BlockKey};

#[derive(Clone, Debug, Default)]
pub(super) struct ReferencePool {
    /// Next to be evicted first.
    pub(super) free: Vec<BlockId>,
    /// What is cached where, in the order in which it was cached.
    cached: Vec<(BlockKey, BlockId)>,
    refs: Vec<u32>,
}

impl ReferencePool {
    pub(super) fn new(blocks: u32) -> Self {
        Self { free: (0..blocks).map(BlockId).collect(), cached: Vec::new(), refs: vec![0; blocks as usize] }
    }

    pub(super) fn lookup(&self, chain: &[Arc<BlockContent>], blocks_max: u32) -> Vec<BlockId> {
        let mut hits = Vec::new();
        for wanted in chain.iter().take(blocks_max as usize) {
            let Some((_, block)) = self.cached.iter().find(|(key, _)| *key == wanted.key) else { break };
            hits.push(*block);
        }
        hits
    }

    pub(super) fn acquire(&mut self, hits: &[BlockId], fresh: u32) -> Option<Vec<BlockId>> {
        let mut free = self.free.clone();
        free.retain(|block| !hits.contains(block));
        if free.len() < fresh as usize {
            return None;
        }
        let taken: Vec<_> = free.drain(..fresh as usize).collect();
        self.cached.retain(|(_, block)| !taken.contains(block));
        self.free = free;
        let all: Vec<_> = hits.iter().copied().chain(taken).collect();
        all.iter().for_each(|block| self.refs[block.0 as usize] += 1);
        Some(all)
    }

    pub(super) fn cache(&mut self, block: BlockId, key: BlockKey) {
        self.cached.push((key, block));
    }

    pub(super) fn release(&mut self, chain: &[BlockId]) {
        for &block in chain.iter().rev() {
            self.refs[block.0 as usize] -= 1;
            if self.refs[block.0 as usize] == 0 {
                self.free.push(block);
            }
        }
    }
}
