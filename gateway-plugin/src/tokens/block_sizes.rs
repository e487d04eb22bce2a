//! How many tokens a block of a model has: said by a flag, learned from engines' events, and what it is when they disagree.
//!
//! Events win, because they are what engines do; a flag is for the time before them and for engines without. Workers of one
//! model that differ are named; the size that most of them have is used, because a request is looked up in one keyspace.
//!
//! Not here: who reads events (`ingest`), saying so in a log (`server`). Bounded by the models and by the workers told of.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwapOption;
use covey_crdt::change::FeedView;
use covey_crdt::id::{ModelName, WorkerId};
use covey_crdt::keyspace::{HashKeyId, Keyspace, Unit};
use covey_crdt::limits::WORKERS_MAX;

/// What a worker's events said that was new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learned {
    /// Nothing: it was known, or it is no block size, or nobody serves the model here.
    Nothing,
    /// The model's size from now on.
    Size {
        /// Tokens in a block.
        block_tokens: u32,
        /// What the flag says, when that is something else.
        flag: Option<u32>,
    },
    /// The worker's size is not the one that its model's other workers have: its blocks are not found.
    Differs {
        /// Tokens in its blocks.
        block_tokens: u32,
        /// Tokens in theirs.
        others: u32,
    },
}

/// What is known of a model's block size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockSize {
    /// By the flag.
    pub flag: Option<u32>,
    /// In use: by events, or else by the flag.
    pub used: Option<u32>,
    /// By each worker's events.
    pub workers: BTreeMap<WorkerId, u32>,
}

#[derive(Debug)]
struct Model {
    name: ModelName,
    workers: Mutex<BTreeMap<WorkerId, u32>>,
    keyspace: ArcSwapOption<Keyspace>,
}

/// The block sizes of all models that are served.
#[derive(Debug)]
pub struct BlockSizes {
    flag: Option<u32>,
    key_id: HashKeyId,
    models: Vec<Model>,
}

impl BlockSizes {
    /// Sizes of `models` as the flag says, until events do.
    #[must_use]
    pub fn new(models: &[ModelName], flag: Option<u32>, key_id: HashKeyId) -> Self {
        let of = |name: &ModelName| Model {
            name: name.clone(),
            workers: Mutex::default(),
            keyspace: ArcSwapOption::new(flag.and_then(|size| keyspace(name, size, key_id))),
        };
        Self { flag, key_id, models: models.iter().map(of).collect() }
    }

    /// A worker's feed went on: it names the size of its blocks. One that is over named it for an engine that is no more.
    pub fn fed(&self, worker: &WorkerId, feed: Option<&FeedView>) -> Learned {
        let Some(feed) = feed else {
            self.forget(worker);
            return Learned::Nothing;
        };
        let keyspace = feed.keyspace.as_ref().filter(|keyspace| keyspace.unit == Unit::Tokens);
        keyspace.map_or(Learned::Nothing, |keyspace| self.learned(&keyspace.model, worker, keyspace.block_units))
    }

    /// A worker's events say how large its blocks are. Cheap when that is known.
    pub fn learned(&self, model: &ModelName, worker: &WorkerId, block_tokens: u32) -> Learned {
        let Some(of) = self.model(model) else { return Learned::Nothing };
        let Some(its) = keyspace(model, block_tokens, self.key_id) else { return Learned::Nothing };
        let mut workers = of.workers.lock().unwrap_or_else(PoisonError::into_inner);
        if workers.len() >= WORKERS_MAX && !workers.contains_key(worker) {
            return Learned::Nothing;
        }
        if workers.insert(worker.clone(), block_tokens) == Some(block_tokens) {
            return Learned::Nothing;
        }
        let most = most_common(&workers);
        let used = of.keyspace.load().as_ref().map(|keyspace| keyspace.block_units);
        let is_first = workers.len() == 1;
        if used != Some(most) {
            of.keyspace.store(if most == block_tokens { Some(its) } else { keyspace(model, most, self.key_id) });
        }
        if most != block_tokens {
            return Learned::Differs { block_tokens, others: most };
        }
        if used == Some(most) && !is_first {
            return Learned::Nothing;
        }
        Learned::Size { block_tokens, flag: self.flag.filter(|flag| *flag != block_tokens) }
    }

    /// A worker is gone, or speaks of its cache no more: what its events said counts no longer.
    fn forget(&self, worker: &WorkerId) {
        for of in &self.models {
            let mut workers = of.workers.lock().unwrap_or_else(PoisonError::into_inner);
            if workers.remove(worker).is_some() && !workers.is_empty() {
                of.keyspace.store(keyspace(&of.name, most_common(&workers), self.key_id));
            }
        }
    }

    /// The token keyspace of a model; `None` while its block size is not known.
    #[must_use]
    pub fn keyspace(&self, model: &ModelName) -> Option<Arc<Keyspace>> {
        self.model(model)?.keyspace.load_full()
    }

