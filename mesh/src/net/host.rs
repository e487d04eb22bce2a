//! The host of one life, left alone once that life is superseded: a thread that wakes from a stall must not publish.
//!
//! Not here: the loop that calls it (`driver`).

use std::sync::Arc;
use std::time::Duration;

use covey_crdt::change::Change;
use covey_crdt::id::{LifeId, WorkerId};

use super::Host;
use super::mesh::LifeState;
use crate::input::Load;
use crate::note::Note;
use crate::output::FeedOrder;

/// A host that is left alone once its life is superseded.
pub(super) struct LiveHost {
    host: Box<dyn Host>,
    state: Arc<LifeState>,
}

impl LiveHost {
    pub(super) fn new(host: Box<dyn Host>, state: Arc<LifeState>) -> Self {
        Self { host, state }
    }

    fn if_live(&mut self) -> Option<&mut dyn Host> {
        if self.state.is_superseded() { None } else { Some(&mut *self.host) }
    }

    pub(super) fn changed(&mut self, change: Change) {
        if let Some(host) = self.if_live() {
            host.changed(change);
        }
    }

    pub(super) fn load(&mut self, life: LifeId, worker: &WorkerId, load: Option<Load>) {
        if let Some(host) = self.if_live() {
            host.load(life, worker, load);
        }
    }

    pub(super) fn note(&mut self, note: &Note) {
        if let Some(host) = self.if_live() {
            host.note(note);
        }
    }

    pub(super) fn feed(&mut self, order: FeedOrder) {
        if let Some(host) = self.if_live() {
            host.feed(order);
        }
    }

    pub(super) fn publish(&mut self) -> Option<Duration> {
        self.if_live()?.publish()
    }

    pub(super) fn sample_load(&mut self, out: &mut Vec<(WorkerId, Load)>) {
        if let Some(host) = self.if_live() {
            host.sample_load(out);
        }
    }
}
