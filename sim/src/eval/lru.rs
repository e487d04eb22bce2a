//! A cache of chained blocks that forgets the least recent first, as an engine's does.
//!
//! A chain is touched tail first, so its root is its most recent block: a block never outlives the one before it, and how much
//! of a chain is held can be found by bisection.
//!
//! Not here: time, workers (`fleet`).

use std::collections::HashMap;

/// Neighbours in the order of last use; `NONE` at the ends.
#[derive(Clone, Copy, Debug)]
struct Entry {
    block: u64,
    older: u32,
    newer: u32,
}

const NONE: u32 = u32::MAX;

/// Blocks, at most so many.
#[derive(Clone, Debug)]
pub struct Lru {
    capacity: usize,
    at: HashMap<u64, u32>,
    entries: Vec<Entry>,
    free: Vec<u32>,
    oldest: u32,
    newest: u32,
}

/// What a touch changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// Blocks that were not there.
    pub added: Vec<u64>,
    /// Blocks that had to go.
    pub removed: Vec<u64>,
}

impl Lru {
    /// An empty cache for `capacity` blocks, at least one.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        let (at, entries, free) = (HashMap::new(), Vec::new(), Vec::new());
        Self { capacity: capacity.max(1), at, entries, free, oldest: NONE, newest: NONE }
    }

    /// How many blocks from the root on are held.
    #[must_use]
    pub fn depth(&self, chain: &[u64]) -> usize {
        chain.partition_point(|block| self.at.contains_key(block))
    }

    /// Uses a whole chain.
    pub fn touch(&mut self, chain: &[u64]) -> Touched {
        let mut touched = Touched::default();
        for &block in chain.iter().rev() {
            if let Some(&at) = self.at.get(&block) {
                self.unlink(at);
                self.link(at);
            } else {
                let entry = Entry { block, older: NONE, newer: NONE };
                let at = self.free.pop().unwrap_or(self.entries.len() as u32);
                match self.entries.get_mut(at as usize) {
                    Some(slot) => *slot = entry,
                    None => self.entries.push(entry),
                }
                self.at.insert(block, at);
                self.link(at);
                touched.added.push(block);
            }
        }
        while self.at.len() > self.capacity {
            let at = self.oldest;
            let block = self.entries[at as usize].block;
            self.unlink(at);
            self.free.push(at);
            self.at.remove(&block);
            touched.removed.push(block);
        }
        if chain.len() > self.capacity {
            // It lost its own tail at once: neither added nor removed.
            touched.removed.retain(|block| !touched.added.contains(block));
            touched.added.retain(|block| self.at.contains_key(block));
        }
        touched
    }

    /// Blocks held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.at.len()
    }

    /// Whether it holds nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.at.is_empty()
    }

    fn unlink(&mut self, at: u32) {
        let Entry { older, newer, .. } = self.entries[at as usize];
        match older {
            NONE => self.oldest = newer,
            other => self.entries[other as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            other => self.entries[other as usize].older = older,
        }
    }

    /// Makes an entry the newest.
    fn link(&mut self, at: u32) {
        let newest = self.newest;
        let entry = &mut self.entries[at as usize];
        (entry.older, entry.newer) = (newest, NONE);
        match newest {
            NONE => self.oldest = at,
            other => self.entries[other as usize].newer = at,
        }
        self.newest = at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recent_goes_first_and_tails_before_roots() {
        let mut lru = Lru::new(5);
        assert_eq!(lru.touch(&[1, 2, 3]).added.len(), 3);
        assert_eq!(lru.touch(&[1, 9]), Touched { added: vec![9], removed: vec![] });
        assert_eq!(lru.touch(&[1, 8, 7]).removed, [3], "the tail of the oldest");
        assert_eq!((lru.depth(&[1, 2, 3]), lru.depth(&[1, 9]), lru.depth(&[4])), (2, 2, 0));
        assert_eq!(lru.touch(&[1, 6]).removed, [2]);
        assert_eq!(lru.len(), 5);
    }

    #[test]
    fn a_chain_longer_than_the_cache_keeps_its_root() {
        let mut lru = Lru::new(2);
        let touched = lru.touch(&[1, 2, 3, 4]);
        assert_eq!(lru.depth(&[1, 2, 3, 4]), 2);
        assert_eq!((touched.added.len(), touched.removed), (2, vec![]));
        assert_eq!(lru.touch(&[5]), Touched { added: vec![5], removed: vec![2] });
    }

    /// A list of blocks, the most recent last.
    fn slow(list: &mut Vec<u64>, chain: &[u64], capacity: usize) {
        for block in chain.iter().rev() {
            list.retain(|other| other != block);
            list.push(*block);
        }
        let excess = list.len().saturating_sub(capacity);
        list.drain(..excess);
    }

    proptest::proptest! {
        #[test]
        fn it_holds_what_a_list_holds(
            chains in proptest::collection::vec(proptest::collection::btree_set(0_u64..30, 1..9), 1..60),
            capacity in 1_usize..20,
        ) {
            let (mut lru, mut list) = (Lru::new(capacity), Vec::new());
            for chain in chains {
                let chain: Vec<u64> = chain.into_iter().collect();
                let before = list.clone();
                let touched = lru.touch(&chain);
                slow(&mut list, &chain, capacity);
                let mut after: Vec<u64> = before.into_iter().filter(|block| !touched.removed.contains(block)).collect();
                after.extend(&touched.added);
                after.sort_unstable();
                let mut wanted = list.clone();
                wanted.sort_unstable();
                proptest::prop_assert_eq!(after, wanted);
                proptest::prop_assert_eq!(lru.len(), list.len());
            }
        }
    }
}
