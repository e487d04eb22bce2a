//! Bounded slices of a replica's whole state, for repair: any replica that merged every slice of another's walk holds at
//! least what the other held when the walk began.
//!
//! A walk is stateless at the donor: the receiver hands back the cursor of the slice before. A segment travels as "this
//! touch still reaches down to here"; merging it raises the whole path, which is exact once the segments above it are
//! in, and prefix-closed before. The floor travels with every slice of a holder and is merged first.
//!
//! A walk leaves out what the receiver says it has ([`Request`]). That is exact as well: whatever is found the same when
//! it is compared is at the receiver at least as it was at the donor at that moment, which is at least as it was when the
//! walk began, and both only grow. What is compared over several answers is settled in the order in which blocks move
//! (`compare`), so nothing slips from a part still to come into one that is done.
//!
//! Not here: sessions, vectors, dirtiness (`covey-mesh`); bytes (`codec`); what is compared (`outline`). Upholds I2, I3,
//! I5 under any interleaving.

mod compare;
mod merge;

use std::sync::Arc;

use crate::chain::{ChainPiece, Tip};
use crate::change::{Place, RunId};
use crate::id::{Incarnation, LifeId, WorkerId};
use crate::keyspace::Keyspace;
use crate::lane::LaneId;
use crate::lives::LifeRecord;
use crate::outline::{Grain, HolderAsk, Outcome, Outline, View, Window, outline, seed};
use crate::plant::{Plant, planted};
use crate::replica::Replica;
use crate::stamp::{Floor, Stamp};
use crate::worker::{Worker, WorkerRecord};

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

impl Cursor {
    /// The last worker that was begun, if any was.
    #[must_use]
    pub const fn worker(&self) -> Option<&WorkerId> {
        match self {
            Self::Start | Self::Life(_) => None,
            Self::Worker(worker) => worker.as_ref(),
            Self::Holder { worker, .. } => Some(worker),
        }
    }
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

/// What a receiver asks for in one step of a session.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The session's number, which fingerprints are seeded with.
    pub salt: u64,
    /// Holders found to differ, answered first.
    pub holders: &'a [HolderAsk],
    /// Where the walk goes on, if it does.
    pub cursor: Option<&'a Cursor>,
    /// What the receiver has of the workers after the cursor; `None`: everything is wanted.
    pub window: Option<&'a Window>,
    /// How finely holders are cut into buckets.
    pub grain: Grain,
}

/// What a donor answers.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// State that the receiver lacks. Its `next` is where the walk goes on.
    pub piece: Piece,
    /// How far the questions were answered, and what is to be compared.
    pub outcome: Outcome,
}

/// Bytes a row takes, roughly; slices are cut by the sum.
const LIFE_BYTES: usize = 24;
const WORKER_BYTES: usize = 64;
const HOLDER_BYTES: usize = 96;
const SEGMENT_BYTES: usize = 32;
const OUTLINE_BYTES: usize = 28;
const BUCKET_BYTES: usize = 18;

/// Names may be long: what they take counts, or a slice of long ones would not fit its frame.
fn worker_bytes(id: &WorkerId, record: &WorkerRecord) -> usize {
    let labels = record.meta.iter().flat_map(|meta| &meta.labels).map(|label| 4 + label.len()).sum::<usize>();
    WORKER_BYTES + id.name().len() + record.incarnation.token.as_str().len() + labels
}

/// A slice being filled.
struct Filling<'a> {
    replica: &'a Replica,
    has: &'a dyn Fn(RunId) -> bool,
    sent: std::collections::BTreeSet<RunId>,
    left: usize,
    piece: Piece,
    view: Option<View<'a>>,
    grain: Grain,
    salt: u64,
    outlines: Vec<Outline>,
}

