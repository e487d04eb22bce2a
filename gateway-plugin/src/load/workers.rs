//! Interning worker ids to numbers, and the list of workers this gateway can route to.
//!
//! Readers load one immutable [`Table`] and take no lock; whoever adds or removes a worker copies it under a lock.
//! A number is reused only when no table, index copy or ticket holds its cell any more, so numbers stay as few as the
//! workers there are at one time (I9). Not here: load itself (`cell`).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::{ArcSwap, Guard};
use covey_crdt::id::WorkerId;
use covey_mesh::input::Load;

use super::cell::{WorkerCell, WorkerNo};
use super::progress::Pace;
use super::unseen::Typical;
use crate::bits::Bits;

/// One immutable list of workers.
#[derive(Clone, Debug, Default)]
pub struct Table {
    by_no: Vec<Option<Arc<WorkerCell>>>,
    routable: Vec<WorkerNo>,
    routable_bits: Bits,
}

impl Table {
    /// The cell of a number, if it stands for a worker.
    #[must_use]
    pub fn cell(&self, no: WorkerNo) -> Option<&Arc<WorkerCell>> {
        self.by_no.get(no.0 as usize)?.as_ref()
    }

    /// The workers this gateway can route to, ascending.
    #[must_use]
    pub fn routable(&self) -> &[WorkerNo] {
        &self.routable
    }

    /// Whether this gateway can route to the worker.
    #[must_use]
    pub fn is_routable(&self, no: WorkerNo) -> bool {
        self.routable_bits.contains(no.0)
    }
}

/// Every worker this process knows of.
#[derive(Debug, Default)]
pub struct Workers {
    table: ArcSwap<Table>,
    numbers: Mutex<BTreeMap<WorkerId, WorkerNo>>,
    /// How fast workers compute, all together.
    pace: Arc<Pace>,
    /// What requests are like at present.
    typical: Typical,
}

impl Workers {
    /// The present list. Waits for nobody.
    #[must_use]
    pub fn table(&self) -> Guard<Arc<Table>> {
        self.table.load()
    }

    /// The worker's cell, if it has one.
    #[must_use]
    pub fn find(&self, id: &WorkerId) -> Option<Arc<WorkerCell>> {
        let no = *self.lock().get(id)?;
        self.table.load().cell(no).cloned()
    }

    /// The worker's cell; a new number when it has none yet.
    #[must_use]
    pub fn intern(&self, id: &WorkerId) -> Arc<WorkerCell> {
        let mut numbers = self.lock();
        self.intern_locked(&mut numbers, id)
    }

    /// This gateway can route to the worker from now on.
    pub fn add_routable(&self, id: &WorkerId) -> Arc<WorkerCell> {
        let mut numbers = self.lock();
        let cell = self.intern_locked(&mut numbers, id);
        let mut table = Table::clone(&self.table.load());
        if let Err(at) = table.routable.binary_search(&cell.no()) {
            table.routable.insert(at, cell.no());
            table.routable_bits.insert(cell.no().0);
            self.table.store(Arc::new(table));
        }
        cell
    }

    /// This gateway does not route to the worker any more. `false` when it did not before.
    pub fn remove_routable(&self, id: &WorkerId) -> bool {
        let numbers = self.lock();
        let Some(no) = numbers.get(id) else { return false };
        let mut table = Table::clone(&self.table.load());
        let Ok(at) = table.routable.binary_search(no) else { return false };
        table.routable.remove(at);
        table.routable_bits.remove(no.0);
        self.table.store(Arc::new(table));
        true
    }

    /// A worker told how many requests it has, `unseen` of them more than gateways account for.
    pub(crate) fn told(&self, cell: &WorkerCell, told: u32, unseen: u32, now_us: u64) {
        cell.told(told, unseen, self.typical.tokens(), now_us);
        if !self.typical.is_due(now_us) {
            return;
        }
        let table = self.table.load();
        let (mut own, mut all) = (Load::default(), (0_u32, 0_u32));
        for cell in table.by_no.iter().flatten() {
            let (load, (told, unseen)) = (cell.load(), cell.told_counts(now_us));
            let queued = load.queued_tokens - cell.computed_of(load.queued_tokens, now_us).min(load.queued_tokens);
            own.requests = own.requests.saturating_add(load.requests);
            own.queued_tokens = own.queued_tokens.saturating_add(queued);
            all = (all.0.saturating_add(told), all.1.saturating_add(unseen));
        }
        self.typical.look(own, all.0, all.1);
    }

    /// The share of workers' requests that no gateway accounts for, lately.
    pub(crate) fn unseen_share(&self) -> f64 {
        self.typical.unseen()
    }

    /// Appends what this gateway has outstanding on every worker it knows, zeros included.
    pub fn sample(&self, out: &mut Vec<(WorkerId, Load)>) {
        let table = self.table.load();
        out.extend(table.by_no.iter().flatten().map(|cell| (cell.id().clone(), cell.load())));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<WorkerId, WorkerNo>> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn intern_locked(&self, numbers: &mut BTreeMap<WorkerId, WorkerNo>, id: &WorkerId) -> Arc<WorkerCell> {
        let mut table = Table::clone(&self.table.load());
        if let Some(cell) = numbers.get(id).and_then(|no| table.cell(*no)) {
            return Arc::clone(cell);
        }
        Self::forget_unused(&mut table, numbers);
        let free = table.by_no.iter().position(Option::is_none).unwrap_or(table.by_no.len());
        let no = WorkerNo(u32::try_from(free).expect("fewer than 2^32 workers fit into memory"));
        let cell = Arc::new(WorkerCell::new(id.clone(), no, Arc::clone(&self.pace)));
        if free == table.by_no.len() {
            table.by_no.push(None);
        }
        table.by_no[free] = Some(Arc::clone(&cell));
        numbers.insert(id.clone(), no);
        self.table.store(Arc::new(table));
        cell
    }

    /// Frees the numbers of workers that nothing but the present table and `table`, its copy, refers to.
    fn forget_unused(table: &mut Table, numbers: &mut BTreeMap<WorkerId, WorkerNo>) {
        const TABLES: usize = 2;
        for slot in &mut table.by_no {
            let unused = slot
                .as_ref()
                .filter(|cell| Arc::strong_count(cell) == TABLES && !table.routable_bits.contains(cell.no().0));
            if let Some(cell) = unused {
                numbers.remove(cell.id());
                *slot = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> WorkerId {
        WorkerId::new(name, 0).expect("a name")
    }

    #[test]
    fn a_number_is_reused_only_when_nothing_holds_its_worker() {
        let workers = Workers::default();
        let a = workers.add_routable(&id("a"));
        let b = workers.intern(&id("b"));
        assert_eq!((a.no(), b.no()), (WorkerNo(0), WorkerNo(1)));
        assert_eq!(workers.intern(&id("c")).no(), WorkerNo(2), "b is held, c is new");
        assert_eq!(workers.intern(&id("d")).no(), WorkerNo(2), "nobody held c");
        drop(b);
        assert!(workers.remove_routable(&id("a")));
        drop(a);
        assert_eq!(workers.intern(&id("e")).no(), WorkerNo(0));
        assert!(workers.find(&id("b")).is_none());
    }

    #[test]
    fn only_workers_the_gateway_has_seen_are_routable() {
        let workers = Workers::default();
        let _recorded = workers.intern(&id("a"));
        let b = workers.add_routable(&id("b"));
        assert_eq!(workers.table().routable(), [b.no()]);
        assert!(!workers.remove_routable(&id("a")));
        assert!(workers.table().is_routable(b.no()));
    }
}
