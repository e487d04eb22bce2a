//! Blocks in host memory: what the device lost last, the least lately used forgotten first.
//!
//! A content is kept once. It stays when it is brought back to the device, so losing it there again costs nothing.
//!
//! Not here: what is brought back and when (`request`), time: bringing back costs none.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::content::{BlockContent, BlockKey};

/// A bounded set of contents.
#[derive(Clone, Debug, Default)]
pub(super) struct HostTier {
    blocks_max: usize,
    /// By when they were used last.
    order: BTreeMap<u64, Arc<BlockContent>>,
    used: HashMap<BlockKey, u64>,
    clock: u64,
}

impl HostTier {
    pub(super) fn new(blocks_max: u32) -> Self {
        Self { blocks_max: blocks_max as usize, ..Self::default() }
    }

    /// How many of these, from the first on, it has.
    pub(super) fn prefix(&self, chain: &[Arc<BlockContent>]) -> usize {
        chain.iter().take_while(|block| self.used.contains_key(&block.key)).count()
    }

    /// Takes a content in, or notes that it was used. Says whether it is new, and what had to go for it.
    pub(super) fn put(&mut self, content: &Arc<BlockContent>) -> (bool, Option<Arc<BlockContent>>) {
        if self.blocks_max == 0 {
            return (false, None);
        }
        self.clock += 1;
        let before = self.used.insert(content.key, self.clock);
        self.order.insert(self.clock, Arc::clone(content));
        if let Some(before) = before {
            self.order.remove(&before);
            return (false, None);
        }
        if self.order.len() <= self.blocks_max {
            return (true, None);
        }
        let (_, gone) = self.order.pop_first().expect("it has one more than it may");
        self.used.remove(&gone.key);
        (true, Some(gone))
    }

    /// What it has, the least lately used first.
    pub(super) fn contents(&self) -> impl Iterator<Item = &Arc<BlockContent>> {
        self.order.values()
    }

    pub(super) fn clear(&mut self) {
        self.order.clear();
        self.used.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::super::content::chain;
    use super::*;

    #[test]
    fn the_least_lately_used_goes_first_and_use_counts() {
        let blocks = chain("", &[1, 2, 3], 1);
        let mut host = HostTier::new(2);
        assert_eq!(host.put(&blocks[0]), (true, None));
        assert_eq!(host.put(&blocks[1]), (true, None));
        assert_eq!(host.put(&blocks[0]), (false, None), "used again");
        assert_eq!(host.put(&blocks[2]), (true, Some(Arc::clone(&blocks[1]))));
        assert_eq!((host.prefix(&blocks), host.prefix(&blocks[2..])), (1, 1));
        assert_eq!(HostTier::new(0).put(&blocks[0]), (false, None), "none at all");
    }
}
