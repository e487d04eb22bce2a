//! What is kept of feeds beside their states: applied ops for whoever lacks them, and ops that wait for the ones before them.
//!
//! Not here: one feed's log (`feed`), asking for what is missing (`feed_gaps`). Upholds I9: bounded in bytes over all feeds
//! and in time, and nothing is kept of a feed that nobody has.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use bytes::Bytes;
use covey_crdt::codec::encode_stored;
use covey_crdt::id::WorkerId;
use covey_crdt::lattice::Merged;
use covey_crdt::limits::WORKERS_MAX;
use covey_crdt::plant::{Plant, planted};
use covey_crdt::stored::{FeedGap, Generation, StoredOp};

use super::Node;
use crate::feed::RetainedFeedOp;
use crate::input::MonoTime;
use crate::limits::{FEED_HELD_BYTES_MAX, FEED_HELD_MS, FEED_LOG_BYTES_MAX};
use crate::note::Note;

impl Node {
    /// Counts, retains and follows up on an op that was applied.
    pub(super) fn applied_feed(&mut self, op: &StoredOp, bytes: Bytes) {
        let worker = &op.worker;
        let now = self.now;
        let spoken = op.lanes.iter().map(|lane| Arc::clone(&lane.keyspace));
        let log = self.feeds.entry(worker.clone()).or_default();
        log.spoke(spoken);
        let mut freed = 0;
        if op.begins {
            freed = log.jump();
        }
        let kept = log.retain(RetainedFeedOp { key: op.key.clone(), begins: op.begins, bytes, at: now });
        self.feed_bytes = self.feed_bytes + kept - freed;
        self.ops_applied += 1;
        if op.begins && op.key.generation != Generation::default() {
            self.note(Note::Generation { worker: worker.clone() });
        }
        self.sync_feeds();
    }

    /// Keeps an op until the one before it comes. One that does not fit is asked for later, like any that was lost.
    pub(super) fn hold_feed(&mut self, op: StoredOp, bytes: usize) {
        let is_bounded = self.feeds.contains_key(&op.worker) || self.feeds.len() < WORKERS_MAX;
        if !is_bounded || self.held_bytes + bytes > FEED_HELD_BYTES_MAX {
            return self.note(Note::FeedDropped);
        }
        let now = self.now;
        let log = self.feeds.entry(op.worker.clone()).or_default();
        log.gap.get_or_insert(now);
        self.held_bytes = self.held_bytes + bytes - log.hold(Arc::new(op), bytes, now);
    }

    /// Applies held ops that follow now.
    pub(super) fn drain_feed(&mut self, worker: &WorkerId) {
        loop {
            let key = self.replica.feed(worker).map(|state| state.key.clone());
            let Some(log) = self.feeds.get_mut(worker) else { return };
            let (op, freed) = log.next_held(key.as_ref());
            self.held_bytes -= freed;
            let Some(op) = op else { return };
            let applied = self.replica.apply_feed(&op);
            if applied == Err(FeedGap) {
                return;
            }
            if let Some(log) = self.feeds.get_mut(worker) {
                self.held_bytes -= log.unhold(&op.key);
            }
            if applied == Ok(Merged::Grew) {
                self.note(Note::FeedApplied { hashes: u32::try_from(op.hashes()).unwrap_or(u32::MAX) });
                self.applied_feed(&op, Bytes::from(encode_stored(&op)));
            }
        }
    }

    /// Lets go what is too old or too much, and what is left of feeds that nobody has.
    pub(super) fn tidy_feeds(&mut self) {
        let limit = self.now.us.checked_sub(self.knobs.log_age_ms * 1_000).map(|us| MonoTime { us });
        for log in self.feeds.values_mut() {
            while let Some(limit) = limit
                && let Some(bytes) = log.drop_oldest(Some(limit))
            {
                self.feed_bytes -= bytes;
            }
            // What lies before it did not come: the peer that sent it has all of it.
            if self.now.since_ms(log.held_at) >= FEED_HELD_MS {
                self.held_bytes -= log.unhold_all();
            }
        }
        self.drop_feed_ops();
        let (replica, behind) = (&self.replica, &self.behind);
        self.feeds.retain(|worker, log| !log.is_idle() || replica.feed(worker).is_some() || behind.contains(worker));
    }

    /// The oldest retained ops go until the rest fits.
    fn drop_feed_ops(&mut self) {
        let most = FEED_LOG_BYTES_MAX.min(self.knobs.log_bytes);
        if self.feed_bytes <= most || planted(Plant::LogUnbounded) {
            return;
        }
        let oldest = self.feeds.iter().filter_map(|(worker, log)| Some(Reverse((log.oldest()?, worker.clone()))));
        let mut oldest: BinaryHeap<_> = oldest.collect();
        while let Some(Reverse((_, worker))) = oldest.pop() {
            let Some(log) = self.feeds.get_mut(&worker) else { continue };
            self.feed_bytes -= log.drop_oldest(None).unwrap_or(0);
            if self.feed_bytes <= most {
                return;
            }
            oldest.extend(log.oldest().map(|at| Reverse((at, worker))));
        }
    }
}
