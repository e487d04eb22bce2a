//! One copy of the index: runs, holders and worker records as of one version.
//!
//! Holders keep their shape (worker → keyspace → lane). Of the attention groups only the first answers for now; a worker
//! reaches as far as the deeper of its placed and its stored coverage says, since the floors of placements rise behind
//! events. What lower tiers hold beyond that is told apart. Not here: two copies and
//! swapping them (`publish`). Upholds I8 together with `publish`: a copy that readers see does not change.

use std::collections::BTreeMap;
use std::sync::Arc;

use covey_crdt::change::{Coverage, FeedView, WorkerView};
use covey_crdt::hash::BlockHash;
use covey_crdt::id::{LifeId, WorkerId};
use covey_crdt::keyspace::Keyspace;
use covey_crdt::lane::{LaneId, Tier};
use covey_mesh::input::Load;

use super::op::Op;
use super::overlap::{Overlap, Step, Version};
use super::runs::{Runs, SpaceNo};
use super::sets::{Sets, depths};
use super::walk::Walk;
use crate::bits::Bits;
use crate::load::{WorkerCell, WorkerNo};

/// One keyspace and lane that some holder has coverage in.
#[derive(Clone, Debug)]
struct Space {
    keyspace: Arc<Keyspace>,
    lane: LaneId,
    /// Workers with a placed holder here.
    workers: Bits,
    /// What engines say they store here.
    stored: Sets,
}

impl Space {
    fn workers_mut(&mut self, coverage: Coverage) -> &mut Bits {
        match coverage {
            Coverage::Placed => &mut self.workers,
            Coverage::Stored => &mut self.stored.workers,
        }
    }
}

/// What a holder slot stands for.
#[derive(Clone, Copy, Debug)]
struct Holder {
    worker: WorkerNo,
    space: SpaceNo,
    coverage: Coverage,
}

/// What the copy knows of one worker. It keeps the worker's number alive.
#[derive(Clone, Debug)]
struct Known {
    cell: Arc<WorkerCell>,
    holders: u32,
    view: Option<WorkerView>,
    feed: Option<FeedView>,
    registers: BTreeMap<LifeId, Load>,
    others: Load,
}

/// One copy of the index.
#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    version: Version,
    runs: Runs,
    spaces: Vec<Option<Space>>,
    holders: Vec<Option<Holder>>,
    workers: Vec<Option<Known>>,
    /// Workers with a record that is not a tombstone: only these answer.
    recorded: Bits,
}

impl Model {
    /// An empty copy at the start of a life.
    pub(super) fn new(life: u64) -> Self {
        Self { version: Version { life, changes: 0 }, ..Self::default() }
    }

    pub(super) const fn version(&self) -> Version {
        self.version
    }

    /// Who covers how much of `chain`, from the root.
    pub(super) fn lookup(&self, keyspace: &Arc<Keyspace>, chain: &[BlockHash]) -> Overlap {
        let tiers = [Tier::Device, Tier::Host, Tier::Storage];
        let spaces = tiers.map(|tier| LaneId::of(0, tier).and_then(|lane| self.space(keyspace, lane)));
        let mut overlap = match spaces[0] {
            Some((no, space)) => {
                let walk = Walk::new(space.workers.clone(), &self.recorded);
                let placed = walk.run(&self.runs, no, chain, self.version);
                if space.stored.workers.is_empty() { placed } else { self.with_stored(placed, &space.stored, chain) }
            }
            None => Overlap { version: self.version, ..Overlap::default() },
        };
        if spaces[1..].iter().flatten().any(|(_, space)| !space.stored.workers.is_empty()) {
            let all: Vec<&Sets> = spaces.iter().flatten().map(|(_, space)| &space.stored).collect();
            overlap.below = self.below(&overlap, depths(&all, chain));
        }
        overlap
    }

