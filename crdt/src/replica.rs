//! One replica: every worker, holder and life a gateway knows of, and the only code that alters them.
//!
//! Ops and repair pieces go in, [`Change`]s come out. Merging is total: what an older incarnation says changes nothing,
//! a newer one is adopted on sight. The root digest is kept in step with every change.
//!
//! Not here: in which order ops may be applied, what a vector is (`covey-mesh`). Upholds I1 to I5.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::chain::{ChainPiece, Chains, Tip, TooDeep};
use crate::change::{Change, Coverage, HolderKey, HolderSlot, Place};
use crate::digest::Digest;
use crate::feed::{Feed, Seam};
use crate::hash::{BlockHash, PathId};
use crate::id::{Incarnation, LifeId, WorkerId};
use crate::keyspace::Keyspace;
use crate::lane::LaneId;
use crate::lattice::{Lattice, Merged};
use crate::limits::{KEYSPACES_PER_WORKER_MAX, WORKERS_MAX};
use crate::lives::{LifeRecord, Lives, Retirement};
use crate::op::Op;
use crate::placed::{Ground, Placed};
use crate::plant::{Plant, planted};
use crate::stamp::{Floor, Stamp};
use crate::stored::FeedState;
use crate::worker::{Holder, Totals, Worker, WorkerRecord, holder_bytes};

/// Why an op cannot be applied now. The replica is untouched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplyError {
    /// The chain it names is not stored: ask for its content and apply the op then.
    Unresolved(Tip),
}

/// Everything one gateway knows.
#[derive(Clone, Debug, Default)]
pub struct Replica {
    chains: Chains,
    workers: BTreeMap<WorkerId, Worker>,
    lives: Lives,
    slots: Slots,
    root: Digest,
    changes: Vec<Change>,
    over_bound: u64,
    feeds_moved: Vec<WorkerId>,
}

/// Numbers for holders, reused.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots {
    free: Vec<HolderSlot>,
    made: u32,
}

impl Slots {
    pub(crate) fn take(&mut self) -> HolderSlot {
        self.free.pop().unwrap_or_else(|| {
            self.made += 1;
            HolderSlot(self.made - 1)
        })
    }

    pub(crate) fn give(&mut self, slot: HolderSlot) {
        self.free.push(slot);
    }
}

impl Replica {
    /// Applies one op of the log of `life`.
    ///
    /// # Errors
    /// [`ApplyError::Unresolved`] when the op names a chain whose content is not here.
    pub fn apply(&mut self, life: LifeId, op: &Op) -> Result<Merged, ApplyError> {
        Ok(match op {
            Op::Joined { name } => self.merge_life(life, &LifeRecord { name: name.clone(), left: false }),
            Op::Left => self.lives.leave(&mut self.root, life),
            Op::Retired(end) => self.retire(end.life, Retirement { last: end.last, at: end.stamp }),
            Op::Forget(forget) => self.forget(forget.through),
            // What an older incarnation says changes nothing (R1), so its chain is not needed.
            Op::Touch(touch) if self.is_over(&touch.worker, &touch.incarnation) => Merged::Unchanged,
            Op::Touch(touch) => {
                let place = self.chains.resolve(touch.tip).ok_or(ApplyError::Unresolved(touch.tip))?;
                self.place(&touch.worker, &touch.keyspace, &touch.incarnation, place, touch.stamp)
            }
            Op::Floor(raise) => self.floor(&raise.worker, &raise.keyspace, &raise.incarnation, raise.floor),
            Op::Worker(update) => {
                let record = WorkerRecord {
                    incarnation: update.incarnation.clone(),
                    capacity_tokens: update.capacity_tokens,
                    meta: update.meta.clone(),
                };
                self.merge_record(&update.worker, &record)
            }
            Op::Restated(slice) => self.merge_slice(slice)?,
        })
    }

    pub(crate) fn is_over(&self, worker: &WorkerId, incarnation: &Incarnation) -> bool {
        let over = self.record(worker).is_some_and(|record| record.incarnation > *incarnation);
        over && !planted(Plant::DeadIncarnationApplied)
    }

