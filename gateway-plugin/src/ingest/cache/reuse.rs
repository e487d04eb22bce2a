//! Repeats: stores, from the root, of what is held already. Second copies and mere reports of a reuse look alike.
//!
//! Not here: copies themselves (`copies`).

use covey_crdt::lane::LaneId;

use super::super::event::Stored;
use super::EngineCache;
use super::copies::Kind;

/// Signs that stores report reuses, before that is believed: two requests that share a prompt may look so by chance.
pub(super) const REUSE_SIGNS_MIN: u32 = 8;

impl EngineCache {
    /// What kind of copies a store reports. A request may ask vLLM to report the blocks it *reuses* as stores from the root
    /// (`kv_cache_report_mode`), and nothing in them says that no copy was made. Such a report and a true second copy from
    /// the root look alike, so their copies are doubtful: they count until the engine shows that it reports reuses. It
    /// shows that when, again and again, in one batch a repeat from the root of two blocks or more is followed by a store
    /// right behind its last block: whoever computes a prompt again stores all of it in one event. Then doubtful copies never were, but of the
    /// blocks just reported one copy is there.
    pub(super) fn kind_of(&mut self, stored: &Stored, lane: LaneId) -> Kind {
        if let Some((of, last)) = self.repeated
            && of == lane
        {
            self.repeated = None;
            if stored.parent == Some(last) && !self.reports_reuse {
                self.reuse_signs = self.reuse_signs.saturating_add(1);
                if self.reuse_signs >= REUSE_SIGNS_MIN && self.reuse_signs / 4 > self.copy_signs {
                    self.reports_reuse = true;
                    self.confirm(last, lane);
                    self.drop_doubtful();
                }
            }
        }
        let is_held = |hash: &u64| self.blocks.get(hash).is_some_and(|known| known.copies.any(lane));
        let (None, Some(last)) = (stored.parent, stored.hashes.last()) else { return Kind::Sure };
        if !stored.hashes.iter().all(is_held) {
            return Kind::Sure;
        }
        self.counts.repeats += 1;
        if stored.hashes.len() > 1 {
            self.repeated = Some((lane, *last));
        }
        if self.reports_reuse { Kind::None } else { Kind::Doubtful }
    }

    pub(super) fn confirm(&mut self, last: u64, lane: LaneId) {
        let mut next = Some(last);
        while let Some(known) = next.and_then(|hash| self.blocks.get_mut(&hash)) {
            if !known.copies.confirm(lane) {
                return;
            }
            next = known.parent;
        }
    }

    pub(super) fn drop_doubtful(&mut self) {
        let doubtful: Vec<u64> =
            self.blocks.iter().filter(|(_, known)| known.copies.any_doubtful()).map(|(hash, _)| *hash).collect();
        for hash in doubtful {
            let Some(known) = self.blocks.get_mut(&hash) else { continue };
            let block = known.block;
            let gone = known.copies.drop_doubtful();
            let is_gone = known.copies.is_empty();
            for lane in gone {
                self.let_go(block, lane);
            }
            if is_gone {
                self.forget(hash);
            }
        }
    }
}
