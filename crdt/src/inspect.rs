//! A bounded look into a replica, for people: its workers with their holders, and the blocks that a holder covers.
//!
//! Everything here is read in pages whose work is bounded, so that whoever owns the replica can answer between two turns.
//!
//! Not here: who asks, and what two replicas' pages mean together (`covey-gateway-plugin`'s `admin::diff`). Upholds I9.

use std::ops::Bound;
use std::sync::Arc;

use crate::digest::Digest;
use crate::hash::{BlockHash, PathId};
use crate::id::WorkerId;
use crate::keyspace::Keyspace;
use crate::lane::LaneId;
use crate::placed::Placed;
use crate::replica::Replica;
use crate::stamp::Stamp;
use crate::stored::FeedState;
use crate::worker::WorkerRecord;

/// A holder as an inspection names it.
#[derive(Clone, Copy, Debug)]
pub struct HolderView<'a> {
    /// Hash of its name: tells the holders of one worker apart.
    pub id: u64,
    /// Which keyspace.
    pub keyspace: &'a Arc<Keyspace>,
    /// Which of the worker's caches.
    pub lane: LaneId,
    /// What it covers.
    pub placed: &'a Placed,
}

/// Part of a set of stored coverage.
#[derive(Clone, Debug)]
pub struct StoredStretch<'a> {
    /// Which of the worker's holders.
    pub holder: (&'a Arc<Keyspace>, LaneId),
    /// Hash of its name.
    pub id: u64,
    /// Over the whole set.
    pub digest: Digest,
    /// Blocks in the whole set.
    pub count: usize,
    /// Those of this page, ascending.
    pub blocks: Vec<BlockHash>,
}

/// Blocks of one touch in a row: `paths[i]` lies at depth `from + i`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The touch that raised them last.
    pub stamp: Stamp,
    /// Depth of the first, in blocks from the root.
    pub from: u32,
    /// Their path ids.
    pub paths: Vec<PathId>,
}

impl Stretch {
    /// Depth of the last block.
    #[must_use]
    pub fn last(&self) -> u32 {
        self.from + u32::try_from(self.paths.len()).unwrap_or(u32::MAX).saturating_sub(1)
    }
}

impl Replica {
    /// Workers after `after` in canonical order, each with its record and its holders.
    pub fn workers_after(
        &self,
        after: Option<&WorkerId>,
    ) -> impl Iterator<Item = (&WorkerId, &WorkerRecord, Vec<HolderView<'_>>)> {
        self.entries_after(after).map(|(id, worker)| {
            let holders = worker.holders.iter().map(|((keyspace, lane), holder)| HolderView {
                id: holder.name,
                keyspace,
                lane: *lane,
                placed: &holder.placed,
            });
            (id, &worker.record, holders.collect())
        })
    }

    /// A worker's record, and its holder of that id if there is one.
    #[must_use]
    pub fn holder_view(&self, worker: &WorkerId, id: u64) -> Option<(&WorkerRecord, Option<HolderView<'_>>)> {
        let record = self.record(worker)?;
        let mut holders = self.holders_of(worker, None).map(|((keyspace, lane), placed)| {
            let id = crate::outline::holder_name(worker, &(Arc::clone(keyspace), *lane));
            HolderView { id, keyspace, lane: *lane, placed }
        });
        Some((record, holders.find(|holder| holder.id == id)))
    }

