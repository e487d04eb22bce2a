//! One request's mark on its worker's load. Whatever becomes of the request, dropping the ticket takes the mark away.
//!
//! Not here: publishing placements (`plugin`).

use std::sync::Arc;

use covey_crdt::id::{Incarnation, WorkerId};

use crate::load::WorkerCell;

/// Counts a request on a worker from the moment it was chosen: its uncached tokens until the answer begins, the
/// request itself until the end. Hold it as long as the request runs; dropping it ends the request without a placement.
#[must_use = "dropping the ticket takes the request off its worker's load"]
#[derive(Debug)]
pub struct Ticket {
    cell: Arc<WorkerCell>,
    incarnation: Incarnation,
    uncached_tokens: u64,
    accepted: bool,
    answering: bool,
}

impl Ticket {
    pub(super) fn new(
        cell: Arc<WorkerCell>,
        incarnation: Incarnation,
        uncached_tokens: u64,
        is_first: bool,
        now_us: u64,
    ) -> Self {
        if is_first {
            cell.began(now_us);
        }
        cell.sent(uncached_tokens);
        Self { cell, incarnation, uncached_tokens, accepted: false, answering: false }
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

    /// Whether the worker has taken the request.
    #[must_use]
    pub const fn is_accepted(&self) -> bool {
        self.accepted
    }

    /// Whether the worker's answer has begun.
    #[must_use]
    pub const fn is_answering(&self) -> bool {
        self.answering
    }

    /// The worker has taken it. `false` when that was known.
    pub(super) const fn accept(&mut self) -> bool {
        !std::mem::replace(&mut self.accepted, true)
    }

    /// The answer begins: the prompt is computed. `false` when that was known.
    pub(super) fn answer(&mut self, now_us: u64) -> bool {
        if std::mem::replace(&mut self.answering, true) {
            return false;
        }
        self.cell.computed(self.uncached_tokens);
        self.cell.done(self.uncached_tokens, now_us);
        true
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.answering {
            self.cell.computed(self.uncached_tokens);
        }
        self.cell.ended();
    }
}
