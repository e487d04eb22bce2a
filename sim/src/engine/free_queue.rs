//! The order in which free blocks are evicted: a doubly linked list over block numbers, every operation O(1).
//!
//! Not here: reference counts and content (`pool`). A block is in the queue at most once.

use super::BlockId;

/// No block.
const NIL: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Link {
    before: u32,
    after: u32,
    queued: bool,
}

/// Free blocks, the next to be evicted first.
#[derive(Clone, Debug)]
pub(super) struct FreeQueue {
    links: Vec<Link>,
    head: u32,
    tail: u32,
    len: u32,
}

impl FreeQueue {
    /// All of `blocks` blocks, the lowest number first.
    pub(super) fn full(blocks: u32) -> Self {
        let link = Link { before: NIL, after: NIL, queued: false };
        let mut queue = Self { links: vec![link; blocks as usize], head: NIL, tail: NIL, len: 0 };
        (0..blocks).for_each(|block| queue.push_back(BlockId(block)));
        queue
    }

    pub(super) const fn len(&self) -> u32 {
        self.len
    }

    /// Appends a block that is not queued: it will be evicted last.
    pub(super) fn push_back(&mut self, block: BlockId) {
        let before = self.tail;
        let link = &mut self.links[block.0 as usize];
        assert!(!link.queued, "block {} was freed twice", block.0);
        *link = Link { before, after: NIL, queued: true };
        match before {
            NIL => self.head = block.0,
            _ => self.links[before as usize].after = block.0,
        }
        self.tail = block.0;
        self.len += 1;
    }

    /// Takes the block that is to be evicted next.
    pub(super) fn pop_front(&mut self) -> Option<BlockId> {
        let block = (self.head != NIL).then_some(BlockId(self.head))?;
        self.remove(block);
        Some(block)
    }

    /// Takes a queued block out of the middle: it was hit while free.
    pub(super) fn remove(&mut self, block: BlockId) {
        let link = self.links[block.0 as usize];
        assert!(link.queued, "block {} is not free", block.0);
        match link.before {
            NIL => self.head = link.after,
            before => self.links[before as usize].after = link.after,
        }
        match link.after {
            NIL => self.tail = link.before,
            after => self.links[after as usize].before = link.before,
        }
        self.links[block.0 as usize].queued = false;
        self.len -= 1;
    }

    /// The blocks in the order in which they will be evicted.
    pub(super) fn iter(&self) -> impl Iterator<Item = BlockId> + '_ {
        let first = (self.head != NIL).then_some(self.head);
        std::iter::successors(first, |&block| match self.links[block as usize].after {
            NIL => None,
            after => Some(after),
        })
        .map(BlockId)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(queue: &FreeQueue) -> Vec<u32> {
        queue.iter().map(|block| block.0).collect()
    }

    #[test]
    fn taking_from_ends_and_middle_keeps_the_order_of_the_rest() {
        let mut queue = FreeQueue::full(5);
        queue.remove(BlockId(2));
        assert_eq!(queue.pop_front(), Some(BlockId(0)));
        queue.remove(BlockId(4));
        assert_eq!(order(&queue), [1, 3]);
        queue.push_back(BlockId(2));
        assert_eq!((order(&queue), queue.len()), (vec![1, 3, 2], 3));
    }

    #[test]
    fn an_emptied_queue_fills_again() {
        let mut queue = FreeQueue::full(1);
        assert_eq!(queue.pop_front(), Some(BlockId(0)));
        assert_eq!(queue.pop_front(), None);
        queue.push_back(BlockId(0));
        assert_eq!(order(&queue), [0]);
    }
}
