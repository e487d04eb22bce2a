//! What an engine's events say it holds. Engines report physical copies: two requests that computed one block store it
//! twice, and removing one copy leaves the other, so copies are counted per lane and engine hash. What the mesh wants to
//! know is net: which blocks, named by this gateway's own chain hashes, came to a lane or left it altogether.
//!
//! A block's name follows from its parent's. A child whose parent is unknown (never announced, or announced later) is kept
//! by its engine hash alone, and gets its name when the parent does. Nothing is dropped for being early.
//!
//! Everything here is a function of the events before: two gateways that were told the same say the same (P3), though the
//! tables are hashed, because nothing is said in a table's order.
//!
//! Not here: reading events (`decode`), the order of batches (`intake`). Bounded: an engine that announces more blocks than
//! [`BLOCKS_MAX`] is not believed any further.

mod copies;
mod export;
mod names;
mod net;
mod orphans;
mod reuse;
mod table;

use std::sync::Arc;

use covey_crdt::hash::{BlockHash, BlockHasher, HashKey};
use covey_crdt::id::ModelName;
use covey_crdt::keyspace::{Keyspace, Unit};
use covey_crdt::lane::{LaneId, Tier};
use covey_crdt::limits::{KEYSPACES_PER_WORKER_MAX, STORED_BLOCKS_MAX};

use super::event::{Event, Medium, Removed, Stored};
use super::naming::{self, Scope};
use copies::{Copies, Kind};
pub use export::EXPORT_VERSION;
pub use net::{LaneNet, split};
use orphans::Orphans;
use table::Table;

/// Blocks of one engine at most, copies not counted.
pub const BLOCKS_MAX: usize = STORED_BLOCKS_MAX;

/// Which removals an engine reports, where it holds several copies of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CopyReports {
    /// That of each copy, as vLLM and SGLang do.
    #[default]
    Each,
    /// That of the last copy alone: however often a block was stored, one removal ends it (vllm#55092).
    Last,
}

/// What is known of an engine's reports beforehand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheRules {
    /// Tokens in a block; `None`: as the first store of a full-attention group says.
    pub block_tokens: Option<u32>,
    /// Which removals are reported.
    pub copies: CopyReports,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events applied.
    pub applied: u64,
    /// Stores of groups whose blocks do not all count, or of other block sizes than the keyspace's.
    pub other_group: u64,
    /// Stores that name fewer blocks than their tokens make: which ones cannot be told.
    pub sparse: u64,
    /// Stored blocks without all their tokens: they cannot be hit by a prefix that is named in whole blocks.
    pub partial: u64,
    /// Stores that said again, from the root, what was held already: a second copy or a mere report of a reuse.
    pub repeats: u64,
    /// Removals of blocks that were never announced.
    pub unknown_removed: u64,
    /// Blocks that were not believed because there are too many.
    pub over_bound: u64,
}

/// One block the engine named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Known {
    /// Its name, once its parent's is known.
    block: Option<BlockHash>,
    /// The engine's name of the block before it; `None` at the start of a prompt, and where it was not said.
    parent: Option<u64>,
    copies: Copies,
}

/// The keyspace, once the block size is known.
#[derive(Clone, Debug)]
struct Space {
    keyspace: Arc<Keyspace>,
    root: BlockHasher,
}

/// An engine's cache, by its events.
#[derive(Clone, Debug)]
pub struct EngineCache {
    model: ModelName,
    key: HashKey,
    rules: CacheRules,
    space: Option<Space>,
    /// The device lane of the first full-attention group that stored something: the one a prompt is looked up in.
    attended: Option<LaneId>,
    blocks: Table<u64, Known>,
    orphans: Orphans,
    /// Named blocks held, by lane: how many engine hashes with a copy there have that name.
    held: Table<(LaneId, BlockHash), u32>,
    /// How many entries of `held` are each lane's.
    lanes: Vec<(LaneId, usize)>,
    /// What `held` was before the batch, of each change.
    moved: Vec<(LaneId, BlockHash, bool)>,
    /// The lane and last hash of a repeat from the root, until the lane's next store in the same batch.
    repeated: Option<(LaneId, u64)>,
    /// The engine was seen to report reuses: repeats from the root are no copies.
    reports_reuse: bool,
    /// How often that looked so, and how often a doubtful copy was removed, so was one.
    reuse_signs: u32,
    copy_signs: u32,
    /// Nothing that the engine said since it started, or since a clear, is missing here.
    is_whole: bool,
    counts: Counts,
}

impl EngineCache {
    /// The cache of an engine that has just started: empty.
    #[must_use]
    pub fn new(model: ModelName, key: HashKey, rules: CacheRules) -> Self {
        let mut cache = Self {
            model,
            key,
            rules,
            space: None,
            attended: None,
            blocks: Table::default(),
            orphans: Orphans::default(),
            held: Table::default(),
            lanes: Vec::new(),
            moved: Vec::new(),
            repeated: None,
            reports_reuse: false,
            reuse_signs: 0,
            copy_signs: 0,
            is_whole: true,
            counts: Counts::default(),
        };
        if let Some(tokens) = rules.block_tokens {
            cache.learn(tokens);
        }
        cache
    }

