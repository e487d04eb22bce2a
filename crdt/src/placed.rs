//! Placed coverage of one holder within one incarnation: `(floor, block → stamp)`, compressed.
//!
//! Stamps never increase with depth, so the blocks last raised by one touch form one path *segment*, and within one run
//! of the chain store a holder is a short staircase of *marks*. A re-touch, a cut and a digest update cost O(segments
//! they alter), not O(blocks). Rank is `(stamp, −depth)`; a block survives iff its rank is above the floor; when more
//! than `capacity` survive, the floor rises to the rank of the first that does not fit.
//!
//! Not here: incarnations (`worker`), where chains are stored (`chain`). Upholds I2, I3, I4 (floor), I5 (floor).

use std::collections::BTreeMap;

use crate::chain::Chains;
use crate::change::{Change, HolderSlot, Place, RunId};
use crate::digest::Digest;
use crate::lattice::Merged;
use crate::plant::{Plant, planted};
use crate::stamp::{Floor, Rank, Stamp};

/// The blocks that one touch was the last to raise: one path, from `start` down to `tip`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    tip: Place,
    tip_depth: u32,
    start: u32,
}

/// One step of a holder's staircase in a run: blocks up to `end` (from the mark before it) carry `stamp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    end: u32,
    stamp: Stamp,
}

/// What a change of coverage needs at hand: the chain store, who is changing, and where changes go.
pub(crate) struct Ground<'a> {
    pub(crate) chains: &'a mut Chains,
    pub(crate) slot: HolderSlot,
    pub(crate) changes: &'a mut Vec<Change>,
}

/// Placed coverage of one holder.
#[derive(Clone, Debug)]
pub struct Placed {
    floor: Floor,
    capacity: u32,
    blocks: u32,
    segments: BTreeMap<Stamp, Segment>,
    marks: BTreeMap<RunId, Vec<Mark>>,
    segment_digest: Digest,
}

impl Placed {
    /// Nothing, with room for `capacity` blocks.
    #[must_use]
    pub(crate) const fn new(capacity: u32) -> Self {
        Self {
            floor: Floor::LOWEST,
            capacity,
            blocks: 0,
            segments: BTreeMap::new(),
            marks: BTreeMap::new(),
            segment_digest: Digest(0),
        }
    }

    /// Raises every block from the root to `tip` to `stamp`, unless it is there already or below the floor.
    ///
    /// A stamp is one touch. A second path under the same stamp can only come from an identity used twice; the log that
    /// carries it is refused by its running hash, and here it changes nothing.
    pub(crate) fn touch(&mut self, ground: &mut Ground<'_>, tip: Place, stamp: Stamp) -> Merged {
        let tip = match stamp.cmp(&self.floor.stamp) {
            _ if planted(Plant::TouchIgnoresFloor) => tip,
            std::cmp::Ordering::Less => return Merged::Unchanged,
            std::cmp::Ordering::Equal => ground.chains.ancestor(tip, self.floor.depth.saturating_sub(1)),
            std::cmp::Ordering::Greater => tip,
        };
        if tip.run == RunId::ROOT || self.segments.contains_key(&stamp) {
            return Merged::Unchanged;
        }
        if planted(Plant::StampWithoutLife) && self.segments.keys().any(|other| other.hlc == stamp.hlc) {
            return Merged::Unchanged;
        }
        let mut starts: Vec<(Stamp, u32)> = Vec::new();
        let mut start = None;
        let path: Vec<Place> = ground.chains.ascend(tip).collect();
        for place in path {
            let before = ground.chains.depth(place) - place.blocks;
            let Some(newer) = self.raise(ground, place, before, stamp, &mut starts) else { break };
            start = Some(before + newer + 1);
            if newer > 0 {
                break;
            }
        }
        let Some(start) = start else { return Merged::Unchanged };
        for (swallowed, start) in starts {
            self.shorten(ground.chains, swallowed, start);
        }
        let segment = Segment { tip, tip_depth: ground.chains.depth(tip), start };
        self.segment_digest.add(element(ground.chains, stamp, &segment));
        self.segments.insert(stamp, segment);
        self.cut(ground);
        Merged::Grew
    }

