//! The workers this gateway was told of, and what it has seen of each: pure state, no I/O.
//!
//! Not here: asking them (`health`, `probe`). Health is local: a worker this gateway cannot reach is masked for itself
//! alone.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use covey_crdt::id::WorkerId;
use tokio::sync::Notify;

use crate::cli::WorkerSpec;
use crate::plugin::Detector;

/// Health checks that must fail in a row before a worker is masked.
const FAILURES_MAX: u32 = 2;

/// A change of a worker's health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turned {
    /// It can take requests (again).
    Up,
    /// It cannot.
    Down,
}

/// What a probe found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probed {
    /// The engine's mark for its own life.
    pub token: String,
    /// Its cache in tokens, when it says.
    pub capacity_tokens: Option<u64>,
    /// Requests it has, waiting ones included, when it says.
    pub requests: Option<u32>,
}

#[derive(Debug, Default)]
struct State {
    /// `None` before the first check.
    up: Option<bool>,
    failures: u32,
    checked: bool,
    probe_tried: bool,
    probed: Option<Probed>,
}

/// One worker.
#[derive(Debug)]
pub struct Worker {
    /// Its id in the whole mesh.
    pub id: WorkerId,
    /// Where it listens, without a slash at the end.
    pub url: String,
    /// Which rank it is to its engine; `None` where that has only one.
    pub rank: Option<u16>,
    /// Wakes the prober of its address.
    pub(super) probe_wanted: Arc<Notify>,
    state: Mutex<State>,
    detector: Mutex<Detector>,
}

impl Worker {
    fn new(spec: &WorkerSpec, probe_wanted: &Arc<Notify>) -> Self {
        Self {
            id: spec.id.clone(),
            url: spec.url.clone(),
            rank: spec.sent_rank(),
            probe_wanted: Arc::clone(probe_wanted),
            state: Mutex::default(),
            detector: Mutex::default(),
        }
    }

    /// Predictions for it against its reports. Held for one call.
    pub(crate) fn detector(&self) -> MutexGuard<'_, Detector> {
        self.detector.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A health check came back.
    pub(super) fn checked(&self, healthy: bool) -> Option<Turned> {
        let mut state = self.state();
        state.checked = true;
        if healthy {
            state.failures = 0;
            return (state.up.replace(true) != Some(true)).then_some(Turned::Up);
        }
        state.failures = state.failures.saturating_add(1);
        let down = state.failures >= FAILURES_MAX && state.up != Some(false);
        down.then(|| {
            state.up = Some(false);
            Turned::Down
        })
    }

    /// A request could not be delivered: no need to wait for the next check.
    pub(super) fn unreachable(&self) -> Option<Turned> {
        let mut state = self.state();
        (state.up.replace(false) != Some(false)).then_some(Turned::Down)
    }

    /// A probe was tried, and found this.
    pub(super) fn probed(&self, found: Option<Probed>) {
        let mut state = self.state();
        state.probe_tried = true;
        if let Some(found) = found {
            let before = state.probed.replace(found.clone());
            drop(state);
            if before.is_some_and(|before| before.token != found.token) {
                // What the cache before this one reported says nothing of it.
                self.detector().forget();
            }
        }
    }

    /// Whether it can take requests, as far as known; `None` before the first check.
    #[must_use]
    pub fn is_up(&self) -> Option<bool> {
        self.state().up
    }

    /// What the last successful probe found.
    #[must_use]
    pub fn last_probe(&self) -> Option<Probed> {
        self.state().probed.clone()
    }

    /// Whether enough is known to route: it was found down, or was probed.
    fn is_known(&self) -> bool {
        let state = self.state();
        state.checked && (state.up != Some(true) || state.probe_tried)
    }
}

/// All workers, in the order of the command line.
#[derive(Debug)]
pub struct Workers {
    list: Vec<Arc<Worker>>,
    by_id: HashMap<WorkerId, Arc<Worker>>,
}

impl Workers {
    pub(super) fn new(specs: &[WorkerSpec]) -> Self {
        let addresses = specs.chunk_by(|one, next| one.url == next.url).flat_map(|ranks| {
            let probe_wanted = Arc::new(Notify::new());
            ranks.iter().map(move |spec| Arc::new(Worker::new(spec, &probe_wanted)))
        });
        let list: Vec<_> = addresses.collect();
        let by_id = list.iter().map(|worker| (worker.id.clone(), Arc::clone(worker))).collect();
        Self { list, by_id }
    }

    /// The workers.
    #[must_use]
    pub fn all(&self) -> &[Arc<Worker>] {
        &self.list
    }

    /// The workers behind each address, in the order of their ranks.
    pub(super) fn addresses(&self) -> impl Iterator<Item = &[Arc<Worker>]> {
        self.list.chunk_by(|one, next| one.url == next.url)
    }

    /// The workers behind one address.
    pub(super) fn behind(&self, url: &str) -> impl Iterator<Item = &Arc<Worker>> {
        self.list.iter().filter(move |worker| worker.url == url)
    }

    pub(super) fn find(&self, id: &WorkerId) -> Option<&Arc<Worker>> {
        self.by_id.get(id)
    }

    /// Workers not yet checked and probed for the first time.
    pub(super) fn unknown(&self) -> usize {
        self.list.iter().filter(|worker| !worker.is_known()).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker() -> Worker {
        Worker::new(&WorkerSpec::parse("w=http://h:1").expect("a spec"), &Arc::default())
    }

    #[test]
    fn two_failures_mask_and_one_success_brings_back() {
        let worker = worker();
        assert_eq!(worker.checked(true), Some(Turned::Up));
        assert_eq!(worker.checked(false), None);
        assert_eq!(worker.checked(true), None, "failures must be in a row");
        assert_eq!(worker.checked(false), None);
        assert_eq!(worker.checked(false), Some(Turned::Down));
        assert_eq!(worker.checked(false), None);
        assert_eq!(worker.checked(true), Some(Turned::Up));
    }

    #[test]
    fn an_undeliverable_request_masks_at_once() {
        let worker = worker();
        let _ = worker.checked(true);
        assert_eq!(worker.unreachable(), Some(Turned::Down));
        assert_eq!(worker.unreachable(), None);
        assert_eq!(worker.checked(true), Some(Turned::Up));
    }

    #[test]
    fn a_worker_is_known_once_it_is_down_or_probed() {
        let workers = Workers::new(&[WorkerSpec::parse("w=http://h:1").expect("a spec")]);
        assert_eq!(workers.unknown(), 1);
        let _ = workers.all()[0].checked(true);
        assert_eq!(workers.unknown(), 1);
        workers.all()[0].probed(None);
        assert_eq!(workers.unknown(), 0);
    }
}
