//! One worker's atomics. Shared by every index copy, ticket and table that speaks of the worker.
//!
//! Not here: which workers there are (`workers`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use covey_crdt::id::WorkerId;
use covey_mesh::input::Load;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::progress::{Pace, Progress};
use super::unseen::Unseen;

/// A small local number for a worker: an index into tables and bitsets. It stands for the same worker as long as the
/// worker is routable, recorded in the replica, or in use by a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerNo(pub u32);

/// What this process keeps about one worker.
#[derive(Debug)]
pub struct WorkerCell {
    id: WorkerId,
    no: WorkerNo,
    id_hash: u64,
    masked: AtomicBool,
    requests: AtomicU32,
    queued_tokens: AtomicU64,
    progress: Progress,
    unseen: Unseen,
}

impl WorkerCell {
    pub(super) fn new(id: WorkerId, no: WorkerNo, fleet: Arc<Pace>) -> Self {
        let id_hash = xxh3_64_with_seed(id.name().as_bytes(), u64::from(id.rank()));
        Self {
            id,
            no,
            id_hash,
            masked: AtomicBool::new(false),
            requests: AtomicU32::new(0),
            queued_tokens: AtomicU64::new(0),
            progress: Progress::new(fleet),
            unseen: Unseen::default(),
        }
    }

    /// The worker's id.
    #[must_use]
    pub const fn id(&self) -> &WorkerId {
        &self.id
    }

    /// Its number.
    #[must_use]
    pub const fn no(&self) -> WorkerNo {
        self.no
    }

    /// A hash of its id that is the same on every gateway, for rendezvous hashing.
    #[must_use]
    pub const fn id_hash(&self) -> u64 {
        self.id_hash
    }

    /// Whether this gateway cannot reach it at present.
    #[must_use]
    pub fn is_masked(&self) -> bool {
        self.masked.load(Ordering::Relaxed)
    }

    /// Masks or unmasks the worker for this gateway alone.
    pub fn set_masked(&self, masked: bool) {
        self.masked.store(masked, Ordering::Relaxed);
    }

    /// What this gateway has outstanding on the worker now.
    #[must_use]
    pub fn load(&self) -> Load {
        Load {
            requests: self.requests.load(Ordering::Relaxed),
            queued_tokens: self.queued_tokens.load(Ordering::Relaxed),
        }
    }

    /// How much of what is queued there is computed by now, as far as can be told.
    #[must_use]
    pub fn computed_of(&self, queued_tokens: u64, now_us: u64) -> u64 {
        self.progress.of(queued_tokens, now_us)
    }

    /// What the worker has to do beyond what gateways account for, `accounted` queued tokens, as far as it told.
    #[must_use]
    pub fn unseen(&self, accounted: u64, now_us: u64) -> Load {
        self.unseen.left(accounted, now_us, |us| self.progress.in_us(us))
    }

    /// The worker told how many requests it has, `unseen` of them more than are accounted for.
    pub(super) fn told(&self, told: u32, unseen: u32, tokens_each: f64, now_us: u64) {
        self.unseen.told(told, unseen, tokens_each, now_us);
    }

    /// Requests that the worker told of, and those of them that are not accounted for.
    pub(super) fn told_counts(&self, now_us: u64) -> (u32, u32) {
        self.unseen.counts(now_us)
    }

    /// How many times longer than the fleet it computes at a token; 1 where they are alike, or it is not known.
    #[must_use]
    pub fn slowness(&self) -> f64 {
        self.progress.slowness()
    }

    /// The worker was idle, and begins with what is first in its queue now.
    pub(crate) fn began(&self, now_us: u64) {
        self.progress.began(now_us);
    }

    /// So many queued tokens are computed, whichever gateway had them there.
    pub(crate) fn done(&self, tokens: u64, now_us: u64) {
        self.progress.done(tokens, now_us);
    }

    /// Counts a request that was just sent: running, and its uncached tokens queued.
    pub(crate) fn sent(&self, uncached_tokens: u64) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.queued_tokens.fetch_add(uncached_tokens, Ordering::Relaxed);
    }

    /// Takes back queued tokens: the prompt is computed, or given up.
    pub(crate) fn computed(&self, uncached_tokens: u64) {
        self.queued_tokens.fetch_sub(uncached_tokens, Ordering::Relaxed);
    }

    /// Takes back the request.
    pub(crate) fn ended(&self) {
        self.requests.fetch_sub(1, Ordering::Relaxed);
    }
}
