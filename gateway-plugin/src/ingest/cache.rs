//! What an engine's events say it holds. Engines report physical copies: two requests that computed one block store it
//! twice, and removing one copy leaves the other, so copies are counted per group, medium and engine hash. What a reader
//! wants to know is net: which blocks, named by this gateway's own chain hashes, came or went altogether.
//!
//! A block's place in its prompt follows from its parent's. A child whose parent is unknown (never announced, or announced
//! later) is kept by its engine hash alone, and gets its place when the parent does. Nothing is dropped for being early.
//!
//! Not here: reading events (`decode`), who may say so (ownership). Bounded: an engine that announces more blocks than
//! [`BLOCKS_MAX`] is not believed any further.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use covey_crdt::hash::{BlockHash, BlockHasher, HashKey, PathId};
use covey_crdt::keyspace::Keyspace;

use super::event::{Event, ExtraKey, Medium, Removed, Stored};
use super::naming::{self, Scope};

/// Blocks of one engine at most, copies not counted.
pub const BLOCKS_MAX: usize = 1 << 20;

/// Where a block stands in its prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    path: PathId,
    /// Behind its last token; what follows is hashed from here.
    block: BlockHash,
    /// Its number in the prompt, from 1.
    depth: u32,
}

/// What is needed to place a block once its parent is placed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Orphan {
    tokens: Arc<[u32]>,
    extra: Option<ExtraKey>,
}

#[derive(Clone, Debug, Default)]
struct Known {
    place: Option<Place>,
    /// By what it would be placed, and behind whom.
    orphan: Option<(u64, Orphan)>,
    /// Copies by group and medium.
    copies: BTreeMap<(u32, Medium), u32>,
}

/// A block that came or went altogether, on one medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Net {
    /// The block and everything before it.
    pub path: PathId,
    /// Its number in the prompt, from 1.
    pub depth: u32,
    /// Where.
    pub medium: Medium,
    /// Whether it came; it went otherwise.
    pub came: bool,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events applied.
    pub applied: u64,
    /// Events of groups whose blocks do not all count, or of other block sizes than the keyspace's.
    pub other_group: u64,
    /// Stores that name fewer blocks than their tokens make: which ones cannot be told.
    pub sparse: u64,
    /// Stored blocks without all their tokens: they cannot be hit by a prefix that is named in whole blocks.
    pub partial: u64,
    /// Removals of blocks that were never announced.
    pub unknown_removed: u64,
    /// Blocks that were not believed because there are too many.
    pub over_bound: u64,
}

/// An engine's cache, by its events.
#[derive(Clone, Debug)]
pub struct EngineCache {
    keyspace: Arc<Keyspace>,
    root: BlockHasher,
    key: HashKey,
    blocks: BTreeMap<u64, Known>,
    /// Children that wait for a parent's place.
    waiting: BTreeMap<u64, BTreeSet<u64>>,
    /// Whole blocks held, by path: copies on each medium.
    held: BTreeMap<PathId, BTreeMap<Medium, u32>>,
    counts: Counts,
}

impl EngineCache {
    /// An empty cache whose blocks are named in `keyspace`.
    ///
    /// # Panics
    /// When `keyspace` names another key than `key`.
    #[must_use]
    pub fn new(keyspace: Arc<Keyspace>, key: HashKey) -> Self {
        let root = naming::chain_of(&keyspace, &key, None);
        Self {
            keyspace,
            root,
            key,
            blocks: BTreeMap::new(),
            waiting: BTreeMap::new(),
            held: BTreeMap::new(),
            counts: Counts::default(),
        }
    }

    /// What was counted so far.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Tokens in a block.
    #[must_use]
    pub fn block_tokens(&self) -> u32 {
        self.keyspace.block_units
    }

    /// Blocks held on `medium`.
    #[must_use]
    pub fn blocks(&self, medium: Medium) -> usize {
        self.held.values().filter(|copies| copies.contains_key(&medium)).count()
    }

    /// Blocks that wait for a place.
    #[must_use]
    pub fn orphans(&self) -> usize {
        self.waiting.values().map(BTreeSet::len).sum()
    }