    /// The deeper of placed and stored coverage, worker by worker.
    fn with_stored(&self, placed: Overlap, stored: &Sets, chain: &[BlockHash]) -> Overlap {
        let mut is_partly_hidden = placed.is_partly_hidden;
        let mut seen = depths(&[stored], chain);
        for (_, workers) in &mut seen {
            is_partly_hidden |= !workers.is_within(&self.recorded);
            workers.keep(&self.recorded);
        }
        let placed = placed.steps.into_iter().map(|step| (step.depth, step.iter().map(|no| no.0).collect::<Bits>()));
        let mut all: Vec<(u32, Bits)> = placed.chain(seen).collect();
        all.sort_by_key(|(depth, _)| std::cmp::Reverse(*depth));
        let (mut done, mut steps) = (Bits::default(), Vec::<Step>::new());
        for (depth, mut workers) in all {
            workers.subtract(&done);
            if workers.is_empty() {
                continue;
            }
            workers.iter().for_each(|worker| done.insert(worker));
            match steps.last_mut().filter(|step| step.depth == depth) {
                Some(step) => step.join(&workers),
                None => steps.push(Step::of(depth, workers)),
            }
        }
        Overlap { version: self.version, steps, below: Vec::new(), is_partly_hidden }
    }

    /// What lower tiers add to an answer.
    fn below(&self, overlap: &Overlap, all: Vec<(u32, Bits)>) -> Vec<Step> {
        let deeper = all.into_iter().filter_map(|(depth, workers)| {
            let more = |worker: &u32| self.recorded.contains(*worker) && overlap.depth_of(WorkerNo(*worker)) < depth;
            let workers: Bits = workers.iter().filter(more).collect();
            (!workers.is_empty()).then(|| Step::of(depth, workers))
        });
        deeper.collect()
    }

    /// How far the worker's feed is.
    pub(super) fn feed(&self, worker: WorkerNo) -> Option<&FeedView> {
        self.known(worker)?.feed.as_ref()
    }

    /// The id of a worker this copy knows.
    pub(super) fn id(&self, worker: WorkerNo) -> Option<&WorkerId> {
        self.known(worker).map(|known| known.cell.id())
    }

    /// The worker's record, tombstones included.
    pub(super) fn view(&self, worker: WorkerNo) -> Option<&WorkerView> {
        self.known(worker)?.view.as_ref()
    }

    /// The other live gateways' load on the worker, summed.
    pub(super) fn others(&self, worker: WorkerNo) -> Load {
        self.known(worker).map_or_else(Load::default, |known| known.others)
    }

