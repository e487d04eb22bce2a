//! The chain store: every chain any holder, log or held op refers to, stored once.
//!
//! Chains share their prefixes: a *run* is up to [`RUN_BLOCKS_MAX`] block hashes in one immutable slice that hangs at a
//! place in another run. Runs are never split; a branch is a new run at an offset. A place is found from the root by
//! following hashes exactly, so two chains that share a 64-bit hash by accident stay two chains (P2), and from a
//! [`PathId`] when that names a run's end, an anchor (every [`ANCHOR_BLOCKS`]th block) or a tip somebody named before.
//!
//! Not here: who covers what (`placed`). Upholds I9: a run is freed with its last reference.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::change::{Change, Place, RunId};
use crate::hash::{BlockHash, PathId};
use crate::limits::{ANCHOR_BLOCKS, CHAIN_BLOCKS_MAX, RUN_BLOCKS_MAX};
use crate::plant::{Plant, planted};

/// The end of a chain as ops name it: identity and depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tip {
    /// The chain's identity.
    pub path: PathId,
    /// How many blocks it has.
    pub depth: u32,
}

impl Tip {
    /// The empty chain.
    pub const ROOT: Self = Self { path: PathId::ROOT, depth: 0 };
}

/// The chain would have more than [`CHAIN_BLOCKS_MAX`] blocks. Nothing was stored; the sender broke a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooDeep;

#[derive(Clone, Debug)]
struct Run {
    parent: Place,
    /// Blocks before the run's first.
    depth: u32,
    hashes: Arc<[BlockHash]>,
    base: PathId,
    /// Path ids at the anchors inside the run, shallowest first.
    anchors: Vec<PathId>,
    /// Path ids registered beside the anchors: the run's end, and tips inside it that somebody named.
    named: Vec<PathId>,
    refs: u32,
}

impl Run {
    /// Offset of the first anchor behind the run's start.
    const fn first_anchor(&self) -> u32 {
        ANCHOR_BLOCKS - self.depth % ANCHOR_BLOCKS
    }
}

/// A chain from `base` on: what a receiver must know to place a tip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainPiece {
    /// A place the receiver knows: the root, an anchor, a run's end or a named tip.
    pub base: Tip,
    /// The hashes after it.
    pub hashes: Vec<BlockHash>,
}

/// All chains of one replica. Every place handed out stays valid while the caller holds a reference to its run.
#[derive(Clone, Debug, Default)]
pub struct Chains {
    runs: BTreeMap<RunId, Run>,
    free: Vec<RunId>,
    children: BTreeMap<(Place, BlockHash), RunId>,
    places: BTreeMap<PathId, Place>,
    blocks: u64,
}

impl Chains {
    /// Follows `hashes` from `from`, storing what is new, and takes a reference to the run the chain ends in.
    /// New runs are appended to `changes`.
    ///
    /// # Errors
    /// [`TooDeep`] when the chain would exceed its bound; nothing is stored then.
    pub fn insert(&mut self, from: Place, hashes: &[BlockHash], changes: &mut Vec<Change>) -> Result<Place, TooDeep> {
        if hashes.len() > (CHAIN_BLOCKS_MAX - self.depth(from)) as usize {
            return Err(TooDeep);
        }
        let mut place = from;
        let mut rest = hashes;
        while let Some(&next) = rest.first() {
            let ahead = self.runs.get(&place.run).map_or(&[][..], |run| &run.hashes[place.blocks as usize..]);
            let same = ahead.iter().zip(rest).take_while(|(a, b)| a == b).count();
            if same > 0 {
                place.blocks += same as u32;
                rest = &rest[same..];
            } else if let Some(run) = self.child(place, next) {
                place = Place { run, blocks: 0 };
            } else {
                let (head, tail) = rest.split_at(rest.len().min(RUN_BLOCKS_MAX as usize));
                place = self.hang(place, head, changes);
                rest = tail;
            }
        }
        self.retain(place.run);
        Ok(place)
    }

    /// The run that continues `place` with `next`.
    fn child(&self, place: Place, next: BlockHash) -> Option<RunId> {
        if planted(Plant::PathsByAlias) {
            return self.children.iter().find(|((_, first), _)| *first == next).map(|(_, run)| *run);
        }
        self.children.get(&(place, next)).copied()
    }

