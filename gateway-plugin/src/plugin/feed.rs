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
use crate::index::{Index, Writer};
use crate::load::Workers;

/// What a plugin and its feeds share.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    pub(super) workers: Arc<Workers>,
    pub(super) index: Arc<Index>,
    pub(super) view: Arc<View>,
    pub(super) notes: Arc<Notes>,
}

impl Default for Parts {
    fn default() -> Self {
        let workers: Arc<Workers> = Arc::default();
        let index = Arc::new(Index::new(Arc::clone(&workers)));
        Self { workers, index, view: Arc::default(), notes: Arc::default() }
    }
}

/// The feed of one life.
#[derive(Debug)]
pub struct Feed {
    writer: Writer,
    parts: Parts,
    /// The replica became clean; readers are told once everything it had by then is published.
    is_clean_unshown: bool,
}

impl Feed {
    pub(super) fn new(parts: &Parts, life: LifeId) -> Self {
        let writer = parts.index.writer(life);
        writer.if_current(|| parts.view.started());
        Self { writer, parts: parts.clone(), is_clean_unshown: false }
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
        self.parts.notes.count(note);
        if let Note::Clock { state, .. } = note {
            self.writer.if_current(|| self.parts.view.set_clock(*state));
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
            self.writer.if_current(|| self.parts.view.cleaned());
        }
        retry
    }

    /// Appends what this gateway has outstanding on every worker.
    pub fn sample_load(&self, out: &mut Vec<(WorkerId, Load)>) {
        self.parts.workers.sample(out);
    }
}
