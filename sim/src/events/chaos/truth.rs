//! What an engine holds, under the gateways' names: from its own word (`GET /covey/truth`), and kept in step with its events by
//! counting copies, which is all that the engine model's events need.
//!
//! Not here: who asks and who listens (`witness`). Apart from `gateway_plugin::ingest` on purpose, of which only the reading of
//! bytes is used: what is to be judged is not judged by itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use covey_crdt::digest::Digest;
use covey_crdt::hash::{BlockHash, BlockHasher, HashKey};
use covey_crdt::id::{Incarnation, ModelName, WorkerId};
use covey_crdt::keyspace::{Keyspace, Unit};
use covey_crdt::lane::LaneId;
use covey_crdt::stored::{FeedState, Generation, StoredKey, StoredLane, StoredOp};
use covey_gateway_plugin::ingest::{Event, Stored};
use serde::Deserialize;

/// How gateways name blocks of token ids.
#[derive(Clone, Debug)]
pub(super) struct Naming {
    keyspace: Arc<Keyspace>,
    root: BlockHasher,
}

impl Naming {
    /// Under a mesh's hash key.
    pub(super) fn new(model: &str, block_tokens: u32, key: &HashKey) -> Self {
        let model = ModelName::new(model).expect("a name");
        let keyspace = Keyspace::new(model, Unit::Tokens, block_tokens, key.id()).expect("a block size");
        let root = BlockHasher::new(&keyspace, key, b"");
        Self { keyspace: Arc::new(keyspace), root }
    }

    fn after(&self, before: Option<BlockHash>, tokens: &[u32]) -> Vec<BlockHash> {
        let mut hasher = before.map_or_else(|| self.root.clone(), |before| self.root.resume(before));
        let mut chain = Vec::new();
        hasher.tokens(tokens, &mut chain);
        chain
    }

    /// The names of a prompt's whole blocks.
    pub(super) fn chain(&self, tokens: &[u32]) -> Vec<BlockHash> {
        self.after(None, tokens)
    }
}

/// The body of `GET /covey/truth`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Told {
    /// Batches made: the number of the next one.
    pub(super) position: u64,
    /// Names the life.
    pub(super) token: String,
    blocks: Vec<ToldBlock>,
}

#[derive(Clone, Debug, Deserialize)]
struct ToldBlock {
    hash: u64,
    parent: Option<u64>,
    tokens: Vec<u32>,
    copies: u32,
}

/// A cache at a position.
#[derive(Clone, Debug)]
pub(super) struct Held {
    naming: Arc<Naming>,
    /// Name and copies by the engine's own name. What has no copy keeps its name.
    known: BTreeMap<u64, (BlockHash, u32)>,
    state: FeedState,
}

impl Held {
    /// As the engine said.
    ///
    /// # Errors
    /// When a block's parent is not there, so that it has no name.
    pub(super) fn of(told: &Told, naming: &Arc<Naming>) -> Result<Self, String> {
        let blocks: BTreeMap<u64, &ToldBlock> = told.blocks.iter().map(|block| (block.hash, block)).collect();
        let mut known: BTreeMap<u64, (BlockHash, u32)> = BTreeMap::new();
        for block in &told.blocks {
            let (mut path, mut next) = (Vec::new(), Some(block));
            while let Some(block) = next.filter(|block| !known.contains_key(&block.hash)) {
                path.push(block);
                next = block.parent.and_then(|parent| blocks.get(&parent).copied());
            }
            for block in path.into_iter().rev() {
                let before = match block.parent {
                    Some(parent) => Some(known.get(&parent).ok_or("the truth has a block without its parent")?.0),
                    None => None,
                };
                let name = naming.after(before, &block.tokens);
                known.insert(block.hash, (*name.first().ok_or("the truth has a block of few tokens")?, block.copies));
            }
        }
        let added = known.values().map(|(name, _)| *name).collect();
        let lane = lane_of(naming, added, Vec::new());
        let state = FeedState::new(key_of(told.position), true, true, vec![lane]).ok_or("the truth is too large")?;
        Ok(Self { naming: Arc::clone(naming), known, state })
    }

    /// The number of the next batch.
    pub(super) const fn position(&self) -> u64 {
        self.state.key.position
    }

    /// Over the blocks, as gateways show it.
    pub(super) fn contents(&self) -> Digest {
        self.state.contents()
    }

    /// The blocks, in no order.
    pub(super) fn blocks(&self) -> Vec<BlockHash> {
        self.state.lanes().values().flat_map(|set| set.blocks().iter().copied()).collect()
    }

