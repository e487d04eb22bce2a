//! A worker: its record (what is true of it whole) and its holders.
//!
//! The record lives inside an incarnation: a higher one empties placed and stored coverage, floors, capacity and meta
//! (P1), so lanes and floors can never mix two lives of a cache.
//!
//! Not here: what a holder covers (`placed`), which replica it lives in (`replica`). Upholds I4 and I5 (incarnation).

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::change::{HolderSlot, WorkerView};
use crate::digest::Digest;
use crate::feed::Feed;
use crate::id::{Incarnation, WorkerId};
use crate::keyspace::Keyspace;
use crate::lane::{LaneId, LaneMeta};
use crate::lattice::{Lattice, Merged, raise};
use crate::placed::Placed;
use crate::plant::{Plant, planted};
use crate::stamp::{Floor, Stamp};

/// Engine rules version, lane roster and labels. Within an incarnation the last stamp wins.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorkerMeta {
    /// When it was set; decides which of two wins.
    pub stamp: Stamp,
    /// Which version of the engine's own reuse rules applies.
    pub rules: u16,
    /// Every lane of the worker; a lane of the roster that holds nothing accepts only 0 tokens.
    pub lanes: Vec<LaneMeta>,
    /// Free labels, `key=value`.
    pub labels: Vec<Arc<str>>,
}

/// What is true of a whole worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerRecord {
    /// The life of its cache.
    pub incarnation: Incarnation,
    /// Capacity in tokens, the smallest anybody read in this incarnation; `None` while unknown.
    pub capacity_tokens: Option<u64>,
    /// Rules, roster, labels, once somebody set them.
    pub meta: Option<WorkerMeta>,
}

impl WorkerRecord {
    /// What is known of a worker nobody probed.
    #[must_use]
    pub const fn new(incarnation: Incarnation) -> Self {
        Self { incarnation, capacity_tokens: None, meta: None }
    }

    fn canonical(&self, worker: &WorkerId) -> Vec<u8> {
        let mut bytes = worker_bytes(worker);
        bytes.extend_from_slice(&self.incarnation.counter.to_be_bytes());
        text(&mut bytes, self.incarnation.token.as_str());
        bytes.push(u8::from(self.capacity_tokens.is_some()));
        bytes.extend_from_slice(&self.capacity_tokens.unwrap_or(0).to_be_bytes());
        if let Some(meta) = &self.meta {
            bytes.extend_from_slice(&meta.stamp.to_bytes());
            bytes.extend_from_slice(&meta.rules.to_be_bytes());
            bytes.extend_from_slice(&(meta.lanes.len() as u32).to_be_bytes());
            for lane in &meta.lanes {
                bytes.extend_from_slice(&[lane.lane.0, lane.kind.to_byte()]);
                bytes.extend_from_slice(&lane.window_tokens.to_be_bytes());
                bytes.extend_from_slice(&lane.block_tokens.to_be_bytes());
            }
            for label in &meta.labels {
                text(&mut bytes, label);
            }
        }
        bytes
    }

    /// The digest of the record's canonical content.
    #[must_use]
    pub fn digest(&self, worker: &WorkerId) -> Digest {
        Digest::of(&self.canonical(worker))
    }
}

impl Lattice for WorkerRecord {
    fn merge(&mut self, other: &Self) -> Merged {
        match other.incarnation.cmp(&self.incarnation) {
            std::cmp::Ordering::Less => return Merged::Unchanged,
            std::cmp::Ordering::Greater
                if planted(Plant::TokenTieByArrival) && other.incarnation.counter == self.incarnation.counter =>
            {
                return Merged::Unchanged;
            }
            std::cmp::Ordering::Greater => {
                let before = self.capacity_tokens.filter(|_| planted(Plant::CapacityOutlivesIncarnation));
                *self = other.clone();
                self.capacity_tokens = self.capacity_tokens.into_iter().chain(before).min();
                return Merged::Grew;
            }
            std::cmp::Ordering::Equal => {}
        }
        let smaller = match (self.capacity_tokens, other.capacity_tokens) {
            (None, Some(_)) => true,
            (Some(mine), Some(theirs)) => theirs < mine || (theirs > mine && planted(Plant::CapacityGrows)),
            (_, None) => false,
        };
        if smaller {
            self.capacity_tokens = other.capacity_tokens;
        }
        let capacity = if smaller { Merged::Grew } else { Merged::Unchanged };
        capacity.or(raise(&mut self.meta, &other.meta))
    }
}

/// A holder of a worker.
#[derive(Clone, Debug)]
pub(crate) struct Holder {
    pub(crate) slot: HolderSlot,
    /// Hash of its name, by which repair speaks of it.
    pub(crate) name: u64,
    pub(crate) placed: Placed,
}