    /// Applies the events of one batch, in order, and returns what came and went on balance.
    pub fn apply(&mut self, events: &[Event]) -> Vec<Net> {
        let mut net = BTreeMap::new();
        for event in events {
            match event {
                Event::Stored(stored) => self.store(stored, &mut net),
                Event::Removed(removed) => self.remove(removed, &mut net),
                Event::Cleared => self.clear(&mut net),
                Event::Unknown => {}
            }
        }
        let changed = net.into_iter().filter(|(_, (before, after))| before != after);
        changed.map(|((path, depth, medium), (_, came))| Net { path, depth, medium, came }).collect()
    }

    /// How many whole blocks of a prompt, from its start, the device holds.
    #[must_use]
    pub fn prefix(&self, chain: &[BlockHash]) -> u32 {
        let mut path = PathId::ROOT;
        let held = chain.iter().take_while(|block| {
            path = path.child(**block);
            self.held.get(&path).is_some_and(|copies| copies.contains_key(&Medium::Device))
        });
        held.count() as u32
    }

    /// The chain of a prompt of token ids. `first` is what its first block depends on besides (a salt), `every` what every
    /// block does (an adapter).
    #[must_use]
    pub fn chain(&self, tokens: &[u32], lora: Option<&str>, salt: Option<&str>) -> Vec<BlockHash> {
        let mut hasher = Scope { adapter: lora, salt }.begin(&self.keyspace, &self.key);
        let mut chain = Vec::with_capacity(tokens.len() / self.keyspace.block_units as usize);
        hasher.tokens(tokens, &mut chain);
        chain
    }

    fn start(&self, lora: Option<&str>) -> BlockHasher {
        match lora {
            None => self.root.clone(),
            Some(lora) => naming::chain_of(&self.keyspace, &self.key, Some(lora)),
        }
    }

    fn store(&mut self, stored: &Stored, net: &mut NetMap) {
        self.counts.applied += 1;
        if !stored.is_full || stored.block_tokens != self.keyspace.block_units {
            self.counts.other_group += 1;
            return;
        }
        let size = stored.block_tokens as usize;
        let whole = stored.tokens.len() / size;
        if stored.hashes.len() < whole {
            // Which blocks were left out is not said; the ones named keep their copies under the engine's hash.
            self.counts.sparse += u64::from(!stored.hashes.is_empty());
        }
        let is_dense = stored.hashes.len() >= whole && !stored.hashes.is_empty();
        let mut parent = stored.parent;
        for (nth, hash) in stored.hashes.iter().enumerate() {
            let tokens = stored.tokens.get(nth * size..(nth + 1) * size);
            if is_dense && tokens.is_none() {
                self.counts.partial += 1;
            }
            let extra = stored.extra.get(nth).copied().flatten();
            let wants = tokens.filter(|_| is_dense).map(|tokens| Orphan { tokens: tokens.into(), extra });
            self.store_one(*hash, parent, wants, stored, net);
            parent = Some(*hash);
        }
    }

    fn store_one(&mut self, hash: u64, parent: Option<u64>, wants: Option<Orphan>, of: &Stored, net: &mut NetMap) {
        if self.blocks.len() >= BLOCKS_MAX && !self.blocks.contains_key(&hash) {
            self.counts.over_bound += 1;
            return;
        }
        let known = self.blocks.entry(hash).or_default();
        let copies = known.copies.entry((of.group, of.medium)).or_default();
        *copies = copies.saturating_add(1);
        let is_first = *copies == 1;
        if let Some(place) = known.place {
            if is_first {
                self.hold(place, of.medium, net);
            }
            return;
        }
        let Some(orphan) = wants else { return };
        match parent {
            None => {
                let place = self.place(None, &orphan, of.lora.as_deref());
                self.settle(hash, place, net);
            }
            Some(parent) => match self.blocks.get(&parent).and_then(|known| known.place) {
                Some(before) => {
                    let place = self.place(Some(before), &orphan, None);
                    self.settle(hash, place, net);
                }
                None => {
                    if let Some(known) = self.blocks.get_mut(&hash) {
                        known.orphan = Some((parent, orphan));
                    }
                    self.waiting.entry(parent).or_default().insert(hash);
                }
            },
        }
    }

