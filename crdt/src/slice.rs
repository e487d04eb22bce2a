//! Bounded slices of a replica's whole state, for repair: any replica that merged every slice of another's walk holds at
//! least what the other held when the walk began.
//!
//! A walk is stateless at the donor: the receiver hands back the cursor of the slice before. A segment travels as "this
//! touch still reaches down to here"; merging it raises the whole path, which is exact once the segments above it are
//! in, and prefix-closed before. The floor travels with every slice of a holder and is merged first.
//!
//! Not here: sessions, vectors, dirtiness (`covey-mesh`); bytes (`codec`). Upholds I2, I3, I5 under any interleaving.

use std::sync::Arc;

use crate::chain::{ChainPiece, Tip};
use crate::change::{Place, RunId};
use crate::id::{Incarnation, LifeId, WorkerId};
use crate::keyspace::Keyspace;
use crate::lane::LaneId;
use crate::lattice::Merged;
use crate::lives::LifeRecord;
use crate::plant::{Plant, planted};
use crate::replica::{ApplyError, Replica};
use crate::stamp::{Floor, Stamp};
use crate::worker::WorkerRecord;

/// Where a walk goes on. Means the same on every donor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Cursor {
    /// With everything.
    #[default]
    Start,
    /// With the lives after this one.
    Life(LifeId),
    /// With the workers after this one (`None`: with the first).
    Worker(Option<WorkerId>),
    /// Within a worker: with this holder's segments after a stamp, then its further holders.
    Holder {
        /// Whose.
        worker: WorkerId,
        /// Which holder.
        keyspace: Arc<Keyspace>,
        /// Which of its caches.
        lane: LaneId,
        /// The last segment already sent.
        after: Stamp,
    },
}

/// Some of one holder's coverage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HolderSlice {
    /// Whose.
    pub worker: WorkerId,
    /// In which keyspace.
    pub keyspace: Arc<Keyspace>,
    /// The life of the worker's cache.
    pub incarnation: Incarnation,
    /// What is gone.
    pub floor: Floor,
    /// Touches, and the chain each still reaches down.
    pub segments: Vec<(Stamp, Tip)>,
}

/// One slice of a walk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    /// Lives.
    pub lives: Vec<(LifeId, LifeRecord)>,
    /// Worker records.
    pub workers: Vec<(WorkerId, WorkerRecord)>,
    /// Coverage.
    pub holders: Vec<HolderSlice>,
    /// Where the walk goes on; `None` when it is complete.
    pub next: Option<Cursor>,
}

impl Slice {
    /// The latest stamp or floor in it: a receiver whose clock is far behind must not merge it (rule c).
    #[must_use]
    pub fn newest(&self) -> Option<Stamp> {
        let metas = self.workers.iter().filter_map(|(_, record)| record.meta.as_ref().map(|meta| meta.stamp));
        let touches = self.holders.iter().flat_map(|holder| {
            holder.segments.iter().map(|(stamp, _)| *stamp).chain(std::iter::once(holder.floor.stamp))
        });
        metas.chain(touches).max()
    }
}

/// A slice with the chain content its receiver lacks.
#[derive(Clone, Debug, Default)]
pub struct Piece {
    /// The slice.
    pub slice: Slice,
    /// Chain content, to be learned before the slice is merged.
    pub chains: Vec<ChainPiece>,
    /// Where each of them ends.
    pub ends: Vec<Place>,
}

/// Bytes a row takes, roughly; slices are cut by the sum.
const LIFE_BYTES: usize = 24;
const WORKER_BYTES: usize = 64;
const HOLDER_BYTES: usize = 96;
const SEGMENT_BYTES: usize = 32;

/// Names may be long: what they take counts, or a slice of long ones would not fit its frame.
fn worker_bytes(id: &WorkerId, record: &WorkerRecord) -> usize {
    let labels = record.meta.iter().flat_map(|meta| &meta.labels).map(|label| 4 + label.len()).sum::<usize>();
    WORKER_BYTES + id.name().len() + record.incarnation.token.as_str().len() + labels
}

struct Walk<'a> {
    replica: &'a Replica,
    has: &'a dyn Fn(RunId) -> bool,
    sent: std::collections::BTreeSet<RunId>,
    left: usize,
    piece: Piece,
}

