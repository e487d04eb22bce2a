//! How a prompt's blocks are named in a token keyspace: the one place for requests (`plugin::RequestKey`) and for engines'
//! events (`EngineCache`), because a difference would be a silent 0.
//!
//! An adapter starts another chain: everything computed with it depends on it. A cache salt is folded into the first block,
//! where engines put it; all later ones depend on it through the chain.
//!
//! Not here: multimodal keys of later blocks, which only events know.

use covey_crdt::hash::{BlockHasher, HashKey};
use covey_crdt::keyspace::Keyspace;

use super::event::ExtraKey;

/// What keeps prompts of the same tokens apart in an engine's cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scope<'a> {
    /// The LoRA adapter they are computed with.
    pub adapter: Option<&'a str>,
    /// The request's cache salt; engines refuse an empty one, so it means none.
    pub salt: Option<&'a str>,
}

impl Scope<'_> {
    /// A hasher in front of a prompt's first token.
    ///
    /// # Panics
    /// When `keyspace` names another key than `key`.
    #[must_use]
    pub fn begin(&self, keyspace: &Keyspace, key: &HashKey) -> BlockHasher {
        let mut hasher = chain_of(keyspace, key, self.adapter);
        if let Some(salt) = self.salt.filter(|salt| !salt.is_empty()) {
            hasher.fold(ExtraKey::salt(salt).0.get());
        }
        hasher
    }

    /// Whether anything keeps the prompt apart.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.adapter.is_none() && self.salt.is_none_or(str::is_empty)
    }
}

/// A hasher at the start of every chain of an adapter, or of none.
///
/// # Panics
/// When `keyspace` names another key than `key`.
#[must_use]
pub(super) fn chain_of(keyspace: &Keyspace, key: &HashKey, adapter: Option<&str>) -> BlockHasher {
    BlockHasher::new(keyspace, key, adapter.unwrap_or_default().as_bytes())
}
