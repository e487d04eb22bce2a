//! Batches that came too early, and prints of those that were applied last. Both bounded.
//!
//! Not here: what is done about a gap.

use std::collections::{BTreeMap, VecDeque};

use super::batch::Batch;

/// Batches kept at most.
pub(super) const BATCHES_MAX: usize = 4_096;
/// Payload bytes kept at most. Decoded they are up to eight times that.
pub(super) const BYTES_MAX: usize = 4 * 1024 * 1024;
/// Prints kept.
pub(super) const PRINTS_MAX: usize = 1_024;

/// Batches by their numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Buffer {
    batches: BTreeMap<u64, Batch>,
    bytes: usize,
    /// Some did not fit: what is missing behind the last must be asked for.
    pub(super) has_overflowed: bool,
}

impl Buffer {
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn first(&self) -> Option<u64> {
        self.batches.keys().next().copied()
    }

    /// Keeps a batch, or gives it back when another one of its number is kept. The earliest are kept rather than the latest:
    /// they come first, and the others can be asked for.
    pub(super) fn keep(&mut self, batch: Batch) -> Option<Batch> {
        if let Some(kept) = self.batches.get(&batch.seq) {
            return (kept.print != batch.print).then_some(batch);
        }
        self.bytes += batch.bytes;
        self.batches.insert(batch.seq, batch);
        while self.batches.len() > BATCHES_MAX || (self.bytes > BYTES_MAX && self.batches.len() > 1) {
            let Some((_, last)) = self.batches.pop_last() else { break };
            self.bytes -= last.bytes;
            self.has_overflowed = true;
        }
        None
    }

    /// Takes the first, if its number is at most `seq`.
    pub(super) fn take_to(&mut self, seq: u64) -> Option<Batch> {
        self.first().filter(|first| *first <= seq)?;
        let (_, batch) = self.batches.pop_first()?;
        self.bytes -= batch.bytes;
        Some(batch)
    }
}

/// Prints of the batches applied last, by number.
#[derive(Clone, Debug, Default)]
pub(super) struct Prints {
    last: VecDeque<(u64, u64)>,
}

impl Prints {
    pub(super) fn clear(&mut self) {
        self.last.clear();
    }

    pub(super) fn push(&mut self, seq: u64, print: u64) {
        if self.last.len() == PRINTS_MAX {
            self.last.pop_front();
        }
        self.last.push_back((seq, print));
    }

    /// Numbers ascend by one from the first that is kept, so a print is where its number says.
    pub(super) fn of(&self, seq: u64) -> Option<u64> {
        let (first, _) = self.last.front()?;
        let nth = usize::try_from(seq.checked_sub(*first)?).ok()?;
        self.last.get(nth).filter(|(of, _)| *of == seq).map(|(_, print)| *print)
    }

    /// The latest `most`, in order.
    pub(super) fn latest(&self, most: usize) -> impl ExactSizeIterator<Item = (u64, u64)> {
        let skipped = self.last.len().saturating_sub(most);
        self.last.range(skipped..).copied()
    }
}