/// A worker and what its caches hold.
#[derive(Clone, Debug)]
pub(crate) struct Worker {
    pub(crate) record: WorkerRecord,
    pub(crate) holders: BTreeMap<(Arc<Keyspace>, LaneId), Holder>,
    /// What the engine's events say, if there are any of this incarnation.
    pub(crate) feed: Option<Feed>,
}

/// A worker's coverage in numbers, over all its holders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Holders that cover something.
    pub holders: u64,
    /// Blocks covered by placements.
    pub blocks: u64,
    /// Blocks that the engine's events say it holds, on every tier.
    pub stored: u64,
    /// Over record and holders: equal for equal content.
    pub digest: Digest,
    /// The highest floor; `None` before the first cut.
    pub floor: Option<Stamp>,
    /// The latest touch that still covers something.
    pub newest: Option<Stamp>,
}

impl Worker {
    /// What the worker comes to. O(holders).
    pub(crate) fn totals(&self, worker: &WorkerId) -> Totals {
        let mut totals = Totals { digest: self.record.digest(worker), ..Totals::default() };
        for holder in self.holders.values() {
            let placed = &holder.placed;
            totals.holders += u64::from(placed.blocks() > 0);
            totals.blocks += u64::from(placed.blocks());
            totals.floor = totals.floor.max((placed.floor() > Floor::LOWEST).then(|| placed.floor().stamp));
            totals.newest = totals.newest.max(placed.newest());
            // The name counts, too: two holders that swapped what they cover must not look alike.
            let mut named = [0; 24];
            named[..8].copy_from_slice(&holder.name.to_be_bytes());
            named[8..].copy_from_slice(&placed.digest().0.to_be_bytes());
            if placed.digest() != Digest::default() {
                totals.digest.add(Digest::of(&named));
            }
        }
        if let Some(feed) = &self.feed {
            totals.stored = feed.state.blocks() as u64;
            totals.digest.add(feed.digest);
        }
        totals
    }

    pub(crate) fn view(&self, worker: &WorkerId) -> WorkerView {
        WorkerView {
            worker: worker.clone(),
            incarnation: self.record.incarnation.clone(),
            capacity_tokens: self.record.capacity_tokens,
        }
    }
}

fn text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend_from_slice(&(text.len() as u32).to_be_bytes());
    bytes.extend_from_slice(text.as_bytes());
}

/// The canonical bytes of a worker's name.
pub(crate) fn worker_bytes(worker: &WorkerId) -> Vec<u8> {
    let mut bytes = b"worker\0".to_vec();
    text(&mut bytes, worker.name());
    bytes.extend_from_slice(&worker.rank().to_be_bytes());
    bytes
}

/// The canonical bytes of a holder's name.
pub(crate) fn holder_bytes(worker: &WorkerId, keyspace: &Keyspace, lane: LaneId) -> Vec<u8> {
    let mut bytes = worker_bytes(worker);
    bytes.extend_from_slice(&keyspace_bytes(keyspace));
    bytes.push(lane.0);
    bytes
}

/// The canonical bytes of a keyspace.
pub(crate) fn keyspace_bytes(keyspace: &Keyspace) -> Vec<u8> {
    let mut bytes = Vec::new();
    text(&mut bytes, keyspace.model.as_str());
    bytes.push(keyspace.unit.to_byte());
    bytes.extend_from_slice(&keyspace.block_units.to_be_bytes());
    bytes.push(keyspace.scheme.0);
    bytes.extend_from_slice(&keyspace.key_id.0.to_be_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Token;

    #[test]
    fn capacity_only_shrinks_within_an_incarnation_and_starts_anew_in_the_next() {
        let first = Incarnation::unknown().next(Token::new("a").expect("a token"));
        let mut record = WorkerRecord::new(first.clone());
        let with = |incarnation: &Incarnation, capacity| WorkerRecord {
            capacity_tokens: Some(capacity),
            ..WorkerRecord::new(incarnation.clone())
        };
        assert_eq!(record.merge(&with(&first, 100)), Merged::Grew);
        assert_eq!(record.merge(&with(&first, 200)), Merged::Unchanged);
        assert_eq!(record.merge(&with(&first, 50)), Merged::Grew);
        let second = first.next(Token::new("b").expect("a token"));
        assert_eq!(record.merge(&with(&second, 200)), Merged::Grew);
        assert_eq!(record.merge(&with(&first, 10)), Merged::Unchanged);
        assert_eq!(record.capacity_tokens, Some(200));
    }
}