    fn hang(&mut self, parent: Place, hashes: &[BlockHash], changes: &mut Vec<Change>) -> Place {
        let id = self.free.pop().unwrap_or(RunId(self.runs.len() as u32 + 1));
        let (depth, base) = (self.depth(parent), self.path(parent));
        let mut run = Run {
            parent,
            depth,
            hashes: Arc::from(hashes),
            base,
            anchors: Vec::with_capacity(hashes.len() / ANCHOR_BLOCKS as usize + 1),
            named: Vec::new(),
            refs: 0,
        };
        let mut path = base;
        for (offset, hash) in (1..).zip(hashes) {
            path = path.child(*hash);
            if (depth + offset).is_multiple_of(ANCHOR_BLOCKS) {
                run.anchors.push(path);
                self.places.insert(path, Place { run: id, blocks: offset });
            }
        }
        let end = Place { run: id, blocks: hashes.len() as u32 };
        if !(depth + end.blocks).is_multiple_of(ANCHOR_BLOCKS) {
            run.named.push(path);
            self.places.insert(path, end);
        }
        self.blocks += u64::from(end.blocks);
        self.children.insert((parent, hashes[0]), id);
        changes.push(Change::Run { run: id, parent, hashes: Arc::clone(&run.hashes) });
        self.runs.insert(id, run);
        self.retain(parent.run);
        end
    }

    /// Takes one more reference to a run. The root needs none.
    pub fn retain(&mut self, run: RunId) {
        if run != RunId::ROOT {
            self.runs.get_mut(&run).expect("a referenced run is stored").refs += 1;
        }
    }

    /// Gives a reference back; frees the run with its last one, and then perhaps the run it hangs from.
    pub fn release(&mut self, run: RunId, changes: &mut Vec<Change>) {
        let mut run = run;
        while run != RunId::ROOT {
            let stored = self.runs.get_mut(&run).expect("a referenced run is stored");
            stored.refs -= 1;
            if stored.refs > 0 {
                return;
            }
            let gone = self.runs.remove(&run).expect("looked at above");
            self.children.remove(&(gone.parent, gone.hashes[0]));
            for path in gone.anchors.iter().chain(&gone.named) {
                self.places.remove(path);
            }
            self.blocks -= gone.hashes.len() as u64;
            self.free.push(run);
            changes.push(Change::RunFreed { run });
            run = gone.parent.run;
        }
    }

    /// Where the named chain ends, if it is stored and that end can be named.
    #[must_use]
    pub fn resolve(&self, tip: Tip) -> Option<Place> {
        if tip.depth == 0 {
            return (tip.path == PathId::ROOT).then_some(Place::ROOT);
        }
        let place = *self.places.get(&tip.path)?;
        (self.depth(place) == tip.depth).then_some(place)
    }

    /// Makes the place resolvable by its path id for as long as its run lives.
    pub fn name(&mut self, place: Place) -> Tip {
        let tip = self.tip(place);
        if place.run != RunId::ROOT && self.places.insert(tip.path, place).is_none() {
            self.runs.get_mut(&place.run).expect("a place is in a stored run").named.push(tip.path);
        }
        tip
    }

    /// Blocks from the root to the place.
    #[must_use]
    pub fn depth(&self, place: Place) -> u32 {
        self.runs.get(&place.run).map_or(0, |run| run.depth) + place.blocks
    }

    /// Where the run hangs; the root hangs from itself.
    #[must_use]
    pub fn parent(&self, run: RunId) -> Place {
        self.runs.get(&run).map_or(Place::ROOT, |run| run.parent)
    }

    /// How the place is named in ops.
    #[must_use]
    pub fn tip(&self, place: Place) -> Tip {
        Tip { path: self.path(place), depth: self.depth(place) }
    }

    fn path(&self, place: Place) -> PathId {
        let Some(run) = self.runs.get(&place.run) else { return PathId::ROOT };
        let first = run.first_anchor();
        if place.blocks < first {
            return run.base.extend(&run.hashes[..place.blocks as usize]);
        }
        let nth = (place.blocks - first) / ANCHOR_BLOCKS;
        let from = first + nth * ANCHOR_BLOCKS;
        run.anchors[nth as usize].extend(&run.hashes[from as usize..place.blocks as usize])
    }

