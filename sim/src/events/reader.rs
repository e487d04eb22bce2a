//! A gateway's own reading of one engine's events, without a gateway.
//!
//! Not here: sockets.

use covey_crdt::hash::{BlockHash, HashKey};
use covey_crdt::id::ModelName;
use covey_crdt::lane::{LaneId, Tier};
use covey_gateway_plugin::ingest::{CacheRules, Decoded, EngineCache, decode};

/// What one engine is believed to hold.
#[derive(Clone, Debug)]
pub struct Reader {
    cache: EngineCache,
    block_tokens: u32,
}

impl Reader {
    /// Nothing yet.
    ///
    /// # Panics
    /// When no cache has blocks of so many tokens.
    #[must_use]
    pub fn new(block_tokens: u32) -> Self {
        let model = ModelName::new("demo").expect("a name");
        let rules = CacheRules { block_tokens: Some(block_tokens), ..CacheRules::default() };
        let cache = EngineCache::new(model, HashKey::ZERO, rules);
        assert_eq!(cache.block_tokens(), Some(block_tokens), "a block size that no keyspace has");
        Self { cache, block_tokens }
    }

    /// Reads the payload of the next batch; gives what was in it.
    pub fn apply(&mut self, payload: &[u8]) -> Decoded {
        let decoded = decode(payload);
        let _ = self.cache.apply(&decoded.events);
        decoded
    }

    /// The blocks it holds in a tier, under the gateway's names, ascending.
    #[must_use]
    pub fn blocks(&self, tier: Tier) -> Vec<BlockHash> {
        let lane = LaneId::of(0, tier).expect("a lane");
        self.cache.contents().into_iter().filter(|net| net.lane == lane).flat_map(|net| net.added).collect()
    }

    /// The gateway's names of a prompt's whole blocks.
    #[must_use]
    pub fn chain(&self, tokens: &[u32], salt: Option<&str>) -> Vec<BlockHash> {
        self.cache.chain(tokens, None, salt)
    }

    /// Tokens of a prompt that its engine need not compute, as far as its events say. The last token always is.
    #[must_use]
    pub fn predict(&self, prompt: &[u32]) -> u64 {
        let blocks = self.cache.prefix(&self.cache.chain(prompt, None, None));
        let most = (prompt.len() as u64).saturating_sub(1) / u64::from(self.block_tokens);
        u64::from(blocks).min(most) * u64::from(self.block_tokens)
    }
}