    /// Applies the next batch; gives what came and what went.
    ///
    /// # Errors
    /// When the events cannot follow on what is held.
    pub(super) fn apply(&mut self, events: &[Event]) -> Result<(Vec<BlockHash>, Vec<BlockHash>), String> {
        let mut before: BTreeMap<u64, bool> = BTreeMap::new();
        for event in events {
            match event {
                Event::Stored(stored) => self.store(stored, &mut before)?,
                Event::Removed(removed) => {
                    for hash in &removed.hashes {
                        let known = self.known.get_mut(hash).filter(|(_, copies)| *copies > 0);
                        let (_, copies) = known.ok_or("the engine removed a block that it does not hold")?;
                        before.entry(*hash).or_insert(true);
                        *copies -= 1;
                    }
                }
                Event::Cleared => {
                    for (hash, (_, copies)) in &mut self.known {
                        before.entry(*hash).or_insert(*copies > 0);
                        *copies = 0;
                    }
                }
                Event::Unknown => return Err("the engine said something unknown".to_owned()),
            }
        }
        let (mut added, mut removed) = (Vec::new(), Vec::new());
        for (hash, was_held) in before {
            let (name, copies) = self.known[&hash];
            match (was_held, copies > 0) {
                (false, true) => added.push(name),
                (true, false) => removed.push(name),
                (true, true) | (false, false) => {}
            }
        }
        let op = StoredOp {
            worker: WorkerId::new("any", 0).expect("a name"),
            key: key_of(self.position() + 1),
            begins: false,
            is_last: true,
            is_complete: true,
            lanes: vec![lane_of(&self.naming, added.clone(), removed.clone())],
        };
        self.state.apply(&op).map_err(|_| "a batch is missing")?;
        Ok((added, removed))
    }

    fn store(&mut self, stored: &Stored, before: &mut BTreeMap<u64, bool>) -> Result<(), String> {
        let parent = match stored.parent {
            Some(parent) => Some(self.known.get(&parent).ok_or("a block was stored behind an unknown one")?.0),
            None => None,
        };
        let names = self.naming.after(parent, &stored.tokens);
        for (hash, name) in stored.hashes.iter().zip(names) {
            let (_, copies) = self.known.entry(*hash).or_insert((name, 0));
            before.entry(*hash).or_insert(*copies > 0);
            *copies += 1;
        }
        Ok(())
    }
}

fn key_of(position: u64) -> StoredKey {
    StoredKey { incarnation: Incarnation::unknown(), generation: Generation::default(), position, part: 0 }
}

fn lane_of(naming: &Naming, added: Vec<BlockHash>, removed: Vec<BlockHash>) -> StoredLane {
    StoredLane { keyspace: Arc::clone(&naming.keyspace), lane: LaneId::PLAIN, added, removed }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Engine, EngineConfig, Job, RequestId};
    use crate::worker::payload;
    use covey_gateway_plugin::ingest::decode;
    use covey_mesh::input::MonoTime;

    fn told(engine: &mut Engine) -> Told {
        engine.want_truth();
        let truth = engine.poll_truth().expect("the engine is idle");
        let block = |block: &crate::engine::KvBlock| ToldBlock {
            hash: block.hash,
            parent: block.parent,
            tokens: block.content.tokens.to_vec(),
            copies: block.copies,
        };
        let blocks = truth.blocks.iter().map(block).collect();
        Told { position: truth.position, token: "1".to_owned(), blocks }
    }

    #[test]
    fn following_events_comes_to_what_the_engine_says_under_eviction() {
        let config = EngineConfig { cache_tokens: 1_024, prefill_tokens_per_s: 100_000, ..EngineConfig::default() };
        let mut engine = Engine::new(config);
        let naming = Arc::new(Naming::new("demo", 16, &HashKey::ZERO));
        let mut held = Held::of(&told(&mut engine), &naming).expect("an empty cache");
        for nth in 0..60_u32 {
            let prompt: Vec<u32> = (0..300).map(|at| if at < 100 { at } else { nth % 7 * 1_000 + at }).collect();
            let at = |ms: u64| MonoTime::from_ms(u64::from(nth) * 10_000 + ms);
            let job = Job::new("", &prompt, &[nth; 20]);
            engine.submit(at(0), RequestId(u64::from(nth)), job).expect("it fits");
            (0..1_000).for_each(|step| engine.step(at(step * 10)));
            while let Some(batch) = engine.poll_kv() {
                let decoded = decode(&payload::vllm(16, &batch.events));
                held.apply(&decoded.events).expect("it follows");
            }
            while engine.poll_event().is_some() {}
            let truth = Held::of(&told(&mut engine), &naming).expect("whole");
            assert_eq!((held.position(), held.contents()), (truth.position(), truth.contents()), "after {nth}");
            assert!(!held.blocks().is_empty() && held.blocks().len() <= 64);
        }
    }
}
