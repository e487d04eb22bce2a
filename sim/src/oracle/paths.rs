//! Every path that was ever placed: its parent, its depth, its last block, and which incarnations accepted it.
//!
//! Not here: who covers it when (`history`).

use std::collections::{BTreeMap, HashMap};

use covey_crdt::hash::{BlockHash, PathId};
use covey_crdt::id::{Incarnation, WorkerId};

/// A path's number.
pub(super) type PathNr = u32;

/// The root's number: no path's.
pub(super) const ROOT: PathNr = PathNr::MAX;

#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    pub(super) id: PathId,
    pub(super) parent: PathNr,
    pub(super) depth: u32,
    block: BlockHash,
}

/// All of them. The map is only looked up, never walked: its order reaches nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Paths {
    numbers: HashMap<PathId, PathNr>,
    paths: Vec<Path>,
    /// Accepted paths of each worker and incarnation, as bits.
    accepted: BTreeMap<WorkerId, BTreeMap<Incarnation, Vec<u64>>>,
}

impl Paths {
    pub(super) fn accept(&mut self, worker: &WorkerId, incarnation: &Incarnation, chain: &[BlockHash]) {
        if !self.accepted.contains_key(worker) {
            self.accepted.insert(worker.clone(), BTreeMap::new());
        }
        let eras = self.accepted.get_mut(worker).expect("inserted above");
        if !eras.contains_key(incarnation) {
            eras.insert(incarnation.clone(), Vec::new());
        }
        let bits = eras.get_mut(incarnation).expect("inserted above");
        let (mut id, mut parent) = (PathId::ROOT, ROOT);
        for (depth, block) in (1..).zip(chain) {
            id = id.child(*block);
            let fresh = self.paths.len() as PathNr;
            let number = *self.numbers.entry(id).or_insert(fresh);
            if number == fresh {
                self.paths.push(Path { id, parent, depth, block: *block });
            }
            let word = number as usize / 64;
            if bits.len() <= word {
                bits.resize(word + 1, 0);
            }
            bits[word] |= 1 << (number % 64);
            parent = number;
        }
    }

    pub(super) fn number(&self, path: PathId) -> Option<PathNr> {
        self.numbers.get(&path).copied()
    }

    /// A path that is not the root.
    pub(super) fn get(&self, number: PathNr) -> &Path {
        &self.paths[number as usize]
    }

    pub(super) fn parent(&self, path: PathId) -> Option<PathId> {
        let parent = self.get(self.number(path)?).parent;
        Some(if parent == ROOT { PathId::ROOT } else { self.get(parent).id })
    }

    pub(super) fn block(&self, path: PathId) -> Option<BlockHash> {
        Some(self.get(self.number(path)?).block)
    }

    pub(super) fn was_accepted(&self, worker: &WorkerId, incarnation: &Incarnation, path: PathId) -> bool {
        let bits = self.accepted.get(worker).and_then(|eras| eras.get(incarnation));
        let (Some(bits), Some(number)) = (bits, self.number(path)) else { return false };
        bits.get(number as usize / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }
}
