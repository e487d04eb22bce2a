//! Blocks that wait for their parent's name.
//!
//! Not here: naming. Bounded in number and in tokens; what does not fit keeps its copies and never gets a name from here.

use std::collections::BTreeSet;

use super::super::event::ExtraKey;
use super::table::Table;

/// Orphans of one engine at most.
pub(super) const ORPHANS_MAX: usize = 1 << 16;
/// Tokens of all of them at most: 16 MiB.
pub(super) const ORPHAN_TOKENS_MAX: usize = 1 << 22;

/// What is needed to name a block once its parent is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Orphan {
    pub(super) parent: u64,
    pub(super) tokens: Box<[u32]>,
    pub(super) extra: Option<ExtraKey>,
}

/// All of them, by their own hash and by their parent's.
#[derive(Clone, Debug, Default)]
pub(super) struct Orphans {
    by_hash: Table<u64, Orphan>,
    by_parent: Table<u64, BTreeSet<u64>>,
    tokens: usize,
}

impl Orphans {
    pub(super) fn len(&self) -> usize {
        self.by_hash.len()
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// `false` when there is no room.
    pub(super) fn insert(&mut self, hash: u64, orphan: Orphan) -> bool {
        self.remove(hash);
        if self.by_hash.len() >= ORPHANS_MAX || self.tokens + orphan.tokens.len() > ORPHAN_TOKENS_MAX {
            return false;
        }
        self.tokens += orphan.tokens.len();
        self.by_parent.entry(orphan.parent).or_default().insert(hash);
        self.by_hash.insert(hash, orphan);
        true
    }

    pub(super) fn remove(&mut self, hash: u64) -> Option<Orphan> {
        let orphan = self.by_hash.remove(&hash)?;
        self.tokens -= orphan.tokens.len();
        if let Some(children) = self.by_parent.get_mut(&orphan.parent) {
            children.remove(&hash);
            if children.is_empty() {
                self.by_parent.remove(&orphan.parent);
            }
        }
        Some(orphan)
    }

    /// Those that waited for this parent, which wait no more; in the order of their hashes.
    pub(super) fn children_of(&mut self, parent: u64) -> Vec<(u64, Orphan)> {
        let children = self.by_parent.get(&parent).cloned().unwrap_or_default();
        children.into_iter().filter_map(|child| Some((child, self.remove(child)?))).collect()
    }

    /// In the order of their hashes.
    pub(super) fn sorted(&self) -> Vec<(u64, &Orphan)> {
        let mut all: Vec<_> = self.by_hash.iter().map(|(hash, orphan)| (*hash, orphan)).collect();
        all.sort_unstable_by_key(|(hash, _)| *hash);
        all
    }
}
