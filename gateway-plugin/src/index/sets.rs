//! Stored coverage as readers need it: who holds a block, by its hash. A block hash names its whole prefix, so a lookup goes
//! along the prompt's hashes from the root and narrows down who holds every block so far.
//!
//! One probe a block; a set of holders that does not change from block to block is not copied. Not here: placed coverage
//! (`runs`), putting the two together (`model`).

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};

use covey_crdt::hash::BlockHash;

use crate::bits::Bits;

/// Block hashes are hashes already.
#[derive(Clone, Copy, Debug, Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = word;
    }
}

/// Who holds one block. Most blocks are held by one worker.
#[derive(Clone, Debug)]
enum Owners {
    One(u32),
    Many(Box<Bits>),
}

/// The blocks of one keyspace and lane, and who holds them.
#[derive(Clone, Debug, Default)]
pub(super) struct Sets {
    /// Workers with a holder here.
    pub(super) workers: Bits,
    blocks: HashMap<u64, Owners, BuildHasherDefault<AsItIs>>,
}

impl Sets {
    /// The worker holds these blocks from now on.
    pub(super) fn add(&mut self, worker: u32, blocks: &[BlockHash]) {
        for block in blocks {
            match self.blocks.entry(block.0) {
                Entry::Vacant(vacant) => {
                    vacant.insert(Owners::One(worker));
                }
                Entry::Occupied(mut occupied) => match occupied.get_mut() {
                    Owners::One(one) if *one == worker => {}
                    Owners::One(one) => {
                        let both = [*one, worker].into_iter().collect();
                        occupied.insert(Owners::Many(Box::new(both)));
                    }
                    Owners::Many(many) => many.insert(worker),
                },
            }
        }
    }

    /// It does not hold these any more.
    pub(super) fn remove(&mut self, worker: u32, blocks: &[BlockHash]) {
        for block in blocks {
            let Entry::Occupied(mut occupied) = self.blocks.entry(block.0) else { continue };
            match occupied.get_mut() {
                Owners::One(one) if *one == worker => {
                    occupied.remove();
                }
                Owners::One(_) => {}
                Owners::Many(many) => {
                    many.remove(worker);
                    let (left, last) = (many.len(), many.iter().next());
                    if let (1, Some(last)) = (left, last) {
                        occupied.insert(Owners::One(last));
                    }
                }
            }
        }
    }

    /// Blocks held by anybody.
    pub(super) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Who of `alive` holds the block.
    fn narrow(&self, block: BlockHash, alive: &mut Bits) {
        match self.blocks.get(&block.0) {
            None => *alive = Bits::default(),
            Some(Owners::One(one)) => {
                let stays = alive.contains(*one);
                *alive = Bits::default();
                if stays {
                    alive.insert(*one);
                }
            }
            Some(Owners::Many(many)) => alive.keep(many),
        }
    }

    /// Whether everybody in `alive` holds the block.
    fn is_held_by_all(&self, block: BlockHash, alive: &Bits, only: Option<u32>) -> bool {
        match (self.blocks.get(&block.0), only) {
            (None, _) => false,
            (Some(Owners::One(one)), Some(only)) => *one == only,
            (Some(Owners::One(_)), None) => false,
            (Some(Owners::Many(many)), Some(only)) => many.contains(only),
            (Some(Owners::Many(many)), None) => alive.is_within(many),
        }
    }
}

/// How many blocks of `chain`, from the root, each worker holds in one of `tiers`: deepest first, nobody twice.
pub(super) fn depths(tiers: &[&Sets], chain: &[BlockHash]) -> Vec<(u32, Bits)> {
    let mut alive = Bits::default();
    for tier in tiers {
        tier.workers.iter().for_each(|worker| alive.insert(worker));
    }
    let (mut steps, mut depth) = (Vec::new(), 0);
    for block in chain {
        if alive.is_empty() {
            break;
        }
        let only = (alive.len() == 1).then(|| alive.iter().next()).flatten();
        if tiers.iter().any(|tier| tier.is_held_by_all(*block, &alive, only)) {
            depth += 1;
            continue;
        }
        let before = alive.clone();
        let mut after = Bits::default();
        for tier in tiers {
            let mut here = before.clone();
            tier.narrow(*block, &mut here);
            here.iter().for_each(|worker| after.insert(worker));
        }
        alive = after;
        let mut stopped = before;
        stopped.subtract(&alive);
        if depth > 0 && !stopped.is_empty() {
            steps.push((depth, stopped));
        }
        depth += 1;
    }
    if depth > 0 && !alive.is_empty() {
        steps.push((depth, alive));
    }
    steps.reverse();
    steps
}
