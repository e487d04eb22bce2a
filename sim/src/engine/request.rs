//! One request inside an engine.
//!
//! Not here: when it runs (`batch`).

use std::sync::Arc;

use super::content::{BlockContent, Job};
use super::pool::{BlockId, BlockPool};

/// Names a request of one engine. Chosen by the caller; not used again while the request lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) job: Job,
    chain: Vec<Arc<BlockContent>>,
    block_tokens: u32,
    /// Its blocks, root first. The first `cached_blocks` of them are filled.
    pub(super) blocks: Vec<BlockId>,
    /// Blocks whose content is in the cache under this request's keys.
    cached_blocks: u32,
    /// Tokens whose KV exists.
    pub(super) computed: u32,
    /// Tokens generated.
    pub(super) emitted: u32,
    /// Whether it has ever run; a preempted request is not counted again.
    pub(super) admitted: bool,
}

impl Request {
    pub(super) fn new(job: Job, block_tokens: u32) -> Self {
        let chain = job.chain(block_tokens);
        let blocks = Vec::new();
        Self { job, chain, block_tokens, blocks, cached_blocks: 0, computed: 0, emitted: 0, admitted: false }
    }

    /// Tokens that exist: the prompt and what was generated.
    pub(super) const fn known(&self) -> u32 {
        self.job.prompt_tokens() + self.emitted
    }

    /// Tokens without KV.
    pub(super) const fn missing(&self) -> u32 {
        self.known() - self.computed
    }

    /// Whether its next step generates one token from one token; anything else is prefill.
    pub(super) const fn decodes(&self) -> bool {
        self.emitted > 0 && self.missing() == 1
    }

    /// Blocks to be added before `tokens` more can be computed.
    pub(super) fn blocks_short(&self, tokens: u32) -> u32 {
        let have = u32::try_from(self.blocks.len()).expect("bounded by the pool");
        (self.computed + tokens).div_ceil(self.block_tokens).saturating_sub(have)
    }

    /// Takes blocks for everything known, the cached prefix included. `false`, nothing changed, when the pool is short.
    /// The last token is never taken from the cache: its output is what the request wants.
    pub(super) fn admit(&mut self, pool: &mut BlockPool) -> bool {
        let hits = pool.lookup(&self.chain, (self.known() - 1) / self.block_tokens);
        let hit_blocks = u32::try_from(hits.len()).expect("bounded by the pool");
        let Some(blocks) = pool.acquire(&hits, self.known().div_ceil(self.block_tokens) - hit_blocks) else {
            return false;
        };
        self.blocks = blocks;
        self.cached_blocks = hit_blocks;
        self.computed = hit_blocks * self.block_tokens;
        true
    }

    /// Caches the blocks that are full once `tokens` more are computed. Like vLLM this happens when the step starts.
    pub(super) fn fill(&mut self, pool: &mut BlockPool, tokens: u32) {
        let full = ((self.computed + tokens) / self.block_tokens) as usize;
        let fresh = self.cached_blocks as usize..full.min(self.chain.len());
        if !fresh.is_empty() {
            self.cached_blocks = fresh.end as u32;
            pool.cache(&self.blocks[fresh.clone()], &self.chain[fresh]);
        }
    }

    /// Gives all blocks back, tail first.
    pub(super) fn release(&mut self, pool: &mut BlockPool) {
        pool.release(&self.blocks);
        self.blocks.clear();
        self.cached_blocks = 0;
        self.computed = 0;
    }
}
