//! The last decisions of this gateway: where each request went and why, what it was compared with, what was predicted, and
//! what came of it. A ring of slots; a request thread swaps one pointer and waits for nobody.
//!
//! They name workers and count tokens, never what a prompt contained. Not here: routes (`admin::decisions`), words for people
//! (`admin::explain`). Upholds I9: no more than [`Decisions::capacity`] are kept, the oldest go first.

mod entry;
mod shown;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;

pub(super) use self::entry::{Decided, Ending, Entry};
pub use self::shown::{AnswerShown, CandidateShown, DecisionShown, ViewShown};

/// Decisions listed of one request at most: a client may give one id to many.
const OF_ONE_MAX: usize = 32;

/// The ring.
#[derive(Debug)]
pub struct Decisions {
    slots: Box<[ArcSwapOption<Entry>]>,
    /// Decisions kept since the start.
    kept: AtomicU64,
}

impl Decisions {
    /// Keeps so many; 0 keeps none.
    pub(super) fn new(capacity: usize) -> Self {
        Self { slots: (0..capacity).map(|_| ArcSwapOption::empty()).collect(), kept: AtomicU64::new(0) }
    }

    /// How many are kept at most.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Keeps one in the oldest one's place; `None` when none are kept.
    pub(super) fn keep(&self, decided: impl FnOnce() -> Decided) -> Option<Arc<Entry>> {
        if self.slots.is_empty() {
            return None;
        }
        let entry = Arc::new(Entry::new(decided()));
        let nth = self.kept.fetch_add(1, Ordering::Relaxed);
        self.slots[(nth % self.slots.len() as u64) as usize].store(Some(Arc::clone(&entry)));
        Some(entry)
    }

    /// What was decided about requests of this name, oldest first: one for each worker that was tried.
    #[must_use]
    pub fn of(&self, request_id: &str) -> Vec<DecisionShown> {
        self.latest(OF_ONE_MAX, |entry| entry.decided().request_id.as_str() == request_id)
    }

    /// The latest decisions, of one worker if one is named, oldest first.
    #[must_use]
    pub fn last(&self, worker: Option<&str>, count: usize) -> Vec<DecisionShown> {
        self.latest(count, |entry| worker.is_none_or(|worker| entry.decided().worker.to_string() == worker))
    }

    fn latest(&self, count: usize, wanted: impl Fn(&Entry) -> bool) -> Vec<DecisionShown> {
        let (kept, capacity) = (self.kept.load(Ordering::Relaxed), self.slots.len() as u64);
        let newest_first = (kept.saturating_sub(capacity)..kept).rev();
        let entries = newest_first.filter_map(|nth| self.slots[(nth % capacity) as usize].load_full());
        let mut shown: Vec<_> = entries.filter(|entry| wanted(entry)).take(count).map(|entry| entry.shown()).collect();
        shown.reverse();
        shown
    }
}

#[cfg(test)]
mod tests;
