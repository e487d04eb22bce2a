//! What workers report of the requests that were looked up by their token ids, against what was predicted: counted, given
//! to the worker's detector, and said in the log when the judgement changes.
//!
//! Not here: judging (`plugin::Detector`), names of metrics (`admin`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use covey_crdt::change::FeedView;
use covey_crdt::id::WorkerId;
use tracing::{info, warn};

use super::gateway::Gateway;
use super::workers::Worker;
use crate::plugin::{FeedState, Mismatch, Observation};
use crate::tokens::Learned;

/// Upper bounds of the error histogram, tokens.
pub const ERROR_BUCKETS_TOKENS: [u64; 7] = [0, 16, 64, 256, 1_024, 4_096, 16_384];

/// How predictions came out, over the requests that were looked up by token ids and whose worker reported cached tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// Requests predicted exactly, too high and too low.
    pub requests: [u64; 3],
    /// Tokens predicted and reported, predicted in vain, and reported unpredicted.
    pub tokens: [u64; 3],
    /// Requests by the size of their error, as [`ERROR_BUCKETS_TOKENS`] bound it; the last are above all bounds.
    pub errors: [u64; 8],
}

/// The live counters.
#[derive(Debug, Default)]
pub struct Predictions {
    requests: [AtomicU64; 3],
    tokens: [AtomicU64; 3],
    errors: [AtomicU64; 8],
}

impl Predictions {
    fn take(&self, predicted: u64, reported: u64) {
        let error = predicted.abs_diff(reported);
        let at = 1 + usize::from(predicted < reported);
        self.requests[if error == 0 { 0 } else { at }].fetch_add(1, Ordering::Relaxed);
        self.tokens[0].fetch_add(predicted.min(reported), Ordering::Relaxed);
        self.tokens[at].fetch_add(error, Ordering::Relaxed);
        let bucket = ERROR_BUCKETS_TOKENS.partition_point(|bound| *bound < error);
        self.errors[bucket].fetch_add(1, Ordering::Relaxed);
    }

    /// What was counted.
    #[must_use]
    pub fn snapshot(&self) -> Outcomes {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Outcomes {
            requests: self.requests.each_ref().map(read),
            tokens: self.tokens.each_ref().map(read),
            errors: self.errors.each_ref().map(read),
        }
    }
}

impl Gateway {
    /// A worker reported what it computed of a request.
    pub(super) fn observe(&self, worker: &WorkerId, seen: Observation) {
        if let Some(reported) = seen.reported_tokens {
            self.predictions().take(seen.predicted_tokens, reported);
        }
        let Some(worker) = self.workers().find(worker) else { return };
        let changed = worker.detector().observe(seen);
        say(worker, changed);
    }

    /// What is known of a worker's events: called whenever it may have changed. `block_tokens` is the size that they name.
    pub fn feed_changed(&self, worker: &WorkerId, state: FeedState, block_tokens: Option<u32>) {
        let Some(worker) = self.workers().find(worker) else { return };
        let changed = worker.detector().feed(state, block_tokens);
        say(worker, changed);
    }

    /// A worker's feed went on, read here or at another gateway. When it names another block size than before that is
    /// logged, and requests are looked up in such blocks from now on. Cheap when it does not.
    pub(super) fn feed_speaks(&self, worker: &WorkerId, feed: Option<&FeedView>) {
        let model = feed.and_then(|feed| feed.keyspace.as_ref()).map(|keyspace| keyspace.model.to_string());
        let model = model.unwrap_or_default();
        match self.block_sizes().fed(worker, feed) {
            Learned::Nothing => {}
            Learned::Size { block_tokens, flag: None } => {
                info!(%model, %worker, block_tokens, "block size learned from events");
            }
            Learned::Size { block_tokens, flag: Some(flag) } => warn!(
                %model, %worker, block_tokens, flag, mismatch = Mismatch::BlockSize.name(),
                "events name another block size than --block-tokens: events win"
            ),
            Learned::Differs { block_tokens, others } => warn!(
                %model, %worker, block_tokens, others, mismatch = Mismatch::BlockSize.name(),
                "the worker has another block size than the model's other workers: its blocks are not found"
            ),
        }
    }
}

fn say(worker: &Arc<Worker>, changed: Option<Option<Mismatch>>) {
    match changed {
        None => {}
        Some(None) => info!(worker = %worker.id, "predictions fit what the worker reports again"),
        Some(Some(mismatch)) => {
            let evidence = worker.detector().judge().evidence;
            warn!(
                worker = %worker.id, mismatch = mismatch.name(), evidence,
                "predictions do not fit what the worker reports: {}", mismatch.remedy()
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_counted_by_side_and_size() {
        let predictions = Predictions::default();
        for (predicted, reported) in [(64, 64), (160, 64), (0, 16), (100_000, 0)] {
            predictions.take(predicted, reported);
        }
        let outcomes = predictions.snapshot();
        assert_eq!((outcomes.requests, outcomes.tokens), ([1, 2, 1], [128, 100_096, 16]));
        assert_eq!(outcomes.errors, [1, 1, 0, 1, 0, 0, 0, 1]);
    }
}
