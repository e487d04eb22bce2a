//! Feeds in a replica: each worker's stored coverage beside its placed coverage, and the changes that readers see of it.
//!
//! A feed lives inside the worker's incarnation: a higher one, from whatever op it is adopted, empties it (P1).
//!
//! Not here: the value and its order (`stored`), which log an op came by (`covey-mesh`).

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::change::{Change, Coverage, FeedView, HolderKey, HolderSlot};
use crate::digest::Digest;
use crate::hash::BlockHash;
use crate::id::{Incarnation, WorkerId};
use crate::keyspace::Keyspace;
use crate::lane::LaneId;
use crate::lattice::Merged;
use crate::plant::{Plant, planted};
use crate::replica::{Replica, Slots};
use crate::stored::{FeedGap, FeedState, LaneDelta, StoredOp};

/// A worker's feed in a replica. The state is shared with whoever sends it whole, and copied when it changes meanwhile.
#[derive(Clone, Debug)]
pub(crate) struct Feed {
    pub(crate) state: Arc<FeedState>,
    pub(crate) digest: Digest,
    slots: BTreeMap<(Arc<Keyspace>, LaneId), HolderSlot>,
}

impl Replica {
    /// Applies one op of a worker's feed. One of an older incarnation or generation, or of a state already reached, changes
    /// nothing (R1).
    ///
    /// # Errors
    /// [`FeedGap`] when the op before it is not applied yet.
    pub fn apply_feed(&mut self, op: &StoredOp) -> Result<Merged, FeedGap> {
        if op.key.incarnation.is_removed() || self.is_over(&op.worker, &op.key.incarnation) {
            return Ok(Merged::Unchanged);
        }
        let mine = self.feed(&op.worker).filter(|state| state.key.incarnation == op.key.incarnation);
        if mine.is_some_and(|state| op.key <= state.key) {
            return Ok(Merged::Unchanged);
        }
        let is_newer = mine.is_none_or(|state| op.key.generation > state.key.generation);
        if op.begins && is_newer {
            return Ok(self.install_feed(&op.worker, Arc::new(FeedState::begun(op))));
        }
        if !mine.is_some_and(|state| state.precedes(&op.key) || planted(Plant::FeedGapApplied)) {
            return Err(FeedGap);
        }
        let (feed, mut seam) = self.feed_mut(&op.worker).expect("its state was just read");
        let before = feed.digest;
        let deltas = Arc::make_mut(&mut feed.state).apply(op)?;
        for delta in deltas {
            seam.show(&op.worker, feed, delta);
        }
        feed.digest = feed.state.digest(&op.worker);
        seam.swap(before, feed.digest);
        let view = FeedView::of(&feed.state);
        seam.changes.push(Change::Feed { worker: op.worker.clone(), feed: Some(view) });
        self.feed_moved(&op.worker);
        Ok(Merged::Grew)
    }

    /// Joins a feed's whole state: the one with the larger key stays.
    pub fn install_feed(&mut self, worker: &WorkerId, state: Arc<FeedState>) -> Merged {
        if state.key.incarnation.is_removed() || self.is_over(worker, &state.key.incarnation) {
            return Merged::Unchanged;
        }
        let adopted = self.adopt(worker, &state.key.incarnation);
        if self.record(worker).is_none_or(|record| record.incarnation != state.key.incarnation) {
            return adopted;
        }
        if self.feed(worker).is_some_and(|mine| mine.key >= state.key) {
            return adopted;
        }
        let fresh = Feed { digest: state.digest(worker), state, slots: BTreeMap::new() };
        let old = self.swap_feed(worker, Some(fresh));
        let (feed, mut seam) = self.feed_mut(worker).expect("it was just put there");
        let (mut before, mut after) = (old, feed.state.lanes().clone());
        if let Some(old) = &mut before {
            feed.slots = std::mem::take(&mut old.slots);
            seam.swap(old.digest, Digest::default());
        }
        seam.swap(Digest::default(), feed.digest);
        // What both hold is not touched: readers see only what really comes and goes.
        let had =
            before.map(|old| Arc::unwrap_or_clone(old.state)).map(|state| state.lanes().clone()).unwrap_or_default();
        for (key, set) in had {
            let kept = after.remove(&key).unwrap_or_default();
            let removed = set.blocks().difference(kept.blocks()).copied().collect();
            let added = kept.blocks().difference(set.blocks()).copied().collect();
            seam.show(worker, feed, (key, added, removed));
        }
        for (key, set) in after {
            seam.show(worker, feed, (key, set.blocks().iter().copied().collect(), Vec::new()));
        }
        let view = FeedView::of(&feed.state);
        seam.changes.push(Change::Feed { worker: worker.clone(), feed: Some(view) });
        self.feed_moved(worker);
        Merged::Grew
    }