    /// What is known of a model's block size.
    #[must_use]
    pub fn of(&self, model: &ModelName) -> BlockSize {
        let Some(of) = self.model(model) else { return BlockSize::default() };
        BlockSize {
            flag: self.flag,
            used: of.keyspace.load().as_ref().map(|keyspace| keyspace.block_units),
            workers: of.workers.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    fn model(&self, name: &ModelName) -> Option<&Model> {
        self.models.iter().find(|model| model.name == *name)
    }
}

fn keyspace(model: &ModelName, block_tokens: u32, key_id: HashKeyId) -> Option<Arc<Keyspace>> {
    Keyspace::new(model.clone(), Unit::Tokens, block_tokens, key_id).map(Arc::new)
}

/// The size that most workers have, the smallest of several such.
fn most_common(workers: &BTreeMap<WorkerId, u32>) -> u32 {
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for size in workers.values() {
        *counts.entry(*size).or_default() += 1;
    }
    let most = counts.iter().rev().max_by_key(|(_, count)| **count);
    most.map_or(0, |(size, _)| *size)
}

#[cfg(test)]
mod tests {
    use covey_crdt::digest::Digest;
    use covey_crdt::id::{Incarnation, Token};
    use covey_crdt::stored::{Generation, StoredKey};

    use super::*;

    fn sizes(flag: Option<u32>) -> (BlockSizes, ModelName, impl Fn(u32) -> WorkerId) {
        let model = ModelName::new("m").expect("a name");
        let sizes = BlockSizes::new(std::slice::from_ref(&model), flag, HashKeyId(0));
        (sizes, model, |no| WorkerId::new(&format!("w{no}"), 0).expect("a name"))
    }

    fn used(sizes: &BlockSizes, model: &ModelName) -> Option<u32> {
        sizes.keyspace(model).map(|keyspace| keyspace.block_units)
    }

    #[test]
    fn events_win_over_the_flag_and_say_so_once() {
        let (sizes, model, worker) = sizes(Some(16));
        assert_eq!(used(&sizes, &model), Some(16));
        let learned = sizes.learned(&model, &worker(0), 32);
        assert_eq!(learned, Learned::Size { block_tokens: 32, flag: Some(16) });
        assert_eq!(used(&sizes, &model), Some(32));
        assert_eq!(sizes.learned(&model, &worker(0), 32), Learned::Nothing);
        assert_eq!(sizes.learned(&model, &worker(1), 32), Learned::Nothing);
        assert_eq!(sizes.learned(&model, &worker(2), 0), Learned::Nothing);
        let other = ModelName::new("other").expect("a name");
        assert_eq!((sizes.learned(&other, &worker(0), 32), sizes.keyspace(&other)), (Learned::Nothing, None));
    }

    #[test]
    fn a_worker_that_differs_is_named_and_the_most_decide() {
        let (sizes, model, worker) = sizes(None);
        assert_eq!(used(&sizes, &model), None);
        assert_eq!(sizes.learned(&model, &worker(0), 32), Learned::Size { block_tokens: 32, flag: None });
        assert_eq!(sizes.learned(&model, &worker(1), 32), Learned::Nothing);
        assert_eq!(sizes.learned(&model, &worker(2), 64), Learned::Differs { block_tokens: 64, others: 32 });
        assert_eq!(sizes.learned(&model, &worker(3), 64), Learned::Differs { block_tokens: 64, others: 32 });
        assert_eq!(sizes.learned(&model, &worker(4), 64), Learned::Size { block_tokens: 64, flag: None });
        assert_eq!((used(&sizes, &model), sizes.of(&model).workers.len()), (Some(64), 5));
        sizes.forget(&worker(4));
        assert_eq!(used(&sizes, &model), Some(32));
    }

    #[test]
    fn every_gateway_learns_from_the_replicated_feed_and_an_engine_that_is_gone_counts_no_more() {
        let (sizes, model, worker) = sizes(None);
        let feed = |block_tokens| FeedView {
            key: StoredKey {
                incarnation: Incarnation { counter: 1, token: Token::new("boot").expect("a token") },
                generation: Generation::default(),
                position: 3,
                part: 0,
            },
            is_last: true,
            is_complete: true,
            blocks: 1,
            contents: Digest::default(),
            keyspace: keyspace(&model, block_tokens, HashKeyId(0)),
        };
        assert!(matches!(sizes.fed(&worker(1), Some(&feed(16))), Learned::Size { block_tokens: 16, .. }));
        assert_eq!(sizes.fed(&worker(1), Some(&feed(16))), Learned::Nothing);
        assert!(matches!(sizes.fed(&worker(2), Some(&feed(32))), Learned::Differs { block_tokens: 32, others: 16 }));
        let empty = FeedView { keyspace: None, blocks: 0, ..feed(16) };
        assert_eq!(sizes.fed(&worker(1), Some(&empty)), Learned::Nothing, "an empty cache is no other engine");
        assert_eq!(used(&sizes, &model), Some(16));
        assert_eq!(sizes.fed(&worker(1), None), Learned::Nothing);
        assert_eq!((used(&sizes, &model), sizes.of(&model).workers.len()), (Some(32), 1));
    }
}
