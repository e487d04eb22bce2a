//! Blocks' names: given, waited for, and known beyond the copies they were given for.
//!
//! Not here: copies, and what is held.

use covey_crdt::hash::BlockHash;
use covey_crdt::lane::LaneId;

use super::super::event::ExtraKey;
use super::EngineCache;
use super::copies::{Copies, Kind};
use super::orphans::Orphan;

impl EngineCache {
    /// Gives a block its name, or lets it wait for its parent's.
    pub(super) fn name(
        &mut self,
        hash: u64,
        parent: Option<u64>,
        tokens: &[u32],
        extra: Option<ExtraKey>,
        lora: Option<&str>,
    ) {
        if let Some(known) = self.blocks.get_mut(&hash) {
            known.parent = parent;
        }
        let before = parent.map(|parent| self.blocks.get(&parent).and_then(|known| known.block));
        match (before, parent) {
            (Some(None), Some(parent)) => {
                let orphan = Orphan { parent, tokens: tokens.into(), extra };
                if !self.orphans.insert(hash, orphan) {
                    self.counts.over_bound += 1;
                    self.is_whole = false;
                }
            }
            (before, _) => {
                if let Some(block) = self.block(before.flatten(), tokens, extra, lora) {
                    self.settle(hash, block);
                }
            }
        }
    }

    /// The name of the block behind `before`, or at the start of a prompt.
    pub(super) fn block(
        &self,
        before: Option<BlockHash>,
        tokens: &[u32],
        extra: Option<ExtraKey>,
        lora: Option<&str>,
    ) -> Option<BlockHash> {
        let space = self.space.as_ref()?;
        let mut hasher = match before {
            Some(before) => space.root.resume(before),
            None => self.start(space, lora),
        };
        if let Some(extra) = extra {
            hasher.fold(extra.0.get());
        }
        let mut chain = Vec::with_capacity(1);
        hasher.tokens(tokens, &mut chain);
        chain.first().copied()
    }

    /// The block has its name from now on, and its waiting children get theirs.
    pub(super) fn settle(&mut self, hash: u64, block: BlockHash) {
        let mut due = vec![(hash, block)];
        while let Some((hash, block)) = due.pop() {
            self.orphans.remove(hash);
            let Some(known) = self.blocks.get_mut(&hash) else { continue };
            known.block = Some(block);
            for lane in known.copies.lanes() {
                self.hold(Some(block), lane);
            }
            for (child, orphan) in self.orphans.children_of(hash) {
                due.extend(self.block(Some(block), &orphan.tokens, orphan.extra, None).map(|block| (child, block)));
            }
        }
    }

    /// Batches are missing, for good: any block may have gone since, so none is claimed, but what the engine calls them is
    /// still known (an engine's hash names content). A store behind a block proves that the block is held (`revive`).
    pub fn doubt(&mut self) {
        self.empty();
        self.moved.clear();
        self.blocks.values_mut().for_each(|known| known.copies = Copies::default());
        self.orphans.clear();
        self.is_whole = false;
    }

    /// A request that stores a block on the device holds every block before it there: those known by name alone are held.
    pub(super) fn revive(&mut self, last: u64, lane: LaneId) {
        let mut next = Some(last);
        while let Some(hash) = next {
            let Some(known) = self.blocks.get_mut(&hash) else { return };
            if known.block.is_none() || !known.copies.is_empty() {
                return;
            }
            known.copies.add(lane, Kind::Sure, self.rules.copies);
            next = known.parent;
            let block = known.block;
            self.hold(block, lane);
        }
    }

    /// Drops what is known by name alone. Whether there was anything.
    pub(super) fn drop_names(&mut self) -> bool {
        let before = self.blocks.len();
        self.blocks.retain(|_, known| !known.copies.is_empty());
        self.blocks.len() < before
    }
}