    /// Where a block stands behind its parent, or at the start of a prompt.
    fn place(&self, before: Option<Place>, orphan: &Orphan, lora: Option<&str>) -> Place {
        let mut hasher = match before {
            Some(before) => self.root.resume(before.block),
            None => self.start(lora),
        };
        if let Some(extra) = orphan.extra {
            hasher.fold(extra.0.get());
        }
        let mut chain = Vec::with_capacity(1);
        hasher.tokens(&orphan.tokens, &mut chain);
        let block = chain.first().copied().expect("an orphan has the tokens of one block");
        let (path, depth) = before.map_or((PathId::ROOT, 0), |before| (before.path, before.depth));
        Place { path: path.child(block), block, depth: depth + 1 }
    }

    /// The block has its place from now on, and its waiting children get theirs.
    fn settle(&mut self, hash: u64, place: Place, net: &mut NetMap) {
        let mut due = vec![(hash, place)];
        while let Some((hash, place)) = due.pop() {
            let Some(known) = self.blocks.get_mut(&hash) else { continue };
            known.place = Some(place);
            known.orphan = None;
            let media: BTreeSet<Medium> = known.copies.keys().map(|(_, medium)| *medium).collect();
            for medium in media {
                self.hold(place, medium, net);
            }
            for child in self.waiting.remove(&hash).unwrap_or_default() {
                let orphan = self.blocks.get_mut(&child).and_then(|known| known.orphan.take());
                if let Some((_, orphan)) = orphan {
                    due.push((child, self.place(Some(place), &orphan, None)));
                }
            }
        }
    }

    fn hold(&mut self, place: Place, medium: Medium, net: &mut NetMap) {
        let copies = self.held.entry(place.path).or_default().entry(medium).or_default();
        *copies += 1;
        note(net, place, medium, *copies > 1, true);
    }

    fn let_go(&mut self, place: Place, medium: Medium, net: &mut NetMap) {
        let Some(media) = self.held.get_mut(&place.path) else { return };
        let Some(copies) = media.get_mut(&medium) else { return };
        *copies -= 1;
        let is_gone = *copies == 0;
        if is_gone {
            media.remove(&medium);
        }
        if media.is_empty() {
            self.held.remove(&place.path);
        }
        note(net, place, medium, true, !is_gone);
    }

    fn remove(&mut self, removed: &Removed, net: &mut NetMap) {
        self.counts.applied += 1;
        for hash in &removed.hashes {
            let at = (removed.group, removed.medium);
            let Some(known) = self.blocks.get_mut(hash) else {
                self.counts.unknown_removed += 1;
                continue;
            };
            let Some(copies) = known.copies.get_mut(&at) else {
                self.counts.unknown_removed += 1;
                continue;
            };
            *copies -= 1;
            if *copies > 0 {
                continue;
            }
            known.copies.remove(&at);
            let place = known.place;
            if known.copies.is_empty() {
                self.forget(*hash);
            }
            if let Some(place) = place {
                self.let_go(place, removed.medium, net);
            }
        }
    }

    /// No copy is left. Its children keep their places: where they stand does not change.
    fn forget(&mut self, hash: u64) {
        let Some(known) = self.blocks.remove(&hash) else { return };
        if let Some((parent, _)) = known.orphan
            && let Some(children) = self.waiting.get_mut(&parent)
        {
            children.remove(&hash);
            if children.is_empty() {
                self.waiting.remove(&parent);
            }
        }
    }

    fn clear(&mut self, net: &mut NetMap) {
        self.counts.applied += 1;
        let places: Vec<(Place, Medium)> = self
            .blocks
            .values()
            .filter_map(|known| Some((known.place?, known.copies.keys())))
            .flat_map(|(place, copies)| copies.map(move |(_, medium)| (place, *medium)))
            .collect();
        for (place, medium) in places {
            self.let_go(place, medium, net);
        }
        self.blocks.clear();
        self.waiting.clear();
        self.held.clear();
    }
}

/// Whether a block was held before the batch, and is now.
type NetMap = BTreeMap<(PathId, u32, Medium), (bool, bool)>;

fn note(net: &mut NetMap, place: Place, medium: Medium, before: bool, after: bool) {
    net.entry((place.path, place.depth, medium)).or_insert((before, after)).1 = after;
}

#[cfg(test)]
mod tests;
