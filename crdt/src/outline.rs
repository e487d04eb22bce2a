//! Short descriptions of state, so that repair sends only what differs: root → workers → holders → buckets → segments.
//!
//! A receiver describes the *workers* it has from a cursor on ([`Window`]); the donor skips those it has alike. Of a
//! worker that differs, each holder comes back as an [`Outline`]: a fingerprint of the whole and of its segments cut by
//! stamp into *buckets*. The receiver asks for a holder that differs ([`HolderAsk`]), saying for every bucket either "I
//! have the same" or which segments it has, and the donor sends the rest (`slice::compare`).
//!
//! A fingerprint is a sum over `(stamp, tip)`: where a segment *starts* is left out, since blocks nearer the root carry
//! newer stamps anyway. So equal fingerprints mean that every block of the one is at the other with a stamp at least as
//! new, which is all a repair needs. They are 64 bits of a hash seeded with the session's number and the worker's
//! incarnation: a collision in one session is none in the next, and coverage of two incarnations never looks alike.
//!
//! Not here: bytes (`codec`), when to ask (`covey-mesh`). Fingerprints are never stored and never compared across sessions.

mod fingerprint;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::chain::Chains;
use crate::id::WorkerId;
use crate::keyspace::Keyspace;
use crate::lane::LaneId;
use crate::placed::Placed;
use crate::replica::Replica;
use crate::stamp::Stamp;
use crate::worker::{Worker, WorkerRecord};

pub(crate) use self::fingerprint::{element, floor_hash, holder_name, incarnation_hash, member, seed, worker_name};
use self::fingerprint::{whole, worker_fingerprint};

/// How finely holders are cut into buckets. Decided by the donor; the receiver follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grain {
    /// Segments in one bucket, at least.
    pub bucket_segments: usize,
    /// Buckets of one holder, at most.
    pub buckets: usize,
}

/// What a receiver has of the workers after a cursor, as far as it describes them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Hash of each worker's name, and fingerprint of everything of that worker.
    pub workers: Vec<(u32, u64)>,
    /// The last worker described when there are more; `None`: there are no more.
    pub until: Option<WorkerId>,
}

/// A window as the donor looks things up in it.
pub(crate) struct View<'a> {
    pub(crate) until: Option<&'a WorkerId>,
    names: BTreeSet<u32>,
    rows: BTreeSet<(u32, u64)>,
}

impl<'a> View<'a> {
    pub(crate) fn new(window: &'a Window) -> Self {
        Self {
            until: window.until.as_ref(),
            names: window.workers.iter().map(|(name, _)| *name).collect(),
            rows: window.workers.iter().copied().collect(),
        }
    }

    /// Whether the receiver has something of the worker.
    pub(crate) fn knows(&self, worker: &WorkerId) -> bool {
        self.names.contains(&worker_name(worker))
    }

    /// Whether it has exactly the same of it.
    pub(crate) fn has(&self, id: &WorkerId, worker: &Worker, salt: u64) -> bool {
        self.knows(id) && self.rows.contains(&(worker_name(id), worker_fingerprint(id, worker, salt)))
    }
}

/// One holder of a donor in short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    /// Hash of the worker's name.
    pub worker: u32,
    /// Hash of the holder's name.
    pub holder: u64,
    /// Fingerprint of floor and segments.
    pub whole: u64,
    /// How many segments there are.
    pub segments: u32,
    /// Segments by stamp, least recent first: the last stamp of each bucket, and the fingerprint of what is in it.
    pub buckets: Vec<(Stamp, u64)>,
}

/// What a receiver has in one bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Has {
    /// Segments with this fingerprint.
    Same(u64),
    /// These, by 40 bits of each one's fingerprint. None: everything is wanted.
    Members(Vec<u64>),
}

/// A receiver's question about one holder: what it has of it, so that the donor sends the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HolderAsk {
    /// Hash of the worker's name.
    pub worker: u32,
    /// Hash of the holder's name.
    pub holder: u64,
    /// Hash of the worker's incarnation here, 0 when it is not known.
    pub incarnation: u32,
    /// Hash of the floor here.
    pub floor: u64,
    /// Only what comes after this stamp is asked for.
    pub after: Option<Stamp>,
    /// Up to which stamp (`None`: to the end), and what is here. In order; the last one ends the question.
    pub buckets: Vec<(Option<Stamp>, Has)>,
}

/// A holder that differs, at the receiver: what is still to be asked of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compare {
    /// The donor's holder in short.
    pub outline: Outline,
    /// Up to where it is settled.
    pub after: Option<Stamp>,
}