    /// What a feed's sets hold, in canonical order, from the first block after `after` (a holder's id and its last block seen)
    /// on: `most` blocks at most.
    #[must_use]
    pub fn stored_stretches<'a>(
        worker: &WorkerId,
        feed: &'a FeedState,
        after: Option<(u64, BlockHash)>,
        most: usize,
    ) -> Vec<StoredStretch<'a>> {
        let (mut found, mut left, mut seen) = (Vec::new(), most, after.is_none());
        for ((keyspace, lane), set) in feed.lanes() {
            let id = crate::outline::holder_name(worker, &(Arc::clone(keyspace), *lane));
            let is_cut = after.is_some_and(|(last, _)| last == id);
            if !(seen || is_cut) || left == 0 {
                continue;
            }
            let last = after.filter(|_| is_cut).map(|(_, block)| block);
            let from = last.map_or(Bound::Unbounded, Bound::Excluded);
            let blocks: Vec<_> = set.blocks().range((from, Bound::Unbounded)).take(left).copied().collect();
            (left, seen) = (left - blocks.len(), true);
            let (digest, count) = (set.digest(), set.blocks().len());
            found.push(StoredStretch { holder: (keyspace, *lane), id, digest, count, blocks });
        }
        found
    }

    /// Blocks of a holder in the order of stamp, then depth, from the first after `after` on: `most` blocks at most (at
    /// least one when there are any left).
    #[must_use]
    pub fn stretches(&self, placed: &Placed, after: Option<(Stamp, u32)>, most: usize) -> Vec<Stretch> {
        let (chains, mut left) = (self.chains(), u32::try_from(most.max(1)).unwrap_or(u32::MAX));
        let mut found = Vec::new();
        for (stamp, place, start) in placed.spans(after.map(|(stamp, _)| stamp)) {
            let tip_depth = chains.depth(place);
            let from = match after {
                Some((seen, depth)) if seen == stamp => start.max(depth.saturating_add(1)),
                _ => start,
            };
            if from > tip_depth {
                continue;
            }
            let to = tip_depth.min(from.saturating_add(left - 1));
            let base = chains.ancestor(place, from - 1);
            let mut path = chains.tip(base).path;
            let hashes = chains.since(base, chains.ancestor(place, to));
            let paths = hashes.into_iter().map(|hash| {
                path = path.child(hash);
                path
            });
            found.push(Stretch { stamp, from, paths: paths.collect() });
            left -= to - from + 1;
            if left == 0 {
                break;
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::hash::{BlockHash, HashKey};
    use crate::id::{Incarnation, LifeId, ModelName};
    use crate::keyspace::Unit;
    use crate::stamp::Hlc;

    fn touched() -> (Replica, WorkerId) {
        let mut replica = Replica::default();
        let worker = WorkerId::new("w", 0).expect("a name");
        let model = ModelName::new("m").expect("a name");
        let keyspace = Arc::new(Keyspace::new(model, Unit::Bytes, 16, HashKey::ZERO.id()).expect("a block size"));
        // Three touches whose chains share their first blocks, the last of them longer than a run.
        for (nth, blocks) in [(1, 700), (2, 300), (3, 9_000)] {
            let chain: Vec<_> = (0..blocks).map(|i| BlockHash(if i < 200 { i } else { i + nth * 1_000_000 })).collect();
            let (place, _) = replica.learn_chain(&chain).expect("not too deep");
            let stamp = Stamp { hlc: Hlc::new(nth, 0), life: LifeId(7) };
            let _ = replica.place(&worker, &keyspace, &Incarnation::unknown(), place, stamp);
        }
        (replica, worker)
    }

    #[test]
    fn pages_of_any_size_give_every_block_once() {
        let (replica, worker) = touched();
        let all = replica.workers_after(None).next().expect("a worker");
        assert_eq!((all.0, all.2.len()), (&worker, 1));
        let (_, holder) = replica.holder_view(&worker, all.2[0].id).expect("recorded");
        let placed = holder.expect("the same holder").placed;
        let expected = placed.expand(replica.chains());
        assert_eq!(expected.len(), 700 - 200 + 300 - 200 + 9_000);
        for most in [1_000, 4_096, 7, 100_000] {
            let mut seen = BTreeMap::new();
            let mut after = None;
            loop {
                let page = replica.stretches(placed, after, most);
                assert!(page.iter().map(|stretch| stretch.paths.len()).sum::<usize>() <= most);
                let Some(last) = page.last() else { break };
                after = Some((last.stamp, last.last()));
                for stretch in page {
                    for (depth, path) in (stretch.from..).zip(stretch.paths) {
                        assert_eq!(seen.insert(path, (stretch.stamp, depth)), None, "once");
                    }
                }
            }
            assert_eq!(seen, expected, "pages of {most}");
        }
    }

    #[test]
    fn a_worker_or_holder_that_is_not_there_is_none() {
        let (replica, worker) = touched();
        assert!(replica.holder_view(&WorkerId::new("other", 0).expect("a name"), 0).is_none());
        assert!(replica.holder_view(&worker, 0).is_some_and(|(_, holder)| holder.is_none()));
        assert_eq!(replica.workers_after(Some(&worker)).count(), 0);
    }
}
