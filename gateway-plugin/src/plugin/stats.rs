//! What the plugin counted since it was made. Names of metrics belong to the host; the closed lists of labels are here.
//!
//! Not here: what the node observed (`notes`).

use std::sync::atomic::{AtomicU64, Ordering};

use super::outcome::Outcome;

/// A snapshot of the counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginStats {
    /// Decisions by [`Outcome::index`].
    pub outcomes: [u64; Outcome::COUNT],
    /// Requests no worker could take.
    pub no_worker: u64,
    /// Placements handed to the mesh.
    pub placements: u64,
    /// Local ops (placements included) that were dropped because the mesh's queue was full or there is no mesh.
    pub dropped: u64,
}

impl PluginStats {
    /// How often a decision came to `outcome`.
    #[must_use]
    pub const fn of(&self, outcome: Outcome) -> u64 {
        self.outcomes[outcome.index()]
    }
}

/// The live counters.
#[derive(Debug, Default)]
pub(super) struct Counters {
    outcomes: [AtomicU64; Outcome::COUNT],
    no_worker: AtomicU64,
    placements: AtomicU64,
    dropped: AtomicU64,
}

impl Counters {
    pub(super) fn outcome(&self, outcome: Outcome) {
        self.outcomes[outcome.index()].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn no_worker(&self) {
        self.no_worker.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn placement(&self) {
        self.placements.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn dropped(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn snapshot(&self) -> PluginStats {
        PluginStats {
            outcomes: self.outcomes.each_ref().map(|counter| counter.load(Ordering::Relaxed)),
            no_worker: self.no_worker.load(Ordering::Relaxed),
            placements: self.placements.load(Ordering::Relaxed),
            dropped: self.dropped.load(Ordering::Relaxed),
        }
    }
}
