//! What runs beside a node on its thread: carries the node's outputs into the index, the view and the counters.
//!
//! Not here: the driver's trait (`host`), the index itself. One feed per life; a later life's feed silences it.

use std::sync::Arc;
use std::time::Duration;

use covey_crdt::change::Change;
use covey_crdt::id::{LifeId, WorkerId};
use covey_mesh::input::Load;
use covey_mesh::note::Note;

use super::notes::Notes;
use super::view::View;
use crate::index::Writer;
use crate::load::Workers;

/// The feed of one life.
#[derive(Debug)]
pub struct Feed {
    writer: Writer,
    view: Arc<View>,
    notes: Arc<Notes>,
    workers: Arc<Workers>,
    /// The replica became clean; readers are told once everything it had by then is published.
    is_clean_unshown: bool,
}

impl Feed {
    pub(super) fn new(writer: Writer, view: Arc<View>, notes: Arc<Notes>, workers: Arc<Workers>) -> Self {
        writer.if_current(|| view.started());
        Self { writer, view, notes, workers, is_clean_unshown: false }
    }

    /// The replica changed.
    pub fn changed(&mut self, change: Change) {
        self.writer.changed(change);
    }

    /// A gateway's load on a worker is now this; zero when it is not live any more.
    pub fn load(&mut self, life: LifeId, worker: &WorkerId, load: Load) {
        self.writer.load(life, worker, load);
    }

    /// The node observed something.
    pub fn note(&mut self, note: &Note) {
        self.notes.count(note);
        if let Note::Clock { state, .. } = note {
            self.writer.if_current(|| self.view.set_clock(*state));
        }
        if matches!(note, Note::Clean) {
            self.is_clean_unshown = true;
        }
    }

    /// Shows readers everything so far. `Some`: readers held it up; call again after that time.
    pub fn publish(&mut self) -> Option<Duration> {
        let retry = self.writer.publish();
        if self.is_clean_unshown && retry.is_none() {
            self.is_clean_unshown = false;
            self.writer.if_current(|| self.view.cleaned());
        }
        retry
    }

    /// Appends what this gateway has outstanding on every worker.
    pub fn sample_load(&self, out: &mut Vec<(WorkerId, Load)>) {
        self.workers.sample(out);
    }
}