    /// Raises a chain of a worker to `stamp`. The chain need not be kept by the caller.
    pub fn place(
        &mut self,
        worker: &WorkerId,
        keyspace: &Arc<Keyspace>,
        incarnation: &Incarnation,
        place: Place,
        stamp: Stamp,
    ) -> Merged {
        // A higher incarnation empties the worker first, and that may have been the last holder of the chain.
        self.keep(place);
        let merged =
            self.with_placed(worker, keyspace, incarnation, |placed, ground| placed.touch(ground, place, stamp));
        self.release(place);
        merged
    }

    /// Raises a holder's floor.
    pub fn floor(
        &mut self,
        worker: &WorkerId,
        keyspace: &Arc<Keyspace>,
        incarnation: &Incarnation,
        floor: Floor,
    ) -> Merged {
        self.with_placed(worker, keyspace, incarnation, |placed, ground| placed.raise_floor(ground, floor))
    }

    fn with_placed(
        &mut self,
        worker: &WorkerId,
        keyspace: &Arc<Keyspace>,
        incarnation: &Incarnation,
        act: impl FnOnce(&mut Placed, &mut Ground<'_>) -> Merged,
    ) -> Merged {
        let adopted = self.adopt(worker, incarnation);
        let Some(stored) = self.workers.get_mut(worker) else { return adopted };
        let over = stored.record.incarnation != *incarnation && !planted(Plant::DeadIncarnationApplied);
        if over || incarnation.is_removed() {
            return adopted;
        }
        let key = (Arc::clone(keyspace), LaneId::PLAIN);
        if !stored.holders.contains_key(&key) {
            if stored.holders.len() >= KEYSPACES_PER_WORKER_MAX {
                self.over_bound += 1;
                return adopted;
            }
            let slot = self.slots.take();
            let placed = Placed::new(keyspace.capacity_blocks(stored.record.capacity_tokens));
            let name = crate::outline::holder_name(worker, &key);
            stored.holders.insert(key.clone(), Holder { slot, name, placed });
            let key = HolderKey { worker: worker.clone(), keyspace: Arc::clone(keyspace), lane: LaneId::PLAIN };
            self.changes.push(Change::Holder { slot, key, coverage: Coverage::Placed });
        }
        let holder = stored.holders.get_mut(&key).expect("inserted above");
        let mut ground = Ground { chains: &mut self.chains, slot: holder.slot, changes: &mut self.changes };
        let before = holder.placed.digest();
        let merged = act(&mut holder.placed, &mut ground);
        swap_holder(&mut self.root, worker, &key, before, holder.placed.digest());
        adopted.or(merged)
    }

    /// Adopts a higher incarnation: everything the lower one held is gone (P1).
    pub(crate) fn adopt(&mut self, worker: &WorkerId, incarnation: &Incarnation) -> Merged {
        let record = WorkerRecord::new(incarnation.clone());
        self.merge_record(worker, &record)
    }

    /// Joins a worker's record.
    pub fn merge_record(&mut self, worker: &WorkerId, record: &WorkerRecord) -> Merged {
        if !self.workers.contains_key(worker) {
            if self.workers.len() >= WORKERS_MAX {
                self.over_bound += 1;
                return Merged::Unchanged;
            }
            let fresh = Worker { record: record.clone(), holders: BTreeMap::new(), feed: None };
            self.root.add(record.digest(worker));
            self.changes.push(Change::Worker(fresh.view(worker)));
            self.workers.insert(worker.clone(), fresh);
            return Merged::Grew;
        }
        if self.workers.get(worker).is_some_and(|known| record.incarnation > known.record.incarnation) {
            self.end_feed(worker);
        }
        let stored = self.workers.get_mut(worker).expect("looked at above");
        let before = stored.record.digest(worker);
        if record.incarnation > stored.record.incarnation {
            for (key, mut holder) in std::mem::take(&mut stored.holders) {
                let mut ground = Ground { chains: &mut self.chains, slot: holder.slot, changes: &mut self.changes };
                swap_holder(&mut self.root, worker, &key, holder.placed.digest(), Digest::default());
                holder.placed.clear(&mut ground);
                if planted(Plant::FloorOutlivesIncarnation) {
                    swap_holder(&mut self.root, worker, &key, Digest::default(), holder.placed.digest());
                    stored.holders.insert(key, holder);
                    continue;
                }
                self.changes.push(Change::HolderFreed { slot: holder.slot });
                self.slots.give(holder.slot);
            }
        }
        if stored.record.merge(record) == Merged::Unchanged {
            return Merged::Unchanged;
        }
        self.root.remove(before);
        self.root.add(stored.record.digest(worker));
        for (key, holder) in &mut stored.holders {
            let mut ground = Ground { chains: &mut self.chains, slot: holder.slot, changes: &mut self.changes };
            let before = holder.placed.digest();
            let _ = holder.placed.shrink(&mut ground, key.0.capacity_blocks(stored.record.capacity_tokens));
            swap_holder(&mut self.root, worker, key, before, holder.placed.digest());
        }
        self.changes.push(Change::Worker(stored.view(worker)));
        Merged::Grew
    }

    /// Joins a life's record: it exists; once left, it stays so; a retired one is none any more.
    pub fn merge_life(&mut self, life: LifeId, record: &LifeRecord) -> Merged {
        self.lives.merge(&mut self.root, life, record)
    }

    /// A life is over, and the caller's vector has reached its last op, or a session covers it (P8). The later and longer
    /// of two ends counts.
    pub fn retire(&mut self, life: LifeId, end: Retirement) -> Merged {
        self.lives.retire(&mut self.root, life, end)
    }

    /// Lives retired at or before `through` are not remembered any more, whoever speaks of them again.
    pub fn forget(&mut self, through: Stamp) -> Merged {
        self.lives.forget(&mut self.root, through)
    }

    /// Stores chain content and keeps it for as long as the caller holds the returned place's run.
    ///
    /// # Errors
    /// `Ok(None)` when the piece's base is not stored; [`TooDeep`] when the chain would exceed its bound.
    pub fn learn(&mut self, piece: &ChainPiece) -> Result<Option<Place>, TooDeep> {
        let Some(base) = self.chains.resolve(piece.base) else { return Ok(None) };
        let place = self.chains.insert(base, &piece.hashes, &mut self.changes)?;
        self.chains.name(place);
        Ok(Some(place))
    }

    /// Stores a chain from its root and keeps it for as long as the caller holds the returned place's run.
    ///
    /// # Errors
    /// [`TooDeep`] when the chain would exceed its bound.
    pub fn learn_chain(&mut self, chain: &[BlockHash]) -> Result<(Place, Tip), TooDeep> {
        let place = self.chains.insert(Place::ROOT, chain, &mut self.changes)?;
        Ok((place, self.chains.name(place)))
    }

    /// Makes every tip of the placed coverage resolvable by its path id: a cut may have left a touch reaching to a place
    /// inside a run that nobody named. To be done before state is said again as an op.
    pub fn name_tips(&mut self) {
        let holders = self.workers.values().flat_map(|worker| worker.holders.values());
        let places = holders.flat_map(|holder| holder.placed.segments(None).map(|(_, place)| place));
        for place in places.collect::<Vec<_>>() {
            self.chains.name(place);
        }
    }

    /// Keeps the chain a tip names, if it is stored.
    pub fn retain(&mut self, tip: Tip) -> Option<Place> {
        let place = self.chains.resolve(tip)?;
        self.chains.retain(place.run);
        Some(place)
    }

    /// Keeps the chain that ends at a stored place.
    pub(crate) fn keep(&mut self, place: Place) {
        self.chains.retain(place.run);
    }

    /// Gives a kept chain back.
    pub fn release(&mut self, place: Place) {
        self.chains.release(place.run, &mut self.changes);
    }

    /// Workers whose feed moved since the last call.
    pub fn take_feeds_moved(&mut self) -> Vec<WorkerId> {
        std::mem::take(&mut self.feeds_moved)
    }

    pub(crate) fn feed_moved(&mut self, worker: &WorkerId) {
        if self.feeds_moved.last() != Some(worker) {
            self.feeds_moved.push(worker.clone());
        }
    }

    pub(crate) fn feed_of(&self, worker: &WorkerId) -> Option<&Feed> {
        self.workers.get(worker)?.feed.as_ref()
    }

    pub(crate) fn all_feeds(&self) -> impl Iterator<Item = (&WorkerId, &Feed)> {
        self.workers.iter().filter_map(|(id, worker)| Some((id, worker.feed.as_ref()?)))
    }

    pub(crate) fn swap_feed(&mut self, worker: &WorkerId, feed: Option<Feed>) -> Option<Feed> {
        std::mem::replace(&mut self.workers.get_mut(worker)?.feed, feed)
    }

    pub(crate) fn feed_mut(&mut self, worker: &WorkerId) -> Option<(&mut Feed, Seam<'_>)> {
        let feed = self.workers.get_mut(worker)?.feed.as_mut()?;
        Some((feed, Seam { changes: &mut self.changes, slots: &mut self.slots, root: &mut self.root }))
    }

    /// The chain store.
    #[must_use]
    pub const fn chains(&self) -> &Chains {
        &self.chains
    }

    /// A worker's record.
    #[must_use]
    pub fn record(&self, worker: &WorkerId) -> Option<&WorkerRecord> {
        self.workers.get(worker).map(|worker| &worker.record)
    }

    /// Every worker's record.
    pub fn records(&self) -> impl Iterator<Item = (&WorkerId, &WorkerRecord)> {
        self.workers.iter().map(|(id, worker)| (id, &worker.record))
    }

    /// Every worker in numbers, in canonical order. O(holders).
    pub fn totals(&self) -> impl Iterator<Item = (&WorkerId, &WorkerRecord, Totals)> {
        self.workers.iter().map(|(id, worker)| (id, &worker.record, worker.totals(id)))
    }

    /// Every holder's placed coverage, in canonical order.
    pub fn holders(&self) -> impl Iterator<Item = (&WorkerId, &Arc<Keyspace>, &Placed)> {
        self.workers.iter().flat_map(|(id, worker)| {
            worker.holders.iter().map(move |((keyspace, _), holder)| (id, keyspace, &holder.placed))
        })
    }

    /// A worker's placed coverage, in canonical order.
    pub fn holders_in(&self, worker: &WorkerId) -> impl Iterator<Item = (&Arc<Keyspace>, &Placed)> {
        self.holders_of(worker, None).map(|((keyspace, _), placed)| (keyspace, placed))
    }

    /// A worker's holders, in canonical order, from the first after `after`.
    pub(crate) fn holders_of(
        &self,
        worker: &WorkerId,
        after: Option<&(Arc<Keyspace>, LaneId)>,
    ) -> impl Iterator<Item = (&(Arc<Keyspace>, LaneId), &Placed)> {
        let from = after.map_or(std::ops::Bound::Unbounded, |key| std::ops::Bound::Excluded(key.clone()));
        self.workers
            .get(worker)
            .into_iter()
            .flat_map(move |stored| stored.holders.range((from.clone(), std::ops::Bound::Unbounded)))
            .map(|(key, holder)| (key, &holder.placed))
    }

    /// The workers after `after` with everything of theirs, in canonical order.
    pub(crate) fn entries_after(&self, after: Option<&WorkerId>) -> impl Iterator<Item = (&WorkerId, &Worker)> {
        let from = after.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        self.workers.range((from, std::ops::Bound::Unbounded))
    }

    /// Every life that joined and is not retired.
    #[must_use]
    pub const fn lives(&self) -> &BTreeMap<LifeId, LifeRecord> {
        self.lives.records()
    }

    /// Every retired life that is still remembered, with its end.
    #[must_use]
    pub const fn retired(&self) -> &BTreeMap<LifeId, Retirement> {
        self.lives.retired()
    }

    /// What was retired at or before this is forgotten.
    #[must_use]
    pub const fn forgotten(&self) -> Stamp {
        self.lives.forgotten()
    }

    /// The digest of the ends alone: of retired lives, and of what is forgotten.
    #[must_use]
    pub const fn ends_digest(&self) -> Digest {
        self.lives.ends_digest()
    }

    /// The digest of everything: equal vectors and clean replicas ⇒ equal roots (I1).
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.root
    }

