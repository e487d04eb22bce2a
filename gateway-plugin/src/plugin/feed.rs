//! What runs beside a node on its thread: carries the node's outputs into the index, the view and the counters.
//!
//! Not here: the driver's trait (`host`), the index itself. One feed per life; a later life's feed silences it.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use covey_crdt::change::Change;
use covey_crdt::id::{LifeId, WorkerId};
use covey_mesh::input::Load;
use covey_mesh::note::Note;
use covey_mesh::output::FeedOrder;

use super::clock::Clock;
use super::ingesting::Ingesting;
use super::notes::Notes;
use super::view::View;
use crate::index::{Index, Writer};
use crate::load::Workers;

/// What a plugin and its feeds share.
#[derive(Clone)]
pub(super) struct Parts {
    pub(super) workers: Arc<Workers>,
    pub(super) index: Arc<Index>,
    pub(super) view: Arc<View>,
    pub(super) notes: Arc<Notes>,
    pub(super) ingesting: Arc<OnceLock<Arc<dyn Ingesting>>>,
    pub(super) clock: Clock,
}

impl Parts {
    pub(super) fn new(clock: Clock) -> Self {
        let workers: Arc<Workers> = Arc::default();
        let index = Arc::new(Index::new(Arc::clone(&workers)));
        Self { workers, index, view: Arc::default(), notes: Arc::default(), ingesting: Arc::default(), clock }
    }
}

/// The feed of one life.
pub struct Feed {
    writer: Writer,
    parts: Parts,
    /// The replica became clean; readers are told once everything it had by then is published.
    is_clean_unshown: bool,
    /// What other gateways have queued, by worker; nothing where they have nothing.
    queued: BTreeMap<WorkerId, BTreeMap<LifeId, u64>>,
}

impl Feed {
    pub(super) fn new(parts: &Parts, life: LifeId) -> Self {
        let writer = parts.index.writer(life);
        writer.if_current(|| parts.view.started());
        if let Some(ingesting) = parts.ingesting.get() {
            ingesting.begun(life);
        }
        Self { writer, parts: parts.clone(), is_clean_unshown: false, queued: BTreeMap::new() }
    }

    /// The replica changed.
    pub fn changed(&mut self, change: Change) {
        if let Some(ingesting) = self.parts.ingesting.get() {
            match &change {
                Change::Feed { worker, feed } => ingesting.feed(worker, feed.as_ref()),
                Change::Worker(view) => ingesting.record(view),
                Change::Run { .. }
                | Change::RunFreed { .. }
                | Change::Holder { .. }
                | Change::HolderFreed { .. }
                | Change::Reach { .. }
                | Change::Stored { .. }
                | Change::WorkerFreed { .. } => {}
            }
        }
        self.writer.changed(change);
    }

    /// A gateway's load on a worker is now this; `None` when it is not live any more.
    pub fn load(&mut self, life: LifeId, worker: &WorkerId, load: Option<Load>) {
        self.note_queue(life, worker, load);
        self.writer.load(life, worker, load.unwrap_or_default());
    }

    /// Another gateway's queue on a worker that became shorter, or that is the first there, says what the worker is at. One that
    /// went with its gateway does not: nobody computed it.
    fn note_queue(&mut self, life: LifeId, worker: &WorkerId, load: Option<Load>) {
        let (is_live, load) = (load.is_some(), load.unwrap_or_default());
        let lives = self.queued.entry(worker.clone()).or_default();
        let was_empty = lives.is_empty();
        let before = lives.insert(life, load.queued_tokens).unwrap_or(0);
        if load.queued_tokens == 0 {
            lives.remove(&life);
        }
        if lives.is_empty() {
            self.queued.remove(worker);
        }
        let Some(cell) = self.parts.workers.find(worker) else { return };
        let now_us = self.parts.clock.now_us();
        if is_live && load.queued_tokens < before {
            cell.done(before - load.queued_tokens, now_us);
        } else if was_empty && load.queued_tokens > 0 && cell.load().queued_tokens == 0 {
            cell.began(now_us);
        }
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

    /// The node wants something of whoever reads engines' events.
    pub fn order(&self, order: FeedOrder) {
        if let Some(ingesting) = self.parts.ingesting.get() {
            ingesting.order(order);
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
