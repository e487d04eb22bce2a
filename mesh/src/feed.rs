//! What a node keeps of one worker's feed besides its state: ops retained for those who lack them, ops held until the one
//! before them comes, and ops of the own ingester that nobody published yet.
//!
//! Not here: the state (`covey_crdt::stored`), who owns a feed (`node::owners`), sending (`node::feeds`). Upholds I9.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use covey_crdt::keyspace::Keyspace;
use covey_crdt::limits::KEYSPACES_PER_WORKER_MAX;
use covey_crdt::stored::{StoredKey, StoredOp};
use serde::{Deserialize, Serialize};

use crate::input::MonoTime;
use crate::limits::{FEED_HELD_MAX, FEED_OUTBOX_MAX};

/// What this gateway is for a feed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// It does not ingest it.
    #[default]
    Off,
    /// It ingested it until a moment ago, and hands its state on.
    Leaving,
    /// It ingests it, and publishes what the publisher does not.
    Standby,
    /// It ingests it and publishes.
    Publisher,
}

impl Role {
    /// Whether it reads the worker's events.
    #[must_use]
    pub const fn ingests(self) -> bool {
        !matches!(self, Self::Off)
    }

    /// The word for it in metrics and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Leaving => "leaving",
            Self::Standby => "standby",
            Self::Publisher => "publisher",
        }
    }
}

/// How well an ingester knows the worker's cache. Never `Exact` when it may not be (I12).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FeedState {
    /// Nothing is heard of the worker.
    #[default]
    Stale,
    /// What the cache held before the ingester came is not known.
    Bootstrapping,
    /// An event is missing and being fetched.
    Gap,
    /// What is known is what the cache held at the last event.
    Exact,
}

impl FeedState {
    /// The word for it in metrics and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stale => "stale",
            Self::Bootstrapping => "bootstrapping",
            Self::Gap => "gap",
            Self::Exact => "exact",
        }
    }
}

/// What an ingester says of its feed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedReport {
    /// How well it knows the cache.
    pub state: FeedState,
    /// For how long that has been so, in milliseconds.
    pub since_ms: u64,
    /// Milliseconds since the stream last proved to be alive; `None` before it ever did.
    pub proven_ms: Option<u64>,
    /// Milliseconds from an event's making to its reading, as far as the clocks tell.
    pub lag_ms: Option<u64>,
    /// The engine's number of the next batch.
    pub position: u64,
}

/// An op that was applied and is kept for whoever lacks it.
#[derive(Clone, Debug)]
pub(crate) struct RetainedFeedOp {
    pub(crate) key: StoredKey,
    pub(crate) begins: bool,
    pub(crate) bytes: Bytes,
    pub(crate) at: MonoTime,
}

/// One worker's feed at one node.
#[derive(Clone, Debug, Default)]
pub(crate) struct FeedLog {
    retained: VecDeque<RetainedFeedOp>,
    /// With the bytes that each takes.
    held: BTreeMap<StoredKey, (Arc<StoredOp>, usize)>,
    /// When the feed last moved, or an op was held while none was.
    pub(crate) held_at: MonoTime,
    /// Own ops that are not known to be published, in order, and when each was made.
    outbox: VecDeque<(Arc<StoredOp>, MonoTime)>,
    /// Since when a peer is known to be further.
    pub(crate) gap: Option<MonoTime>,
    /// When a peer was last asked.
    pub(crate) asked: Option<MonoTime>,
    pub(crate) role: Role,
    /// Since when it has that role.
    pub(crate) role_at: MonoTime,
    pub(crate) report: FeedReport,
    /// Changes of the report, for who is told first.
    pub(crate) report_version: u64,
    pub(crate) report_at: MonoTime,
    /// Keyspaces that events spoke about.
    pub(crate) speaks: BTreeSet<Arc<Keyspace>>,
    /// Since when prompts have waited at the worker without a break, as far as was looked.
    pub(crate) queued_since: Option<MonoTime>,
    /// A peer was seen with another state under this key, when, and how often in this incarnation.
    pub(crate) forked: Option<(StoredKey, MonoTime, u32)>,
}

impl FeedLog {
    /// Keeps an applied op. Bytes it takes.
    pub(crate) fn retain(&mut self, op: RetainedFeedOp) -> usize {
        let bytes = op.bytes.len();
        self.retained.push_back(op);
        bytes
    }

    /// Lets the oldest op go if it is older than `limit`, or in any case. Bytes that are free again.
    pub(crate) fn drop_oldest(&mut self, older_than: Option<MonoTime>) -> Option<usize> {
        let oldest = self.retained.front()?;
        if older_than.is_some_and(|limit| oldest.at >= limit) {
            return None;
        }
        self.retained.pop_front().map(|op| op.bytes.len())
    }