    fn learn(&mut self, block_tokens: u32) {
        let Some(keyspace) = Keyspace::new(self.model.clone(), Unit::Tokens, block_tokens, self.key.id()) else {
            return;
        };
        let root = naming::chain_of(&keyspace, &self.key, None);
        self.space = Some(Space { keyspace: Arc::new(keyspace), root });
    }

    /// What was counted so far.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// The keyspace of the blocks; `None` until the engine has told a block size.
    #[must_use]
    pub fn keyspace(&self) -> Option<&Arc<Keyspace>> {
        self.space.as_ref().map(|space| &space.keyspace)
    }

    /// Tokens in a block; `None` until the engine has told.
    #[must_use]
    pub fn block_tokens(&self) -> Option<u32> {
        self.keyspace().map(|keyspace| keyspace.block_units)
    }

    /// Whether nothing that the engine said since it started, or since it cleared its cache, is missing here.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Something the engine said is missing: what is known from now on is not all, until the engine clears its cache.
    pub fn miss(&mut self) {
        self.is_whole = false;
    }

    /// Blocks held in `lane`.
    #[must_use]
    pub fn blocks(&self, lane: LaneId) -> usize {
        self.lanes.iter().find(|(of, _)| *of == lane).map_or(0, |(_, blocks)| *blocks)
    }

    /// Blocks that wait for a name.
    #[must_use]
    pub fn orphans(&self) -> usize {
        self.orphans.len()
    }

    /// Applies the events of one batch, in order, and returns what came and went on balance, lane by lane.
    pub fn apply(&mut self, events: &[Event]) -> Vec<LaneNet> {
        self.repeated = None;
        for event in events {
            match event {
                Event::Stored(stored) => self.store(stored),
                Event::Removed(removed) => self.remove(removed),
                Event::Cleared => self.clear(),
                Event::Unknown => {}
            }
        }
        self.net()
    }

    /// What changed since the last call, and remained changed.
    fn net(&mut self) -> Vec<LaneNet> {
        let mut moved = std::mem::take(&mut self.moved);
        // The first entry of a block is what it was before.
        moved.sort_by_key(|(lane, block, _)| (*lane, *block));
        moved.dedup_by_key(|(lane, block, _)| (*lane, *block));
        let mut nets: Vec<LaneNet> = Vec::new();
        for (lane, block, was_held) in &moved {
            let is_held = self.held.contains_key(&(*lane, *block));
            if is_held == *was_held {
                continue;
            }
            if nets.last().is_none_or(|net| net.lane != *lane) {
                nets.push(LaneNet { lane: *lane, added: Vec::new(), removed: Vec::new() });
            }
            let net = nets.last_mut().expect("one was pushed");
            if is_held { net.added.push(*block) } else { net.removed.push(*block) }
        }
        moved.clear();
        self.moved = moved;
        nets
    }

    /// All that is held, lane by lane, as added.
    #[must_use]
    pub fn contents(&self) -> Vec<LaneNet> {
        let mut all: Vec<(LaneId, BlockHash)> = self.held.keys().copied().collect();
        all.sort_unstable();
        let lanes = all.chunk_by(|one, other| one.0 == other.0);
        let net = |of: &[(LaneId, BlockHash)]| LaneNet {
            lane: of[0].0,
            added: of.iter().map(|(_, block)| *block).collect(),
            removed: Vec::new(),
        };
        lanes.map(net).collect()
    }

    /// How many whole blocks of a prompt, from its start, the device holds in the group that attention reads.
    #[must_use]
    pub fn prefix(&self, chain: &[BlockHash]) -> u32 {
        let Some(lane) = self.attended else { return 0 };
        chain.iter().take_while(|block| self.held.contains_key(&(lane, **block))).count() as u32
    }

    /// The chain of a prompt of token ids; empty until the block size is known. `lora` is what every block depends on
    /// besides (an adapter), `salt` what the first one does.
    #[must_use]
    pub fn chain(&self, tokens: &[u32], lora: Option<&str>, salt: Option<&str>) -> Vec<BlockHash> {
        let Some(space) = &self.space else { return Vec::new() };
        let mut hasher = Scope { adapter: lora, salt }.begin(&space.keyspace, &self.key);
        let mut chain = Vec::with_capacity(tokens.len() / space.keyspace.block_units as usize);
        hasher.tokens(tokens, &mut chain);
        chain
    }

    fn start(&self, space: &Space, lora: Option<&str>) -> BlockHasher {
        match lora {
            None => space.root.clone(),
            Some(lora) => naming::chain_of(&space.keyspace, &self.key, Some(lora)),
        }
    }