    /// Raises the first `place.blocks` blocks of a run. `None` when all of them carry a newer stamp already, else how
    /// many of them do. `starts` collects where the segments that lost blocks begin now; the deepest place wins, and
    /// runs are visited from the tip up.
    fn raise(
        &mut self,
        ground: &mut Ground<'_>,
        place: Place,
        before: u32,
        stamp: Stamp,
        starts: &mut Vec<(Stamp, u32)>,
    ) -> Option<u32> {
        let marks = self.marks.get(&place.run).map_or(&[][..], Vec::as_slice);
        let first = marks.partition_point(|mark| mark.stamp >= stamp);
        let newer = first.checked_sub(1).map_or(0, |nth| marks[nth].end);
        if newer >= place.blocks {
            return None;
        }
        let covered = marks.last().map_or(0, |mark| mark.end);
        let mut last = first;
        for mark in &marks[first..] {
            if starts.iter().all(|(seen, _)| *seen != mark.stamp) {
                starts.push((mark.stamp, before + mark.end.min(place.blocks) + 1));
            }
            if mark.end > place.blocks {
                break;
            }
            last += 1;
        }
        if covered == 0 {
            ground.chains.retain(place.run);
        }
        if place.blocks > covered {
            self.blocks += place.blocks - covered;
            ground.changes.push(Change::Reach { slot: ground.slot, run: place.run, blocks: place.blocks });
        }
        let mark = Mark { end: place.blocks, stamp };
        self.marks.entry(place.run).or_default().splice(first..last, [mark]);
        Some(newer)
    }

    fn shorten(&mut self, chains: &Chains, stamp: Stamp, start: u32) {
        let segment = self.segments.get_mut(&stamp).expect("a mark belongs to a segment");
        if segment.start >= start {
            return;
        }
        self.segment_digest.remove(element(chains, stamp, segment));
        if start > segment.tip_depth {
            self.segments.remove(&stamp);
            return;
        }
        segment.start = start;
        self.segment_digest.add(element(chains, stamp, segment));
    }

    /// Everything at or below `floor` is gone.
    pub(crate) fn raise_floor(&mut self, ground: &mut Ground<'_>, floor: Floor) -> Merged {
        if floor <= self.floor {
            return Merged::Unchanged;
        }
        self.floor = floor;
        while let Some((&stamp, &segment)) = self.segments.first_key_value() {
            let keep = match stamp.cmp(&floor.stamp) {
                std::cmp::Ordering::Less => segment.start - 1,
                std::cmp::Ordering::Equal => floor.depth.saturating_sub(1),
                std::cmp::Ordering::Greater => break,
            };
            self.trim(ground, stamp, keep);
            if keep >= segment.start {
                break;
            }
        }
        Merged::Grew
    }

    /// Room for at most `capacity` blocks from now on; it can only shrink.
    pub(crate) fn shrink(&mut self, ground: &mut Ground<'_>, capacity: u32) -> Merged {
        if capacity >= self.capacity && !planted(Plant::CapacityGrows) {
            return Merged::Unchanged;
        }
        self.capacity = capacity;
        self.cut(ground);
        Merged::Grew
    }

    /// Raises the floor to the rank of the first block that does not fit, least recent first.
    fn cut(&mut self, ground: &mut Ground<'_>) {
        while self.blocks > self.capacity {
            let excess = self.blocks - self.capacity;
            let (&stamp, &segment) = self.segments.first_key_value().expect("covered blocks lie in segments");
            let (stamp, segment) =
                if planted(Plant::CutTiesByArrival) { self.first_come(stamp) } else { (stamp, segment) };
            let length = segment.tip_depth - segment.start + 1;
            let keep = segment.tip_depth - excess.min(length);
            self.floor = self.floor.max(Rank { stamp, depth: keep + 1 });
            self.trim(ground, stamp, keep);
        }
    }

    /// What [`Plant::CutTiesByArrival`] drops: of the segments of the least recent one's millisecond, the one whose run is
    /// the oldest here.
    fn first_come(&self, least: Stamp) -> (Stamp, Segment) {
        let tied = self.segments.range(least..).take_while(|(stamp, _)| stamp.hlc.ms() == least.hlc.ms());
        let first = tied.min_by_key(|(_, segment)| segment.tip.run).expect("the least recent one is tied with itself");
        (*first.0, *first.1)
    }

    /// Drops the blocks of the least recent segment that lie deeper than `keep`.
    fn trim(&mut self, ground: &mut Ground<'_>, stamp: Stamp, keep: u32) {
        let segment = *self.segments.get(&stamp).expect("only a present segment is trimmed");
        if keep >= segment.tip_depth {
            return;
        }
        self.segment_digest.remove(element(ground.chains, stamp, &segment));
        if keep < segment.start {
            self.segments.remove(&stamp);
        } else {
            let shorter =
                Segment { tip: ground.chains.ancestor(segment.tip, keep), tip_depth: keep, start: segment.start };
            self.segment_digest.add(element(ground.chains, stamp, &shorter));
            self.segments.insert(stamp, shorter);
        }
        let keep = keep.max(segment.start - 1);
        let mut place = segment.tip;
        while place.run != RunId::ROOT {
            let before = ground.chains.depth(place) - place.blocks;
            if keep >= before + place.blocks {
                break;
            }
            let parent = ground.chains.parent(place.run);
            self.lower(ground, place.run, stamp, keep.saturating_sub(before));
            place = parent;
        }
    }

