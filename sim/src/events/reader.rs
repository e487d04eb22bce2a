//! A gateway's own reading of one engine's events, without a gateway.
//!
//! Not here: sockets.

use std::sync::Arc;

use covey_crdt::hash::HashKey;
use covey_crdt::id::ModelName;
use covey_crdt::keyspace::{Keyspace, Unit};
use covey_gateway_plugin::ingest::{EngineCache, decode};

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
    /// When no keyspace has blocks of so many tokens.
    #[must_use]
    pub fn new(block_tokens: u32) -> Self {
        let model = ModelName::new("demo").expect("a name");
        let keyspace = Keyspace::new(model, Unit::Tokens, block_tokens, HashKey::ZERO.id()).expect("a block size");
        Self { cache: EngineCache::new(Arc::new(keyspace), HashKey::ZERO), block_tokens }
    }

    /// Reads the payload of the next batch.
    pub fn apply(&mut self, payload: &[u8]) {
        let _ = self.cache.apply(&decode(payload).events);
    }

    /// Tokens of a prompt that its engine need not compute, as far as its events say. The last token always is.
    #[must_use]
    pub fn predict(&self, prompt: &[u32]) -> u64 {
        let blocks = self.cache.prefix(&self.cache.chain(prompt, None, None));
        let most = (prompt.len() as u64).saturating_sub(1) / u64::from(self.block_tokens);
        u64::from(blocks).min(most) * u64::from(self.block_tokens)
    }
}