    pub(crate) fn oldest(&self) -> Option<MonoTime> {
        self.retained.front().map(|op| op.at)
    }

    /// The state jumped: what is retained does not lead to it. Bytes that are free again.
    pub(crate) fn jump(&mut self) -> usize {
        self.retained.drain(..).map(|op| op.bytes.len()).sum()
    }

    /// Retained ops that lead on from `after`: the ones behind it, or a generation's from its first op on. `None` when
    /// they do not reach back that far.
    pub(crate) fn after(&self, after: Option<&StoredKey>) -> Option<impl Iterator<Item = &RetainedFeedOp>> {
        let known = after.and_then(|after| self.find(after)).map(|nth| nth + 1);
        let begun = || self.retained.iter().rposition(|op| op.begins && after.is_none_or(|after| op.key > *after));
        let from = known.or_else(begun)?;
        Some(self.retained.iter().skip(from))
    }

    /// The bytes of the op that led to `key`, if it is retained.
    pub(crate) fn bytes_of(&self, key: &StoredKey) -> Option<&Bytes> {
        self.find(key).and_then(|nth| self.retained.get(nth)).map(|op| &op.bytes)
    }

    /// Which retained op led to `key`: they were applied in order.
    fn find(&self, key: &StoredKey) -> Option<usize> {
        self.retained.binary_search_by(|op| op.key.cmp(key)).ok()
    }

    /// Holds an op until the one before it comes; the furthest goes when there are too many. Bytes that are free again.
    pub(crate) fn hold(&mut self, op: Arc<StoredOp>, bytes: usize, at: MonoTime) -> usize {
        if self.held.is_empty() {
            self.held_at = at;
        }
        let doubled = self.held.insert(op.key.clone(), (op, bytes)).map_or(0, |(_, bytes)| bytes);
        let furthest = if self.held.len() > FEED_HELD_MAX { self.held.pop_last() } else { None };
        doubled + furthest.map_or(0, |(_, (_, bytes))| bytes)
    }

    /// The first held op behind `key`, and the bytes that are free again: what is not behind it is of no use any more.
    pub(crate) fn next_held(&mut self, key: Option<&StoredKey>) -> (Option<Arc<StoredOp>>, usize) {
        let mut freed = 0;
        while let Some(entry) = self.held.first_entry() {
            if key.is_none_or(|key| entry.key() > key) {
                return (Some(Arc::clone(&entry.get().0)), freed);
            }
            freed += entry.remove().1;
        }
        (None, freed)
    }

    /// It is held no longer. Bytes that are free again.
    pub(crate) fn unhold(&mut self, key: &StoredKey) -> usize {
        self.held.remove(key).map_or(0, |(_, bytes)| bytes)
    }

    /// Nothing is held any longer. Bytes that are free again.
    pub(crate) fn unhold_all(&mut self) -> usize {
        std::mem::take(&mut self.held).into_values().map(|(_, bytes)| bytes).sum()
    }

    /// Events spoke about these keyspaces.
    pub(crate) fn spoke(&mut self, about: impl IntoIterator<Item = Arc<Keyspace>>) {
        for keyspace in about {
            if self.speaks.len() < KEYSPACES_PER_WORKER_MAX {
                self.speaks.insert(keyspace);
            }
        }
    }

    /// Whether nothing is kept and nothing is done here.
    pub(crate) fn is_idle(&self) -> bool {
        self.role == Role::Off && self.retained.is_empty() && self.held.is_empty() && self.outbox.is_empty()
    }

    /// An op of the own ingester. `false`: there are too many, and all are dropped; the ingester has to begin anew.
    pub(crate) fn made(&mut self, op: StoredOp, at: MonoTime) -> bool {
        if self.outbox.len() >= FEED_OUTBOX_MAX {
            self.outbox.clear();
            return false;
        }
        self.outbox.push_back((Arc::new(op), at));
        true
    }

    /// The replica reached `key`: own ops up to it are published, whoever did it.
    pub(crate) fn reached(&mut self, key: &StoredKey) {
        while self.outbox.front().is_some_and(|(op, _)| op.key <= *key) {
            self.outbox.pop_front();
        }
    }

    /// The oldest own op nobody published, and when it was made.
    pub(crate) fn unpublished(&self) -> Option<&(Arc<StoredOp>, MonoTime)> {
        self.outbox.front()
    }

    /// Own ops are of no use any more: the node does not ingest the feed, or another incarnation began.
    pub(crate) fn clear_outbox(&mut self) {
        self.outbox.clear();
    }
}