impl Walk<'_> {
    fn spend(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes);
    }

    /// Ends the slice here when its budget is spent.
    fn pause(&mut self, cursor: Cursor) -> bool {
        if self.left > 0 {
            return false;
        }
        self.piece.slice.next = Some(cursor);
        true
    }

    fn lives(&mut self, after: Option<LifeId>) -> bool {
        let from = after.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        for (life, record) in self.replica.lives().range((from, std::ops::Bound::Unbounded)) {
            self.piece.slice.lives.push((*life, record.clone()));
            self.spend(LIFE_BYTES + record.name.as_str().len());
            if self.pause(Cursor::Life(*life)) {
                return true;
            }
        }
        false
    }

    fn workers(&mut self, after: Option<&WorkerId>) {
        for (id, record) in self.replica.workers_after(after) {
            let bare = planted(Plant::MetaDroppedInRepair);
            let sent = if bare { WorkerRecord::new(record.incarnation.clone()) } else { record.clone() };
            self.piece.slice.workers.push((id.clone(), sent));
            self.spend(worker_bytes(id, record));
            if self.holders(id, record, None) || self.pause(Cursor::Worker(Some(id.clone()))) {
                return;
            }
        }
    }

    /// The worker's holders from the cursor on; `true` when the budget ran out among them.
    fn holders(
        &mut self,
        worker: &WorkerId,
        record: &WorkerRecord,
        from: Option<(&(Arc<Keyspace>, LaneId), Stamp)>,
    ) -> bool {
        if let Some((key, after)) = from {
            let same = self.replica.holders_of(worker, None).find(|(other, _)| *other == key);
            if let Some((key, placed)) = same
                && self.holder(worker, record, key, placed, Some(after))
            {
                return true;
            }
        }
        if from.is_some() && planted(Plant::WalkSkipsHolders) {
            return false;
        }
        let replica = self.replica;
        for (key, placed) in replica.holders_of(worker, from.map(|(key, _)| key)) {
            if self.holder(worker, record, key, placed, None) {
                return true;
            }
        }
        false
    }

    fn holder(
        &mut self,
        worker: &WorkerId,
        record: &WorkerRecord,
        key: &(Arc<Keyspace>, LaneId),
        placed: &crate::placed::Placed,
        after: Option<Stamp>,
    ) -> bool {
        self.spend(HOLDER_BYTES + key.0.model.as_str().len());
        let nth = self.piece.slice.holders.len();
        self.piece.slice.holders.push(HolderSlice {
            worker: worker.clone(),
            keyspace: Arc::clone(&key.0),
            incarnation: record.incarnation.clone(),
            floor: if planted(Plant::FloorDroppedInRepair) { Floor::LOWEST } else { placed.floor() },
            segments: Vec::new(),
        });
        for (stamp, place) in placed.segments(after) {
            self.content(place);
            self.piece.slice.holders[nth].segments.push((stamp, self.replica.chains().tip(place)));
            self.spend(SEGMENT_BYTES);
            let (worker, keyspace) = (worker.clone(), Arc::clone(&key.0));
            if self.pause(Cursor::Holder { worker, keyspace, lane: key.1, after: stamp }) {
                return true;
            }
        }
        false
    }

    fn content(&mut self, place: Place) {
        let chains = self.replica.chains();
        let (has, sent) = (self.has, &self.sent);
        for (end, piece) in chains.pieces(place, &|run| has(run) || sent.contains(&run)) {
            if chains.is_end(end) {
                self.sent.insert(end.run);
            }
            self.left = self.left.saturating_sub(24 + 8 * piece.hashes.len());
            self.piece.chains.push(piece);
            self.piece.ends.push(end);
        }
    }
}

impl Replica {
    /// The next slice of a walk, about `budget_bytes` long (one row more at most, and the content that row needs).
    /// `has` says which runs the receiver holds whole.
    #[must_use]
    pub fn piece(&self, cursor: &Cursor, budget_bytes: usize, has: &dyn Fn(RunId) -> bool) -> Piece {
        let mut walk = Walk {
            replica: self,
            has,
            sent: std::collections::BTreeSet::new(),
            left: budget_bytes.max(1),
            piece: Piece::default(),
        };
        match cursor {
            Cursor::Start | Cursor::Life(_) => {
                let after = if let Cursor::Life(life) = cursor { Some(*life) } else { None };
                if !walk.lives(after) && !walk.pause(Cursor::Worker(None)) {
                    walk.workers(None);
                }
            }
            Cursor::Worker(after) => walk.workers(after.as_ref()),
            Cursor::Holder { worker, keyspace, lane, after } => {
                let key = (Arc::clone(keyspace), *lane);
                let paused = match self.record(worker) {
                    Some(record) => walk.holders(worker, record, Some((&key, *after))),
                    None => false,
                };
                if !paused && !walk.pause(Cursor::Worker(Some(worker.clone()))) {
                    walk.workers(Some(worker));
                }
            }
        }
        walk.piece
    }

    /// Joins a slice.
    ///
    /// # Errors
    /// [`ApplyError::Unresolved`] when a chain it names is not stored; nothing is merged then.
    pub fn merge_slice(&mut self, slice: &Slice) -> Result<Merged, ApplyError> {
        let mut places = Vec::new();
        for (_, tip) in slice.holders.iter().flat_map(|holder| &holder.segments) {
            places.push(self.chains().resolve(*tip).ok_or(ApplyError::Unresolved(*tip))?);
        }
        let mut merged = Merged::Unchanged;
        // Chains are kept while the slice is merged: its own cuts may drop the last holder of one that comes later.
        for place in &places {
            self.keep(*place);
        }
        for (life, record) in &slice.lives {
            merged = merged.or(self.merge_life(*life, record));
        }
        for (worker, record) in &slice.workers {
            merged = merged.or(self.merge_record(worker, record));
        }
        let mut nth = 0;
        for holder in &slice.holders {
            let (worker, keyspace, incarnation) = (&holder.worker, &holder.keyspace, &holder.incarnation);
            if holder.floor > Floor::LOWEST {
                merged = merged.or(self.floor(worker, keyspace, incarnation, holder.floor));
            }
            for (stamp, _) in &holder.segments {
                merged = merged.or(self.place(worker, keyspace, incarnation, places[nth], *stamp));
                nth += 1;
            }
        }
        for place in places {
            self.release(place);
        }
        Ok(merged)
    }
}
