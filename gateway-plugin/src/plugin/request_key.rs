//! What a request is looked up by: the block hashes of its prompt, and the hasher state behind the last of them, so
//! that the answer can continue the chain.
//!
//! Not here: rendering a request to bytes or ids (`tokens`), how blocks of ids are named (`ingest::Scope`).

use std::sync::Arc;

use covey_crdt::hash::{BlockHash, BlockHasher, HashKey};
use covey_crdt::keyspace::{Keyspace, Unit};
use covey_crdt::limits::CHAIN_BLOCKS_MAX;

use crate::ingest::Scope;
use crate::policy::Prompt;

/// A prompt as the index sees it. Made once per request, before the first lookup; immutable, cheap to clone.
#[derive(Clone, Debug)]
pub struct RequestKey {
    keyspace: Arc<Keyspace>,
    chain: Arc<[BlockHash]>,
    prompt: Prompt,
    behind: BlockHasher,
}

impl RequestKey {
    /// The key of a prompt rendered to UTF-8 bytes. `salt` keeps prompts apart whose cache entries an engine keeps apart;
    /// empty for none. Blocks past [`CHAIN_BLOCKS_MAX`] are not named.
    ///
    /// # Panics
    /// When `keyspace` counts tokens, or names another key than `key`: both are mistakes of the caller's set-up.
    #[must_use]
    pub fn of_bytes(keyspace: &Arc<Keyspace>, key: &HashKey, salt: &[u8], rendered: &[u8]) -> Self {
        assert_eq!(keyspace.unit, Unit::Bytes, "text belongs to a byte keyspace");
        let mut behind = BlockHasher::new(keyspace, key, salt);
        let mut chain = Vec::with_capacity(rendered.len() / keyspace.block_units as usize + 1);
        behind.bytes(rendered, &mut chain);
        Self::new(keyspace, chain, rendered.len() as u64, behind)
    }

    /// The key of a prompt of engine token ids, its blocks named as the ingest of engines' events names them.
    ///
    /// # Panics
    /// When `keyspace` counts bytes, or names another key than `key`.
    #[must_use]
    pub fn of_tokens(keyspace: &Arc<Keyspace>, key: &HashKey, scope: Scope<'_>, tokens: &[u32]) -> Self {
        assert_eq!(keyspace.unit, Unit::Tokens, "token ids belong to a token keyspace");
        let mut behind = scope.begin(keyspace, key);
        let mut chain = Vec::with_capacity(tokens.len() / keyspace.block_units as usize + 1);
        behind.tokens(tokens, &mut chain);
        Self::new(keyspace, chain, tokens.len() as u64, behind)
    }

    fn new(keyspace: &Arc<Keyspace>, mut chain: Vec<BlockHash>, units: u64, behind: BlockHasher) -> Self {
        chain.truncate(CHAIN_BLOCKS_MAX as usize);
        Self { keyspace: Arc::clone(keyspace), chain: chain.into(), prompt: Prompt::new(keyspace, units), behind }
    }

    /// The space of the hashes.
    #[must_use]
    pub const fn keyspace(&self) -> &Arc<Keyspace> {
        &self.keyspace
    }

    /// The prompt's whole blocks, from the root.
    #[must_use]
    pub const fn chain(&self) -> &Arc<[BlockHash]> {
        &self.chain
    }

    /// A hash that names the prompt's first two blocks (the only one of a one-block prompt); `None` without a block.
    #[must_use]
    pub fn prefix(&self) -> Option<u64> {
        self.chain.get(1).or(self.chain.first()).map(|block| block.0)
    }

    /// A hash that names a part of the prompt that its later turns have, too, and few other prompts: its first 2, 8, 32, 128, …
    /// blocks, as many as it has. `None` with less than two.
    #[must_use]
    pub fn stem(&self) -> Option<u64> {
        let blocks = self.chain.len().checked_ilog2()?.checked_sub(1)? / 2;
        self.chain.get((2 << (2 * blocks)) - 1).map(|block| block.0)
    }

    /// The prompt's length.
    #[must_use]
    pub const fn prompt(&self) -> Prompt {
        self.prompt
    }

    /// The prompt's length in tokens (4 bytes count as one in a byte keyspace), at least 1.
    #[must_use]
    pub fn prompt_tokens(&self) -> u64 {
        self.prompt.tokens()
    }

    /// How many tokens of the prompt a worker that holds its first `blocks` blocks need not compute again.
    #[must_use]
    pub fn reusable_tokens(&self, blocks: u32) -> u64 {
        self.prompt.reusable_tokens(blocks)
    }

    /// The chain after the worker also produced `output`, rendered exactly as the next turn will carry it. Text says nothing
    /// in a token keyspace: see [`Self::extended_by`].
    #[must_use]
    pub fn extended(&self, output: &[u8]) -> Arc<[BlockHash]> {
        match self.keyspace.unit {
            Unit::Bytes => self.with_more(output.len(), |behind, more| behind.bytes(output, more)),
            Unit::Tokens => Arc::clone(&self.chain),
        }
    }

    /// The chain after the worker also computed `tokens`, the ids that follow the prompt's in the next turn. Nothing in a byte
    /// keyspace.
    #[must_use]
    pub fn extended_by(&self, tokens: &[u32]) -> Arc<[BlockHash]> {
        match self.keyspace.unit {
            Unit::Tokens => self.with_more(tokens.len(), |behind, more| behind.tokens(tokens, more)),
            Unit::Bytes => Arc::clone(&self.chain),
        }
    }

