//! Engines' caches for ring 1: what an engine holds after each of its batches, and the events that say so. Copies are
//! reported as engines report them: twice stored, once removed, and a block is still held.
//!
//! Small and restless on purpose. Not here: time, subscriptions (`world::streams`); the engine that serves requests
//! (`engine`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use covey_crdt::hash::{BlockHash, BlockHasher, HashKey};
use covey_crdt::id::ModelName;
use covey_crdt::keyspace::{HashKeyId, Keyspace, Unit};
use covey_gateway_plugin::ingest::{Event, Medium, Removed, Stored};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::plan::Stream;

/// Tokens in a block.
const BLOCK_TOKENS: u32 = 4;
/// Conversations an engine serves, and blocks each may reach.
const SESSIONS: u64 = 6;
const DEPTH_MAX: u64 = 12;

/// The keyspace of the events.
#[must_use]
pub fn keyspace() -> Arc<Keyspace> {
    let model = ModelName::new("large").expect("a good name");
    Arc::new(Keyspace::new(model, Unit::Tokens, BLOCK_TOKENS, HashKeyId(0)).expect("a good block size"))
}

/// The tokens of a conversation's block. Conversations branch off one another.
fn block_tokens(session: u64, at: u64) -> [u32; BLOCK_TOKENS as usize] {
    let branch = session % 4 + 1;
    let of = if session > 0 && at < branch { session / 2 } else { session };
    if of != session {
        return block_tokens(of, at);
    }
    [of as u32, at as u32, 7, 9]
}

/// A conversation's chain, under this mesh's own names.
#[must_use]
pub fn chain(session: u64, depth: u64) -> Vec<BlockHash> {
    let mut hasher = BlockHasher::new(&keyspace(), &HashKey::ZERO, b"");
    let mut chain = Vec::new();
    (0..depth).for_each(|at| hasher.tokens(&block_tokens(session, at), &mut chain));
    chain
}

/// A chain that some engine may hold.
#[must_use]
pub fn any_chain(draw: &mut Stream) -> Vec<BlockHash> {
    chain(draw.below(SESSIONS), draw.between(1, DEPTH_MAX))
}

/// One life of an engine.
#[derive(Clone, Debug)]
pub struct Cache {
    /// The number of its token.
    pub token: u64,
    /// Which of all lives it is: its hashes are its own.
    life: u64,
    copies_max: usize,
    /// Copies by hash, least recent first.
    copies: VecDeque<u64>,
    /// What each hash stands for.
    names: BTreeMap<u64, BlockHash>,
    /// The last batches, for replays.
    kept: VecDeque<(u64, Arc<Vec<Event>>)>,
    kept_max: usize,
    /// What was held before the first batch, and after each.
    states: Vec<Arc<BTreeSet<BlockHash>>>,
}

impl Cache {
    /// An empty cache.
    #[must_use]
    pub fn new(token: u64, life: u64, copies_max: usize, kept_max: usize) -> Self {
        let states = vec![Arc::default()];
        let (copies, names, kept) = (VecDeque::new(), BTreeMap::new(), VecDeque::new());
        Self { token, life, copies_max, copies, names, kept, kept_max, states }
    }

    /// The number of the next batch.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.states.len() as u64 - 1
    }

    /// What was held when `position` batches were out.
    #[must_use]
    pub fn at(&self, position: u64) -> Option<&Arc<BTreeSet<BlockHash>>> {
        self.states.get(usize::try_from(position).ok()?)
    }

    /// The batches from `from` on that are still kept.
    pub fn replay(&self, from: u64) -> impl Iterator<Item = &(u64, Arc<Vec<Event>>)> {
        self.kept.iter().filter(move |(seq, _)| *seq >= from)
    }

    /// One step: something is stored, something goes. The batch's number and events.
    pub fn step(&mut self, draw: &mut Stream) -> (u64, Arc<Vec<Event>>) {
        let mut events = Vec::new();
        if draw.chance(0.02) {
            self.copies.clear();
            events.push(Event::Cleared);
        }
        for _ in 0..draw.between(1, 2) {
            self.store(draw, &mut events);
        }
        let gone: Vec<u64> =
            (self.copies_max..self.copies.len().max(self.copies_max)).filter_map(|_| self.copies.pop_front()).collect();
        if !gone.is_empty() {
            events.push(Event::Removed(Removed { hashes: gone, medium: Medium::Device, group: 0 }));
        }
        let held = self.copies.iter().map(|hash| self.names[hash]).collect();
        let seq = self.position();
        self.states.push(Arc::new(held));
        let events = Arc::new(events);
        self.kept.push_back((seq, Arc::clone(&events)));
        if self.kept.len() > self.kept_max {
            self.kept.pop_front();
        }
        (seq, events)
    }

    /// A conversation's turn: what is held of its prefix is used again, what follows is computed; now and then somebody
    /// computes all of it a second time.
    fn store(&mut self, draw: &mut Stream, events: &mut Vec<Event>) {
        let (session, depth) = (draw.below(SESSIONS), draw.between(1, DEPTH_MAX));
        let names = chain(session, depth);
        let hashes: Vec<u64> = names.iter().map(|name| xxh3_64_with_seed(&name.0.to_le_bytes(), self.life)).collect();
        let held = hashes.iter().take_while(|hash| self.copies.contains(hash)).count();
        let from = if draw.chance(0.1) { draw.index(held + 1) } else { held };
        for hash in &hashes[..from] {
            if let Some(at) = self.copies.iter().position(|copy| copy == hash) {
                self.copies.remove(at);
                self.copies.push_back(*hash);
            }
        }
        if from == hashes.len() {
            return;
        }
        let tokens = (from as u64..depth).flat_map(|at| block_tokens(session, at)).collect();
        self.names.extend(hashes.iter().copied().zip(names));
        self.copies.extend(&hashes[from..]);
        events.push(Event::Stored(Box::new(Stored {
            hashes: hashes[from..].to_vec(),
            parent: from.checked_sub(1).map(|before| hashes[before]),
            tokens,
            block_tokens: BLOCK_TOKENS,
            is_full: true,
            ..Stored::default()
        })));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversations_share_prefixes_and_then_part() {
        assert_eq!(chain(0, 3)[..1], chain(1, 3)[..1]);
        assert_ne!(chain(0, 3)[2], chain(1, 3)[2]);
    }

    #[test]
    fn a_block_is_held_as_long_as_one_copy_is() {
        let mut draw = Stream::new(3, "caches");
        let mut cache = Cache::new(0, 1, 20, 5);
        let mut doubles = 0;
        for _ in 0..300 {
            let (seq, _) = cache.step(&mut draw);
            assert_eq!(cache.position(), seq + 1);
            let held: BTreeSet<BlockHash> = cache.copies.iter().map(|hash| cache.names[hash]).collect();
            assert_eq!(Some(&held), cache.at(seq + 1).map(|held| &**held));
            doubles += cache.copies.len() - held.len();
        }
        assert!(doubles > 50, "copies are common");
        assert_eq!(cache.replay(0).map(|(seq, _)| *seq).collect::<Vec<_>>(), [295, 296, 297, 298, 299]);
    }
}
