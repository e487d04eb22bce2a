//! One request's mark on its worker's load. Whatever becomes of the request, dropping the ticket takes the mark away.
//!
//! Not here: publishing placements (`plugin`).

use std::sync::Arc;

use covey_crdt::id::{Incarnation, WorkerId};

use crate::load::WorkerCell;

/// Counts a request on a worker from the moment it was chosen: its uncached tokens until the first byte of the answer, the
/// request itself until the end. Hold it as long as the request runs; dropping it ends the request without a placement.
#[must_use = "dropping the ticket takes the request off its worker's load"]
#[derive(Debug)]
pub struct Ticket {
    cell: Arc<WorkerCell>,
    incarnation: Incarnation,
    uncached_tokens: u64,
    accepted: bool,
}

impl Ticket {
    pub(super) fn new(cell: Arc<WorkerCell>, incarnation: Incarnation, uncached_tokens: u64) -> Self {
        cell.sent(uncached_tokens);
        Self { cell, incarnation, uncached_tokens, accepted: false }
    }

    /// The worker.
    #[must_use]
    pub fn worker(&self) -> &WorkerId {
        self.cell.id()
    }

    /// The worker's incarnation when it was chosen.
    #[must_use]
    pub const fn incarnation(&self) -> &Incarnation {
        &self.incarnation
    }

    /// Whether the worker's first byte has come.
    #[must_use]
    pub const fn is_accepted(&self) -> bool {
        self.accepted
    }

    /// The first byte is here. `false` when that was known.
    pub(super) fn accept(&mut self) -> bool {
        if self.accepted {
            return false;
        }
        self.accepted = true;
        self.cell.computed(self.uncached_tokens);
        true
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.accepted {
            self.cell.computed(self.uncached_tokens);
        }
        self.cell.ended();
    }
}
