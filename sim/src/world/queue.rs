//! Events in the order they happen. Ties in time are broken by a seeded rank, not by insertion, so that nothing comes
//! to depend on order.
//!
//! Not here: what an event is (`event`).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::plan::Stream;

/// A queue of `T`s by time.
pub(super) struct Queue<T> {
    /// Time, rank, place in `waiting`.
    heap: BinaryHeap<Reverse<(u64, u64, usize)>>,
    waiting: Vec<Option<T>>,
    free: Vec<usize>,
    ties: Stream,
}

impl<T> Queue<T> {
    pub(super) fn new(ties: Stream) -> Self {
        Self { heap: BinaryHeap::new(), waiting: Vec::new(), free: Vec::new(), ties }
    }

    pub(super) fn push(&mut self, at_us: u64, item: T) {
        let place = self.free.pop().unwrap_or_else(|| {
            self.waiting.push(None);
            self.waiting.len() - 1
        });
        self.waiting[place] = Some(item);
        self.heap.push(Reverse((at_us, self.ties.word(), place)));
    }

    pub(super) fn pop(&mut self) -> Option<(u64, T)> {
        let Reverse((at_us, _, place)) = self.heap.pop()?;
        self.free.push(place);
        let item = self.waiting[place].take().expect("a queued place holds its event");
        Some((at_us, item))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(seed: u64) -> Vec<(u64, u32)> {
        let mut queue = Queue::new(Stream::new(seed, "ties"));
        for item in 0..100 {
            queue.push(u64::from(item % 5), item);
        }
        std::iter::from_fn(|| queue.pop()).collect()
    }

    #[test]
    fn time_orders_first_and_ties_fall_by_seed() {
        let one = drain(1);
        assert_eq!(one.len(), 100);
        assert!(one.windows(2).all(|pair| pair[0].0 <= pair[1].0));
        assert_eq!(one, drain(1));
        assert_ne!(one, drain(2));
    }
}