    /// Updates refused because a bound was reached.
    #[must_use]
    pub const fn over_bound(&self) -> u64 {
        self.over_bound
    }

    /// What changed since the last call, in order.
    pub fn take_changes(&mut self) -> std::vec::Drain<'_, Change> {
        self.changes.drain(..)
    }

    /// Everything the replica holds, expanded to blocks: for tests and the simulator, O(blocks).
    #[must_use]
    pub fn expand(&self) -> Expanded {
        let coverage = self
            .holders()
            .filter(|(_, _, placed)| placed.blocks() > 0 || placed.floor() > Floor::LOWEST)
            .map(|(worker, keyspace, placed)| {
                let key = HolderKey { worker: worker.clone(), keyspace: Arc::clone(keyspace), lane: LaneId::PLAIN };
                (key, (placed.floor(), placed.expand(&self.chains)))
            })
            .collect();
        let records = self.records().map(|(id, record)| (id.clone(), record.clone())).collect();
        Expanded {
            records,
            lives: self.lives().clone(),
            retired: self.retired().clone(),
            forgotten: self.forgotten(),
            coverage,
            feeds: self.feeds().map(|(worker, state)| (worker.clone(), state.clone())).collect(),
        }
    }

    /// Whether every incremental digest and count equals one computed anew (tests and the simulator).
    #[must_use]
    pub fn is_consistent(&self) -> bool {
        let (mut root, mut feeds) = (self.lives.digest(), true);
        for (id, worker) in &self.workers {
            root.add(worker.record.digest(id));
            if let Some(feed) = &worker.feed {
                root.add(feed.state.digest(id));
                feeds &= feed.state.is_consistent() && feed.digest == feed.state.digest(id);
            }
            for (key, holder) in &worker.holders {
                swap_holder(&mut root, id, key, Digest::default(), holder.placed.digest());
            }
        }
        feeds && root == self.root && self.holders().all(|(_, _, placed)| placed.is_consistent(&self.chains))
    }
}