    /// Lowers the staircase of a run, whose last step carries `stamp`, to `end` blocks.
    fn lower(&mut self, ground: &mut Ground<'_>, run: RunId, stamp: Stamp, end: u32) {
        let marks = self.marks.get_mut(&run).expect("a segment has a mark in every run it passes");
        let last = marks.pop().expect("no staircase is empty");
        assert_eq!(last.stamp, stamp, "only the least recent blocks of a run are dropped");
        let above = marks.last().map_or(0, |mark| mark.end);
        let end = end.max(above);
        if end > above {
            marks.push(Mark { end, stamp });
        }
        self.blocks -= last.end - end;
        ground.changes.push(Change::Reach { slot: ground.slot, run, blocks: end });
        if end == 0 {
            self.marks.remove(&run);
            ground.chains.release(run, ground.changes);
        }
    }

    /// Drops everything, as when the holder's incarnation ends.
    pub(crate) fn clear(&mut self, ground: &mut Ground<'_>) {
        for run in std::mem::take(&mut self.marks).into_keys() {
            ground.changes.push(Change::Reach { slot: ground.slot, run, blocks: 0 });
            ground.chains.release(run, ground.changes);
        }
        let floor = self.floor;
        *self = Self::new(self.capacity);
        if planted(Plant::FloorOutlivesIncarnation) {
            self.floor = floor;
        }
    }

    /// What is gone: everything at or below.
    #[must_use]
    pub const fn floor(&self) -> Floor {
        self.floor
    }

    /// Room in blocks.
    #[must_use]
    pub const fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Blocks covered.
    #[must_use]
    pub const fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Segments, least recent first, from the first above `after`: the touch, and the place it still reaches down to.
    pub fn segments(&self, after: Option<Stamp>) -> impl Iterator<Item = (Stamp, Place)> + '_ {
        let from = after.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        self.segments.range((from, std::ops::Bound::Unbounded)).map(|(stamp, segment)| (*stamp, segment.tip))
    }

    /// Segments from the one of stamp `from` on: the touch, where it still reaches down to, and the depth it begins at.
    pub(crate) fn spans(&self, from: Option<Stamp>) -> impl Iterator<Item = (Stamp, Place, u32)> + '_ {
        let segments = self.segments.range(from.unwrap_or(Stamp::ZERO)..);
        segments.map(|(stamp, segment)| (*stamp, segment.tip, segment.start))
    }

    /// The latest touch that still covers something.
    #[must_use]
    pub fn newest(&self) -> Option<Stamp> {
        self.segments.last_key_value().map(|(stamp, _)| *stamp)
    }

    /// How many segments there are.
    pub(crate) fn segment_count(&self) -> usize {
        self.segments.len()
    }

    /// The digest of the canonical content: floor and segments.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let mut digest = self.segment_digest;
        if self.floor > Floor::LOWEST && !planted(Plant::DigestSkipsFloor) {
            let mut bytes = [0; 28];
            bytes[..24].copy_from_slice(&self.floor.stamp.to_bytes());
            bytes[24..].copy_from_slice(&self.floor.depth.to_be_bytes());
            digest.add(Digest::of(&bytes));
        }
        digest
    }

    /// The digest and block count computed anew from the segments: what the incremental ones must equal.
    #[must_use]
    pub fn recomputed(&self, chains: &Chains) -> (Digest, u32) {
        let mut digest = Digest::default();
        let mut blocks = 0;
        for (stamp, segment) in &self.segments {
            digest.add(element(chains, *stamp, segment));
            blocks += segment.tip_depth - segment.start + 1;
        }
        (digest, blocks)
    }

    /// Whether the incremental digest and count are what they must be (a check for tests and the simulator).
    #[must_use]
    pub fn is_consistent(&self, chains: &Chains) -> bool {
        self.recomputed(chains) == (self.segment_digest, self.blocks) && self.blocks <= self.capacity
    }

    /// Every covered block's stamp, by path: for tests and the simulator, O(blocks).
    #[must_use]
    pub fn expand(&self, chains: &Chains) -> BTreeMap<crate::hash::PathId, (Stamp, u32)> {
        let mut all = BTreeMap::new();
        for (stamp, segment) in &self.segments {
            let base = chains.ancestor(segment.tip, segment.start - 1);
            let mut path = chains.tip(base).path;
            for (depth, block) in (segment.start..).zip(chains.since(base, segment.tip)) {
                path = path.child(block);
                all.insert(path, (*stamp, depth));
            }
        }
        all
    }
}

fn element(chains: &Chains, stamp: Stamp, segment: &Segment) -> Digest {
    let mut bytes = [0; 48];
    bytes[..24].copy_from_slice(&stamp.to_bytes());
    bytes[24..28].copy_from_slice(&segment.start.to_be_bytes());
    bytes[28..32].copy_from_slice(&segment.tip_depth.to_be_bytes());
    bytes[32..].copy_from_slice(&chains.tip(segment.tip).path.0.to_be_bytes());
    Digest::of(&bytes)
}