    /// A higher incarnation was adopted: what the feed said is over.
    pub(crate) fn end_feed(&mut self, worker: &WorkerId) {
        let Some((feed, mut seam)) = self.feed_mut(worker) else { return };
        seam.swap(feed.digest, Digest::default());
        let lanes = feed.state.lanes().clone();
        for (key, set) in lanes {
            seam.show(worker, feed, (key, Vec::new(), set.blocks().iter().copied().collect()));
        }
        for slot in std::mem::take(&mut feed.slots).into_values() {
            seam.changes.push(Change::HolderFreed { slot });
            seam.slots.give(slot);
        }
        seam.changes.push(Change::Feed { worker: worker.clone(), feed: None });
        let _over = self.swap_feed(worker, None);
        self.feed_moved(worker);
    }

    /// A worker's feed, if events of its present incarnation are known.
    #[must_use]
    pub fn feed(&self, worker: &WorkerId) -> Option<&FeedState> {
        self.feed_shared(worker).map(|state| &**state)
    }

    /// The same, to be kept while the replica goes on.
    #[must_use]
    pub fn feed_shared(&self, worker: &WorkerId) -> Option<&Arc<FeedState>> {
        self.feed_of(worker).map(|feed| &feed.state)
    }

    /// Every feed, in canonical order.
    pub fn feeds(&self) -> impl Iterator<Item = (&WorkerId, &FeedState)> {
        self.all_feeds().map(|(worker, feed)| (worker, &*feed.state))
    }

    /// How far a worker's feed could go at least: its incarnation, if it has one.
    #[must_use]
    pub fn feed_incarnation(&self, worker: &WorkerId) -> Option<&Incarnation> {
        self.record(worker).map(|record| &record.incarnation)
    }
}

/// The parts of a replica that a feed's changes touch.
pub(crate) struct Seam<'a> {
    pub(crate) changes: &'a mut Vec<Change>,
    pub(crate) slots: &'a mut Slots,
    pub(crate) root: &'a mut Digest,
}

impl Seam<'_> {
    fn swap(&mut self, before: Digest, after: Digest) {
        if before != Digest::default() {
            self.root.remove(before);
        }
        if after != Digest::default() {
            self.root.add(after);
        }
    }

    /// Tells readers what came and went in one holder; the holder goes with its last block.
    fn show(&mut self, worker: &WorkerId, feed: &mut Feed, (key, added, removed): LaneDelta) {
        if added.is_empty() && removed.is_empty() {
            return;
        }
        let slot = *feed.slots.entry(key.clone()).or_insert_with(|| {
            let slot = self.slots.take();
            let holder = HolderKey { worker: worker.clone(), keyspace: Arc::clone(&key.0), lane: key.1 };
            self.changes.push(Change::Holder { slot, key: holder, coverage: Coverage::Stored });
            slot
        });
        let is_over = !feed.state.lanes().contains_key(&key);
        self.changes.push(Change::Stored { slot, added: shared(added), removed: shared(removed) });
        if is_over {
            feed.slots.remove(&key);
            self.changes.push(Change::HolderFreed { slot });
            self.slots.give(slot);
        }
    }
}

fn shared(blocks: Vec<BlockHash>) -> Arc<[BlockHash]> {
    blocks.into()
}