/// Stamp and depth of blocks, by path.
pub type Blocks = BTreeMap<PathId, (Stamp, u32)>;

/// A replica's whole content, block by block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expanded {
    /// Every worker's record.
    pub records: BTreeMap<WorkerId, WorkerRecord>,
    /// Every life that is not retired.
    pub lives: BTreeMap<LifeId, LifeRecord>,
    /// Every retired life that is still remembered.
    pub retired: BTreeMap<LifeId, Retirement>,
    /// What was retired at or before this is forgotten.
    pub forgotten: Stamp,
    /// Floor, and stamp and depth of every covered block by path, of every holder that has either.
    pub coverage: BTreeMap<HolderKey, (Floor, Blocks)>,
    /// Every worker's feed.
    pub feeds: BTreeMap<WorkerId, FeedState>,
}

fn swap_holder(root: &mut Digest, worker: &WorkerId, key: &(Arc<Keyspace>, LaneId), before: Digest, after: Digest) {
    if before == after {
        return;
    }
    let name = holder_bytes(worker, &key.0, key.1);
    let element = |digest: Digest| {
        let mut bytes = name.clone();
        bytes.extend_from_slice(&digest.0.to_be_bytes());
        Digest::of(&bytes)
    };
    if before != Digest::default() {
        root.remove(element(before));
    }
    if after != Digest::default() {
        root.add(element(after));
    }
}