    fn with_more(&self, units: usize, take: impl FnOnce(&mut BlockHasher, &mut Vec<BlockHash>)) -> Arc<[BlockHash]> {
        let room = (CHAIN_BLOCKS_MAX as usize).saturating_sub(self.chain.len());
        let mut more = Vec::with_capacity(units / self.keyspace.block_units as usize + 1);
        take(&mut self.behind.clone(), &mut more);
        more.truncate(room);
        if more.is_empty() {
            return Arc::clone(&self.chain);
        }
        self.chain.iter().copied().chain(more).collect()
    }
}

#[cfg(test)]
mod tests {
    use covey_crdt::id::ModelName;

    use super::*;
    use crate::ingest::{CacheRules, EngineCache};

    fn keyspace(unit: Unit, block_units: u32) -> Arc<Keyspace> {
        let model = ModelName::new("m").expect("a name");
        Arc::new(Keyspace::new(model, unit, block_units, HashKey::ZERO.id()).expect("a block size"))
    }

    #[test]
    fn the_stem_stays_while_a_prompt_grows_and_is_as_long_as_it_can_be() {
        let (keyspace, key) = (keyspace(Unit::Bytes, 16), HashKey::ZERO);
        let text: Vec<u8> = (0..16 * 200_u32).map(|n| (n * n / 7) as u8).collect();
        let of = |blocks: usize| RequestKey::of_bytes(&keyspace, &key, b"", &text[..16 * blocks]);
        let named = |blocks: usize| of(blocks).stem();
        assert_eq!([0, 1].map(named), [None, None]);
        for (blocks, stem) in [(2, 2), (7, 2), (8, 8), (31, 8), (32, 32), (127, 32), (128, 128), (200, 128)] {
            assert_eq!(named(blocks), of(200).chain().get(stem - 1).map(|block| block.0), "{blocks} blocks");
        }
    }

    #[test]
    fn the_answer_continues_the_prompts_chain() {
        let keyspace = keyspace(Unit::Bytes, 16);
        let text: Vec<u8> = (0..200).collect();
        let whole = RequestKey::of_bytes(&keyspace, &HashKey::ZERO, b"", &text);
        for cut in [1, 15, 16, 17, 100, 199] {
            let prompt = RequestKey::of_bytes(&keyspace, &HashKey::ZERO, b"", &text[..cut]);
            assert_eq!(prompt.extended(&text[cut..]), *whole.chain(), "cut at {cut}");
            assert_eq!(prompt.extended(b""), *prompt.chain());
        }
    }

    #[test]
    fn the_score_stays_below_the_last_token() {
        let bytes = RequestKey::of_bytes(&keyspace(Unit::Bytes, 256), &HashKey::ZERO, b"", &[7; 512]);
        assert_eq!((bytes.prompt_tokens(), bytes.chain().len()), (128, 2));
        assert_eq!(bytes.reusable_tokens(1), 64);
        assert_eq!(bytes.reusable_tokens(2), 127);
        assert_eq!(bytes.reusable_tokens(900), 127);
        let tokens = RequestKey::of_tokens(&keyspace(Unit::Tokens, 16), &HashKey::ZERO, Scope::default(), &[1; 40]);
        assert_eq!((tokens.reusable_tokens(0), tokens.reusable_tokens(2)), (0, 32));
        let even = RequestKey::of_tokens(&keyspace(Unit::Tokens, 16), &HashKey::ZERO, Scope::default(), &[1; 48]);
        assert_eq!((even.reusable_tokens(3), even.reusable_tokens(1)), (32, 16), "engines reuse whole blocks alone");
        let empty = RequestKey::of_bytes(&keyspace(Unit::Bytes, 256), &HashKey::ZERO, b"", b"");
        assert_eq!((empty.prompt_tokens(), empty.reusable_tokens(3)), (1, 0));
    }

    /// The ingest of events and the key of a request, which must never differ.
    #[test]
    fn requests_and_events_name_blocks_alike() {
        let keyspace = keyspace(Unit::Tokens, 4);
        let tokens: Vec<u32> = (0..23).collect();
        let rules = CacheRules { block_tokens: Some(4), ..CacheRules::default() };
        let cache = EngineCache::new(keyspace.model.clone(), HashKey::ZERO, rules);
        let mut chains = Vec::new();
        for (adapter, salt) in [(None, None), (Some("lora"), None), (None, Some("s")), (Some("lora"), Some("s"))] {
            let key = RequestKey::of_tokens(&keyspace, &HashKey::ZERO, Scope { adapter, salt }, &tokens[..10]);
            let whole = cache.chain(&tokens, adapter, salt);
            assert_eq!(key.chain()[..], whole[..2]);
            assert_eq!(key.extended_by(&tokens[10..])[..], whole[..]);
            assert_eq!(key.extended(b"text"), *key.chain(), "text is no token");
            chains.push(whole);
        }
        chains.dedup();
        assert_eq!(chains.len(), 4);
    }

    #[test]
    #[should_panic(expected = "byte keyspace")]
    fn bytes_are_never_judged_in_tokens() {
        let _ = RequestKey::of_bytes(&keyspace(Unit::Tokens, 16), &HashKey::ZERO, b"", b"text");
    }
}