/// How far a donor got with what it was asked, and what it found that may differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Questions about holders answered whole.
    pub done: u32,
    /// Up to where the next one was answered.
    pub after: Option<Stamp>,
    /// Holders for the receiver to compare.
    pub outlines: Vec<Outline>,
}

/// How much may be asked at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes of questions, roughly.
    pub ask_bytes: usize,
    /// Bytes that the donor would send if it had nothing in common with what differs. What it cannot send in one answer
    /// would have to be asked again.
    pub answer_bytes: usize,
}

impl Room {
    const fn spend(&mut self, ask_bytes: usize, answer_bytes: usize) {
        self.ask_bytes = self.ask_bytes.saturating_sub(ask_bytes);
        self.answer_bytes = self.answer_bytes.saturating_sub(answer_bytes);
    }

    const fn is_spent(&self) -> bool {
        self.ask_bytes == 0 || self.answer_bytes == 0
    }
}

/// Bytes that the parts of a question take, roughly.
const ASK_BYTES: usize = 60;
const BUCKET_BYTES: usize = 19;
const MEMBER_BYTES: usize = 5;
/// Bytes of one holder and one segment in an answer.
const HOLDER_BYTES: usize = 96;
const SEGMENT_BYTES: usize = 30;

/// Buckets in a row that are the same are named as one, but not too many: if the donor changed any of them in between, it
/// sends them all.
const SAME_MAX: usize = 4;

/// The oldest buckets are two to the power of this times the size of the latest, at most.
const COARSER_MAX: usize = 3;

/// Everything of one holder, found by its hash.
pub(crate) struct Named<'a> {
    pub(crate) worker: &'a WorkerId,
    pub(crate) record: &'a WorkerRecord,
    pub(crate) key: &'a (Arc<Keyspace>, LaneId),
    pub(crate) placed: &'a Placed,
}

impl Replica {
    /// What this replica has of the workers after `after`: at most `rows_max` of them.
    #[must_use]
    pub fn window(&self, after: Option<&WorkerId>, rows_max: usize, salt: u64) -> Window {
        let mut window = Window::default();
        let mut last: Option<&WorkerId> = None;
        for (id, worker) in self.entries_after(after) {
            if window.workers.len() >= rows_max.max(1) {
                window.until = last.cloned();
                break;
            }
            window.workers.push((worker_name(id), worker_fingerprint(id, worker, salt)));
            last = Some(id);
        }
        window
    }

    /// Those of a donor's holders that are not the same here.
    #[must_use]
    pub fn differing(&self, outlines: Vec<Outline>, salt: u64) -> Vec<Outline> {
        let named = self.named();
        let same = |outline: &Outline| {
            let own = named.get(&outline.holder);
            own.is_some_and(|own| outline.whole == whole(seed(&own.record.incarnation, salt), own.placed))
        };
        outlines.into_iter().filter(|outline| !same(outline)).collect()
    }

    /// Questions about the first of these holders, as many as there is room for (at least one, of one bucket or member).
    /// The last one may stop short of the holder's end.
    #[must_use]
    pub fn holder_asks<'a>(
        &self,
        compares: impl IntoIterator<Item = &'a Compare>,
        mut room: Room,
        salt: u64,
    ) -> Vec<HolderAsk> {
        let named = self.named();
        let mut asks = Vec::new();
        for compare in compares {
            asks.push(holder_ask(self.chains(), named.get(&compare.outline.holder), compare, &mut room, salt));
            if room.is_spent() {
                break;
            }
        }
        asks
    }

    /// Every holder by its hash.
    pub(crate) fn named(&self) -> BTreeMap<u64, Named<'_>> {
        let mut named = BTreeMap::new();
        for (id, worker) in self.entries_after(None) {
            for (key, holder) in &worker.holders {
                let entry = Named { worker: id, record: &worker.record, key, placed: &holder.placed };
                named.insert(holder.name, entry);
            }
        }
        named
    }
}