    /// The ancestor of `place` at `depth` blocks, or `place` itself when it is not deeper.
    #[must_use]
    pub fn ancestor(&self, place: Place, depth: u32) -> Place {
        let mut place = place;
        loop {
            let before = self.depth(place) - place.blocks;
            if depth > before || place.run == RunId::ROOT {
                return Place { run: place.run, blocks: place.blocks.min(depth.saturating_sub(before)) };
            }
            place = self.parent(place.run);
        }
    }

    /// The whole chain, from the root.
    #[must_use]
    pub fn chain(&self, place: Place) -> Vec<BlockHash> {
        self.since(Place::ROOT, place)
    }

    /// The hashes between `base` and its descendant `place`.
    #[must_use]
    pub fn since(&self, base: Place, place: Place) -> Vec<BlockHash> {
        let mut pieces = Vec::new();
        let mut at = place;
        while let Some(run) = self.runs.get(&at.run) {
            let from = if at.run == base.run { base.blocks } else { 0 };
            pieces.push(&run.hashes[from as usize..at.blocks as usize]);
            if at.run == base.run {
                break;
            }
            at = run.parent;
        }
        pieces.into_iter().rev().flatten().copied().collect()
    }

    /// What a peer needs to place `place` when it has every run for which `has` says so: nothing when it can resolve the
    /// tip already, else one piece a run, from the deepest place it can resolve, shallowest first. Each piece comes with
    /// the place it ends at: the peer has that run now if the place is its end.
    #[must_use]
    pub fn pieces(&self, place: Place, has: &dyn Fn(RunId) -> bool) -> Vec<(Place, ChainPiece)> {
        let mut missing = Vec::new();
        let mut at = place;
        while at.run != RunId::ROOT && !has(at.run) {
            missing.push(at);
            at = self.parent(at.run);
        }
        if at == place && self.nameable(place) != place {
            missing.push(place);
        }
        let mut pieces = Vec::with_capacity(missing.len());
        for (nth, end) in missing.iter().enumerate().rev() {
            let from = if at == place { place } else { self.parent(end.run) };
            // A run that something deeper hangs from is sent whole, so that the peer really has it afterwards.
            let end = if nth == 0 { *end } else { self.end(end.run) };
            let base = self.nameable(from);
            pieces.push((end, ChainPiece { base: self.tip(base), hashes: self.since(base, end) }));
        }
        pieces
    }

    fn end(&self, run: RunId) -> Place {
        Place { run, blocks: self.runs.get(&run).map_or(0, |stored| stored.hashes.len() as u32) }
    }

    /// The deepest place at or above `place` that every replica which holds the run can resolve: the run's end or an anchor.
    fn nameable(&self, place: Place) -> Place {
        let Some(run) = self.runs.get(&place.run) else { return Place::ROOT };
        if place.blocks as usize == run.hashes.len() {
            return place;
        }
        let first = run.first_anchor();
        if place.blocks >= first {
            return Place { run: place.run, blocks: place.blocks - (place.blocks - first) % ANCHOR_BLOCKS };
        }
        // No anchor before it inside the run: the last one above, which may lie several short runs up.
        self.anchor_above(run.parent)
    }

    fn anchor_above(&self, place: Place) -> Place {
        let depth = self.depth(place);
        self.ancestor(place, depth - depth % ANCHOR_BLOCKS)
    }

    /// The runs of a chain from its tip up to the root, with how far it goes in each.
    pub fn ascend(&self, place: Place) -> impl Iterator<Item = Place> + '_ {
        std::iter::successors((place.run != RunId::ROOT).then_some(place), |at| {
            let parent = self.parent(at.run);
            (parent.run != RunId::ROOT).then_some(parent)
        })
    }

    /// Whether the place is the end of its run.
    #[must_use]
    pub fn is_end(&self, place: Place) -> bool {
        self.runs.get(&place.run).is_none_or(|run| run.hashes.len() == place.blocks as usize)
    }

    /// Blocks stored.
    #[must_use]
    pub const fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Runs stored.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.runs.len()
    }
}

#[cfg(test)]
mod tests;