    /// Runs and holders in the copy.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.runs.len(), self.holders.iter().flatten().count())
    }

    pub(super) fn apply(&mut self, op: &Op) {
        self.version.changes += 1;
        match op {
            Op::Run { run, parent, hashes } => self.runs.insert(*run, *parent, Arc::clone(hashes)),
            Op::RunFreed { run } => self.runs.free(*run),
            Op::Holder { slot, cell, keyspace, lane, coverage } => {
                self.holder(slot.0 as usize, cell, (keyspace, *lane), *coverage);
            }
            Op::Stored { slot, added, removed } => {
                let holder = self.holders.get(slot.0 as usize).copied().flatten().expect("a set is of a live holder");
                let space = self.spaces[holder.space.0 as usize].as_mut();
                let sets = &mut space.expect("a holder's space lives as long as the holder").stored;
                sets.remove(holder.worker.0, removed);
                sets.add(holder.worker.0, added);
            }
            Op::Feed { cell, feed } => {
                self.known_mut(cell).feed.clone_from(feed);
                self.forget_unused(cell.no());
            }
            Op::HolderFreed { slot } => self.holder_freed(slot.0 as usize),
            Op::Reach { slot, run, blocks } => {
                let holder = self.holders.get(slot.0 as usize).copied().flatten().expect("a reach names a live holder");
                self.runs.set_reach(*run, holder.space, holder.worker.0, *blocks);
            }
            Op::Worker { cell, view } => {
                self.known_mut(cell).view = Some(view.clone());
                if view.incarnation.is_removed() {
                    self.recorded.remove(cell.no().0);
                } else {
                    self.recorded.insert(cell.no().0);
                }
            }
            Op::WorkerFreed { cell } => {
                self.known_mut(cell).view = None;
                self.recorded.remove(cell.no().0);
                self.forget_unused(cell.no());
            }
            Op::Load { life, cell, load } => self.load(*life, cell, *load),
        }
    }

    fn holder(
        &mut self,
        slot: usize,
        cell: &Arc<WorkerCell>,
        (keyspace, lane): (&Arc<Keyspace>, LaneId),
        coverage: Coverage,
    ) {
        let space = self.space(keyspace, lane).map(|(no, _)| no).unwrap_or_else(|| self.new_space(keyspace, lane));
        let entry = self.spaces[space.0 as usize].as_mut().expect("the space was just found or made");
        entry.workers_mut(coverage).insert(cell.no().0);
        self.known_mut(cell).holders += 1;
        if slot >= self.holders.len() {
            self.holders.resize(slot + 1, None);
        }
        let before = self.holders[slot].replace(Holder { worker: cell.no(), space, coverage });
        assert!(before.is_none(), "a holder slot is reused only after it was freed");
    }

    fn holder_freed(&mut self, slot: usize) {
        let holder =
            self.holders.get_mut(slot).and_then(Option::take).expect("a holder is freed once, after it was made");
        let space = &mut self.spaces[holder.space.0 as usize];
        let entry = space.as_mut().expect("a holder's space lives as long as the holder");
        entry.workers_mut(holder.coverage).remove(holder.worker.0);
        if entry.workers.is_empty() && entry.stored.workers.is_empty() {
            debug_assert_eq!(entry.stored.len(), 0, "a holder goes with its last block");
            *space = None;
        }
        let known = self.workers[holder.worker.0 as usize].as_mut().expect("a holder's worker is known");
        known.holders -= 1;
        self.forget_unused(holder.worker);
    }

    fn load(&mut self, life: LifeId, cell: &Arc<WorkerCell>, load: Load) {
        let known = self.known_mut(cell);
        if load == Load::default() {
            known.registers.remove(&life);
        } else {
            known.registers.insert(life, load);
        }
        known.others = known.registers.values().fold(Load::default(), |sum, register| Load {
            requests: sum.requests.saturating_add(register.requests),
            queued_tokens: sum.queued_tokens.saturating_add(register.queued_tokens),
        });
        self.forget_unused(cell.no());
    }

    /// Keyspaces are few, and their texts are compared only when they are not the same allocation.
    fn space(&self, keyspace: &Arc<Keyspace>, lane: LaneId) -> Option<(SpaceNo, &Space)> {
        let same = |space: &Space| {
            space.lane == lane && (Arc::ptr_eq(&space.keyspace, keyspace) || space.keyspace == *keyspace)
        };
        self.spaces
            .iter()
            .zip(0..)
            .find_map(|(space, no)| space.as_ref().filter(|space| same(space)).map(|space| (SpaceNo(no), space)))
    }

    fn new_space(&mut self, keyspace: &Arc<Keyspace>, lane: LaneId) -> SpaceNo {
        let at = self.spaces.iter().position(Option::is_none).unwrap_or(self.spaces.len());
        if at == self.spaces.len() {
            self.spaces.push(None);
        }
        self.spaces[at] =
            Some(Space { keyspace: Arc::clone(keyspace), lane, workers: Bits::default(), stored: Sets::default() });
        SpaceNo(u32::try_from(at).expect("keyspaces are bounded"))
    }

    fn known(&self, worker: WorkerNo) -> Option<&Known> {
        self.workers.get(worker.0 as usize)?.as_ref()
    }

    fn known_mut(&mut self, cell: &Arc<WorkerCell>) -> &mut Known {
        let at = cell.no().0 as usize;
        if at >= self.workers.len() {
            self.workers.resize(at + 1, None);
        }
        self.workers[at].get_or_insert_with(|| Known {
            cell: Arc::clone(cell),
            holders: 0,
            view: None,
            feed: None,
            registers: BTreeMap::new(),
            others: Load::default(),
        })
    }

    fn forget_unused(&mut self, worker: WorkerNo) {
        let slot = &mut self.workers[worker.0 as usize];
        if slot
            .as_ref()
            .is_some_and(|k| k.holders == 0 && k.view.is_none() && k.feed.is_none() && k.registers.is_empty())
        {
            *slot = None;
        }
    }
}
