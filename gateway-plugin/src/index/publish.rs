//! Two copies of the index, one with the readers and one with the writer, swapped without anybody waiting.
//!
//! The writer keeps the ops the copy at hand has not seen, replays them onto it, and swaps it for the published one. The
//! old copy comes back when the last reader lets go of it; until then ops are only kept, and the writer asks to be called
//! again. So the writer never waits for a reader, no reader for the writer, and a reader sees one whole version (I8). A
//! reader that never lets go costs a third copy, not an endless log (I9).
//!
//! Not here: what a copy holds (`model`).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use covey_crdt::change::{Change, FeedView, WorkerView};
use covey_crdt::hash::BlockHash;
use covey_crdt::id::{LifeId, WorkerId};
use covey_crdt::keyspace::Keyspace;
use covey_mesh::input::Load;

use super::model::Model;
use super::op::Op;
use super::overlap::{Overlap, Version};
use crate::load::{WorkerNo, Workers};

/// When to try again after readers held up a publish.
pub const PUBLISH_RETRY: Duration = Duration::from_millis(2);
/// Ops kept for a copy that readers hold; past this the published copy is cloned instead.
pub const LOG_OPS_MAX: usize = 1 << 18;

/// The index as request threads hold it.
#[derive(Debug)]
pub struct Index {
    published: ArcSwap<Model>,
    workers: Arc<Workers>,
    /// Which life may publish. Locked by writers only.
    life: Mutex<u64>,
}

impl Index {
    /// An empty index over `workers`' numbers.
    #[must_use]
    pub fn new(workers: Arc<Workers>) -> Self {
        Self { published: ArcSwap::default(), workers, life: Mutex::new(0) }
    }

    /// The present version, whole, for as long as the reading is kept. Takes no lock and waits for nobody; keep it only as
    /// long as one decision takes, because it holds up the next publish but one.
    #[must_use]
    pub fn load(&self) -> Reading {
        Reading(self.published.load())
    }

    /// The writer of a new life: the view is empty at once, and the writers of earlier lives publish no more.
    #[must_use]
    pub fn writer(self: &Arc<Self>, life: LifeId) -> Writer {
        let number = {
            let mut current = self.life.lock().unwrap_or_else(PoisonError::into_inner);
            *current += 1;
            self.published.store(Arc::new(Model::new(*current)));
            *current
        };
        let spare = Spare::Own(Model::new(number));
        Writer { index: Arc::clone(self), life, number, spare, log: VecDeque::new(), log_start: 0 }
    }
}

/// One version of the index, held.
pub struct Reading(Guard<Arc<Model>>);

impl Reading {
    /// Which version.
    #[must_use]
    pub fn version(&self) -> Version {
        self.0.version()
    }

    /// Which workers hold how much of `chain`.
    #[must_use]
    pub fn lookup(&self, keyspace: &Arc<Keyspace>, chain: &[BlockHash]) -> Overlap {
        self.0.lookup(keyspace, chain)
    }

    /// How far the worker's feed is in this version; `None`: no events of its present incarnation are known.
    #[must_use]
    pub fn feed(&self, worker: WorkerNo) -> Option<&FeedView> {
        self.0.feed(worker)
    }

    /// The id behind a number of this version's answers.
    #[must_use]
    pub fn id(&self, worker: WorkerNo) -> Option<&WorkerId> {
        self.0.id(worker)
    }

    /// The worker's record; `None` when it has none.
    #[must_use]
    pub fn worker(&self, worker: WorkerNo) -> Option<&WorkerView> {
        self.0.view(worker)
    }

    /// The other live gateways' load on the worker, summed.
    #[must_use]
    pub fn others(&self, worker: WorkerNo) -> Load {
        self.0.others(worker)
    }

    /// Runs and holders, for gauges.
    #[must_use]
    pub fn size(&self) -> (usize, usize) {
        self.0.size()
    }
}

/// The copy the writer works on next.
#[derive(Debug)]
enum Spare {
    /// It is the writer's alone.
    Own(Model),
    /// It was published until the last swap; readers may still hold it.
    Retired(Arc<Model>),
    /// It is being worked on, or this life is over.
    Gone,
}

/// Feeds one life's changes into the index.
#[derive(Debug)]
pub struct Writer {
    index: Arc<Index>,
    life: LifeId,
    number: u64,
    spare: Spare,
    /// Ops that the spare copy has not seen.
    log: VecDeque<Op>,
    /// How many ops came before the first in `log`.
    log_start: u64,
}

impl Writer {
    /// The replica changed. Readers see it after the next [`Self::publish`].
    pub fn changed(&mut self, change: Change) {
        self.log.push_back(Op::of(change, &self.index.workers));
    }

    /// A gateway's load is now this. This gateway's own is counted where it arises and ignored here.
    pub fn load(&mut self, life: LifeId, worker: &WorkerId, load: Load) {
        if life != self.life {
            self.log.push_back(Op::Load { life, cell: self.index.workers.intern(worker), load });
        }
    }

    /// Shows readers everything so far. `Some`: readers held the copy up; call again after that time.
    pub fn publish(&mut self) -> Option<Duration> {
        let until = Version { life: self.number, changes: self.log_start + self.log.len() as u64 };
        if self.index.published.load().version() == until {
            return None;
        }
        let mut model = match std::mem::replace(&mut self.spare, Spare::Gone) {
            Spare::Own(model) => model,
            Spare::Retired(held) => match Arc::try_unwrap(held) {
                Ok(model) => model,
                Err(_) if self.log.len() > LOG_OPS_MAX => self.index.published.load().as_ref().clone(),
                Err(held) => {
                    self.spare = Spare::Retired(held);
                    return Some(PUBLISH_RETRY);
                }
            },
            Spare::Gone => return None,
        };
        let seen = usize::try_from(model.version().changes - self.log_start).expect("a log fits into memory");
        self.log.iter().skip(seen).for_each(|op| model.apply(op));
        self.swap(model);
        None
    }

    /// Runs `then` only if no later life has begun, and keeps one from beginning meanwhile. `then` must not block.
    pub fn if_current(&self, then: impl FnOnce()) -> bool {
        let current = self.index.life.lock().unwrap_or_else(PoisonError::into_inner);
        let is_current = *current == self.number;
        if is_current {
            then();
        }
        is_current
    }

    /// How many ops wait for the copy that readers hold.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.log.len()
    }

    fn swap(&mut self, model: Model) {
        let mut retired = None;
        let mut model = Some(Arc::new(model));
        self.if_current(|| retired = model.take().map(|model| self.index.published.swap(model)));
        let Some(retired) = retired else {
            self.log.clear();
            return;
        };
        let seen = usize::try_from(retired.version().changes - self.log_start).expect("a log fits into memory");
        self.log.drain(..seen);
        self.log_start += seen as u64;
        self.spare = Spare::Retired(retired);
    }
}
