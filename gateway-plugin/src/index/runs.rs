//! The runs of one index copy: the replica's tree of shared hash runs, found by place and next hash, and how far each
//! worker covers them.
//!
//! A run is found by its exact parent place *and* hash, and its hashes are compared one by one, so two paths that share
//! a 64-bit hash are never taken for each other (P2). Not here: who the workers are (`model`), walking (`walk`).

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use covey_crdt::change::{Place, RunId};
use covey_crdt::hash::BlockHash;
use covey_crdt::plant::{Plant, planted};

use crate::bits::Bits;

/// A small number for one keyspace and lane of one index copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct SpaceNo(pub(super) u32);

/// How far the workers of one space cover one run.
#[derive(Clone, Debug)]
pub(super) struct Cover {
    space: SpaceNo,
    /// Workers that cover all of it.
    pub(super) full: Bits,
    /// (blocks, worker) of those that cover a part of it, ascending.
    pub(super) partial: Vec<(u32, u32)>,
}

/// One run.
#[derive(Clone, Debug)]
pub(super) struct Run {
    parent: Place,
    pub(super) hashes: Arc<[BlockHash]>,
    /// One per space; nearly always one, because spaces seed their hashes differently.
    covers: Vec<Cover>,
}

impl Run {
    pub(super) fn cover(&self, space: SpaceNo) -> Option<&Cover> {
        self.covers.iter().find(|cover| cover.space == space)
    }

    /// The worker now covers exactly the first `blocks` blocks.
    fn set_reach(&mut self, space: SpaceNo, worker: u32, blocks: u32) {
        let at = match self.covers.iter().position(|cover| cover.space == space) {
            Some(at) => at,
            None if blocks == 0 => return,
            None => {
                self.covers.push(Cover { space, full: Bits::default(), partial: Vec::new() });
                self.covers.len() - 1
            }
        };
        let cover = &mut self.covers[at];
        let stale = planted(Plant::IndexKeepsCut) && blocks > 0 && cover.full.contains(worker);
        if stale {
            return;
        }
        cover.full.remove(worker);
        cover.partial.retain(|(_, other)| *other != worker);
        if blocks as usize >= self.hashes.len() {
            cover.full.insert(worker);
        } else if blocks > 0 {
            let at = cover.partial.partition_point(|entry| *entry < (blocks, worker));
            cover.partial.insert(at, (blocks, worker));
        } else if cover.partial.is_empty() && cover.full.is_empty() {
            self.covers.swap_remove(at);
        }
    }
}

/// Every run of one index copy.
#[derive(Clone, Debug, Default)]
pub(super) struct Runs {
    runs: Vec<Option<Run>>,
    children: HashMap<(Place, BlockHash), RunId, BuildHasherDefault<PlaceHasher>>,
}

impl Runs {
    /// The run that continues a path at `place` with `next`.
    pub(super) fn child(&self, place: Place, next: BlockHash) -> Option<(RunId, &Run)> {
        let id = *self.children.get(&(place, next))?;
        Some((id, self.runs[id.0 as usize].as_ref().expect("the child map names live runs only")))
    }

    pub(super) fn insert(&mut self, id: RunId, parent: Place, hashes: Arc<[BlockHash]>) {
        let parent = self.canonical(parent);
        let first = *hashes.first().expect("a run has a block");
        let at = id.0 as usize;
        if at >= self.runs.len() {
            self.runs.resize(at + 1, None);
        }
        self.children.insert((parent, first), id);
        self.runs[at] = Some(Run { parent, hashes, covers: Vec::new() });
    }

    pub(super) fn free(&mut self, id: RunId) {
        let run =
            self.runs.get_mut(id.0 as usize).and_then(Option::take).expect("a run is freed once, after it was made");
        let key = (run.parent, run.hashes[0]);
        if self.children.get(&key) == Some(&id) {
            self.children.remove(&key);
        }
    }

    /// The worker now covers exactly the first `blocks` blocks of the run; taking coverage off a freed run is no change.
    pub(super) fn set_reach(&mut self, id: RunId, space: SpaceNo, worker: u32, blocks: u32) {
        match self.runs.get_mut(id.0 as usize).and_then(Option::as_mut) {
            Some(run) => run.set_reach(space, worker, blocks),
            None => assert_eq!(blocks, 0, "only a live run can be covered"),
        }
    }

    /// How many runs there are.
    pub(super) fn len(&self) -> usize {
        self.children.len()
    }

    /// The place as the child map knows it: "before the first block of a run" is where that run hangs.
    fn canonical(&self, place: Place) -> Place {
        if place.blocks > 0 || place.run == RunId::ROOT {
            return place;
        }
        let run = self.runs.get(place.run.0 as usize).and_then(Option::as_ref);
        run.expect("a run hangs at a live run").parent
    }
}

/// Mixes a place and a block hash. The hash is XXH3 with the mesh's key, so nothing stronger is needed.
#[derive(Clone, Copy, Debug, Default)]
struct PlaceHasher(u64);

impl PlaceHasher {
    fn mix(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(26) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl Hasher for PlaceHasher {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.mix(u64::from(*byte)));
    }

    fn write_u32(&mut self, word: u32) {
        self.mix(u64::from(word));
    }

    fn write_u64(&mut self, word: u64) {
        self.mix(word);
    }
}