    fn store(&mut self, stored: &Stored) {
        self.counts.applied += 1;
        let lane = lane(stored.group, stored.medium);
        let (Some(lane), true) = (lane, stored.is_full) else {
            self.counts.other_group += 1;
            return;
        };
        if self.space.is_none() {
            self.learn(stored.block_tokens);
        }
        if self.block_tokens() != Some(stored.block_tokens) {
            self.counts.other_group += 1;
            return;
        }
        self.attended = self.attended.or_else(|| LaneId::of(lane.group(), Tier::Device));
        let kind = self.kind_of(stored, lane);
        let size = stored.block_tokens as usize;
        let whole = stored.tokens.len() / size;
        // Of a sparse store, which blocks were left out is not said; those named keep their copies by the engine's hash.
        let is_dense = stored.hashes.len() >= whole && !stored.hashes.is_empty();
        self.counts.sparse += u64::from(!is_dense && !stored.hashes.is_empty());
        if let (true, Some(parent)) = (is_dense && stored.medium == Medium::Device, stored.parent) {
            self.revive(parent, lane);
        }
        let mut parent = stored.parent;
        for (nth, hash) in stored.hashes.iter().enumerate() {
            let tokens = stored.tokens.get(nth * size..(nth + 1) * size).filter(|_| is_dense);
            self.counts.partial += u64::from(is_dense && tokens.is_none());
            if self.copy(*hash, lane, kind)
                && let Some(tokens) = tokens
            {
                let extra = stored.extra.get(nth).copied().flatten();
                self.name(*hash, parent, tokens, extra, stored.lora.as_deref());
            }
            parent = Some(*hash);
        }
    }

    /// One more copy of a block in a lane. Whether the block has no name yet.
    fn copy(&mut self, hash: u64, lane: LaneId, kind: Kind) -> bool {
        if self.blocks.len() >= BLOCKS_MAX && !self.blocks.contains_key(&hash) && !self.drop_names() {
            self.counts.over_bound += 1;
            self.is_whole = false;
            return false;
        }
        let known = self.blocks.entry(hash).or_default();
        let is_first = known.copies.add(lane, kind, self.rules.copies);
        let block = known.block;
        if is_first {
            self.hold(block, lane);
        }
        block.is_none()
    }

    fn hold(&mut self, block: Option<BlockHash>, lane: LaneId) {
        let Some(block) = block else { return };
        if let Some(holders) = self.held.get_mut(&(lane, block)) {
            *holders += 1;
            return;
        }
        let nth = self.lanes.iter().position(|(of, _)| *of == lane);
        if self.held.len() >= STORED_BLOCKS_MAX || (nth.is_none() && self.lanes.len() >= KEYSPACES_PER_WORKER_MAX) {
            self.counts.over_bound += 1;
            self.is_whole = false;
            return;
        }
        match nth {
            Some(nth) => self.lanes[nth].1 += 1,
            None => self.lanes.push((lane, 1)),
        }
        self.held.insert((lane, block), 1);
        self.moved.push((lane, block, false));
    }

    fn let_go(&mut self, block: Option<BlockHash>, lane: LaneId) {
        let Some(block) = block else { return };
        let Some(holders) = self.held.get_mut(&(lane, block)) else { return };
        *holders -= 1;
        if *holders > 0 {
            return;
        }
        self.held.remove(&(lane, block));
        self.moved.push((lane, block, true));
        if let Some(nth) = self.lanes.iter().position(|(of, _)| *of == lane) {
            self.lanes[nth].1 -= 1;
            if self.lanes[nth].1 == 0 {
                self.lanes.swap_remove(nth);
            }
        }
    }

    fn remove(&mut self, removed: &Removed) {
        self.counts.applied += 1;
        let lane = lane(removed.group, removed.medium);
        for hash in &removed.hashes {
            let known = lane.and_then(|lane| Some((lane, self.blocks.get_mut(hash)?)));
            let Some((lane, known)) = known else {
                self.counts.unknown_removed += 1;
                continue;
            };
            let block = known.block;
            self.copy_signs = self.copy_signs.saturating_add(u32::from(known.copies.is_doubtful(lane)));
            let Some(is_last) = known.copies.remove(lane, self.rules.copies) else {
                self.counts.unknown_removed += 1;
                if known.copies.is_empty() {
                    self.forget(*hash);
                }
                continue;
            };
            if known.copies.is_empty() {
                self.forget(*hash);
            }
            if is_last {
                self.let_go(block, lane);
            }
        }
    }

    /// No copy is left. Its children keep their names: where they stand does not change.
    fn forget(&mut self, hash: u64) {
        self.blocks.remove(&hash);
        self.orphans.remove(hash);
    }

    fn clear(&mut self) {
        self.counts.applied += 1;
        self.empty();
        self.blocks.clear();
        self.orphans.clear();
        self.is_whole = true;
    }

    fn empty(&mut self) {
        self.moved.extend(self.held.drain().map(|((lane, block), _)| (lane, block, true)));
        self.lanes.clear();
    }
}

/// The lane of a group on a medium; `None` when the group's number is beyond all bounds.
fn lane(group: u32, medium: Medium) -> Option<LaneId> {
    LaneId::of(u8::try_from(group).ok()?, medium.tier())
}

#[cfg(test)]
mod tests;