fn holder_ask(chains: &Chains, own: Option<&Named<'_>>, compare: &Compare, room: &mut Room, salt: u64) -> HolderAsk {
    let outline = &compare.outline;
    let usual = SEGMENT_BYTES * (outline.segments as usize).div_ceil(outline.buckets.len().max(1));
    room.spend(ASK_BYTES, HOLDER_BYTES);
    let mut ask = HolderAsk {
        worker: outline.worker,
        holder: outline.holder,
        incarnation: own.map_or(0, |own| incarnation_hash(&own.record.incarnation)),
        floor: own.map_or(0, |own| floor_hash(own.placed.floor())),
        after: compare.after,
        buckets: Vec::new(),
    };
    let Some(own) = own else {
        room.spend(BUCKET_BYTES, usual * outline.buckets.len());
        ask.buckets.push((None, Has::Members(Vec::new())));
        return ask;
    };
    let seed = seed(&own.record.incarnation, salt);
    let mut segments = own.placed.segments(compare.after).peekable();
    let ends = outline.buckets.iter().filter(|(end, _)| compare.after.is_none_or(|after| *end > after));
    let ends = ends.map(|(end, theirs)| (Some(*end), *theirs)).chain(std::iter::once((None, 0)));
    let mut same = 0;
    for (end, theirs) in ends {
        if room.is_spent() && !ask.buckets.is_empty() {
            break;
        }
        let mut mine: Vec<(Stamp, u64)> = Vec::new();
        while let Some((stamp, place)) = segments.next_if(|(stamp, _)| end.is_none_or(|end| *stamp <= end)) {
            mine.push((stamp, element(chains, seed, stamp, place)));
        }
        if end.is_some() && sum(&mine) == theirs {
            same = push_same(&mut ask.buckets, same, end, theirs);
            room.spend(if same > 1 { 0 } else { BUCKET_BYTES }, 0);
            continue;
        }
        same = 0;
        room.spend(BUCKET_BYTES, if end.is_some() { usual } else { 0 });
        if end.is_some() && MEMBER_BYTES * mine.len() > usual {
            // Naming what is here would take more than being sent it again.
            ask.buckets.push((end, Has::Members(Vec::new())));
            continue;
        }
        let fit = mine.len().min((room.ask_bytes / MEMBER_BYTES).max(1));
        room.spend(MEMBER_BYTES * fit, 0);
        let members = mine[..fit].iter().map(|(_, element)| member(*element)).collect();
        if fit < mine.len() {
            ask.buckets.push((Some(mine[fit - 1].0), Has::Members(members)));
            room.ask_bytes = 0;
            break;
        }
        ask.buckets.push((end, Has::Members(members)));
    }
    ask
}

/// Adds a bucket that is the same on both sides, to the one before if that is as well. How many are together then.
fn push_same(buckets: &mut Vec<(Option<Stamp>, Has)>, same: usize, end: Option<Stamp>, theirs: u64) -> usize {
    if (1..SAME_MAX).contains(&same)
        && let Some((before, Has::Same(sum))) = buckets.last_mut()
    {
        (*before, *sum) = (end, sum.wrapping_add(theirs));
        return same + 1;
    }
    buckets.push((end, Has::Same(theirs)));
    1
}

fn sum(segments: &[(Stamp, u64)]) -> u64 {
    segments.iter().fold(0, |sum, (_, element)| sum.wrapping_add(*element))
}

/// How many segments are in each bucket, least recent first. What two replicas lack of one another is mostly of late, so
/// the latest buckets are the finest: from there on each four are twice the size of the four after them.
fn bucket_sizes(segments: usize, grain: Grain) -> Vec<usize> {
    let most = grain.buckets.max(1);
    let mut finest = grain.bucket_segments.max(1);
    loop {
        let mut sizes = Vec::new();
        let mut left = segments;
        while left > 0 && sizes.len() < most {
            let size = (finest << (sizes.len() / 4).min(COARSER_MAX)).min(left);
            sizes.push(size);
            left -= size;
        }
        if left == 0 {
            sizes.reverse();
            return sizes;
        }
        finest *= 2;
    }
}

/// A donor's holder in short, in at most `buckets` buckets.
pub(crate) fn outline(chains: &Chains, worker: &WorkerId, holder: (u64, &Placed), seed: u64, grain: Grain) -> Outline {
    let (name, placed) = holder;
    let segments = placed.segment_count();
    let mut sizes = bucket_sizes(segments, grain).into_iter();
    let (mut left, mut buckets) = (0, Vec::<(Stamp, u64)>::new());
    for (stamp, place) in placed.segments(None) {
        let element = element(chains, seed, stamp, place);
        match buckets.last_mut() {
            Some((end, sum)) if left > 0 => (*end, *sum) = (stamp, sum.wrapping_add(element)),
            _ => {
                buckets.push((stamp, element));
                left = sizes.next().unwrap_or(usize::MAX);
            }
        }
        left -= 1;
    }
    Outline {
        worker: worker_name(worker),
        holder: name,
        whole: whole(seed, placed),
        segments: u32::try_from(segments).unwrap_or(u32::MAX),
        buckets,
    }
}