impl Filling<'_> {
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
        let replica = self.replica;
        for (id, worker) in replica.entries_after(after) {
            let mut outlined = false;
            if let Some(view) = &self.view {
                if let Some(until) = view.until.filter(|until| id > *until) {
                    self.piece.slice.next = Some(Cursor::Worker(Some(until.clone())));
                    return;
                }
                if view.has(id, worker, self.salt) {
                    continue;
                }
                outlined = view.knows(id);
            }
            self.record(id, &worker.record);
            if outlined {
                self.outline(id, worker);
            }
            let full = !outlined && self.holders(id, &worker.record, None);
            if full || self.pause(Cursor::Worker(Some(id.clone()))) {
                return;
            }
        }
    }

    fn record(&mut self, id: &WorkerId, record: &WorkerRecord) {
        let bare = planted(Plant::MetaDroppedInRepair);
        let sent = if bare { WorkerRecord::new(record.incarnation.clone()) } else { record.clone() };
        self.piece.slice.workers.push((id.clone(), sent));
        self.spend(worker_bytes(id, record));
    }

    /// Describes the holders of a worker that the receiver has something of. Beyond the budget they are described in one
    /// bucket each, so that the worker is done all the same.
    fn outline(&mut self, id: &WorkerId, worker: &Worker) {
        let seed = seed(&worker.record.incarnation, self.salt);
        for (key, holder) in &worker.holders {
            if holder.placed.blocks() == 0 {
                if holder.placed.floor() > Floor::LOWEST {
                    self.holder_slice(id, &worker.record, key, &holder.placed);
                }
                continue;
            }
            let grain = if self.left == 0 { Grain { buckets: 1, ..self.grain } } else { self.grain };
            let outline = outline(self.replica.chains(), id, (holder.name, &holder.placed), seed, grain);
            self.spend(OUTLINE_BYTES + BUCKET_BYTES * outline.buckets.len());
            self.outlines.push(outline);
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
        let nth = self.holder_slice(worker, record, key, placed);
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

    /// Walks from the cursor until the budget is spent.
    fn go_on(&mut self, cursor: &Cursor) {
        match cursor {
            Cursor::Start | Cursor::Life(_) => {
                let after = if let Cursor::Life(life) = cursor { Some(*life) } else { None };
                if !self.lives(after) && !self.pause(Cursor::Worker(None)) {
                    self.workers(None);
                }
            }
            Cursor::Worker(after) => self.workers(after.as_ref()),
            Cursor::Holder { worker, keyspace, lane, after } => {
                let key = (Arc::clone(keyspace), *lane);
                let paused = match self.replica.record(worker) {
                    Some(record) => self.holders(worker, record, Some((&key, *after))),
                    None => false,
                };
                if !paused && !self.pause(Cursor::Worker(Some(worker.clone()))) {
                    self.workers(Some(worker));
                }
            }
        }
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
    /// The next slice of a walk over everything, about `budget_bytes` long (one row more at most, and the content that
    /// row needs). `has` says which runs the receiver holds whole.
    #[must_use]
    pub fn piece(&self, cursor: &Cursor, budget_bytes: usize, has: &dyn Fn(RunId) -> bool) -> Piece {
        let grain = Grain { bucket_segments: 1, buckets: 1 };
        let request = Request { salt: 0, holders: &[], cursor: Some(cursor), window: None, grain };
        self.answer(&request, budget_bytes, has).piece
    }

    /// What a receiver asks for, about `budget_bytes` of it; the bound is as for [`Self::piece`], and one worker's
    /// outlines more.
    #[must_use]
    pub fn answer(&self, request: &Request<'_>, budget_bytes: usize, has: &dyn Fn(RunId) -> bool) -> Answer {
        let mut filling = Filling {
            replica: self,
            has,
            sent: std::collections::BTreeSet::new(),
            left: budget_bytes.max(1),
            piece: Piece::default(),
            view: request.window.map(View::new),
            grain: request.grain,
            salt: request.salt,
            outlines: Vec::new(),
        };
        let mut outcome = filling.compare(request.holders, request.salt);
        if let Some(cursor) = request.cursor
            && !filling.pause(cursor.clone())
        {
            filling.go_on(cursor);
        }
        outcome.outlines = filling.outlines;
        Answer { piece: filling.piece, outcome }
    }
}
