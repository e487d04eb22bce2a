//! The slow, obvious model: a list of all ops, recomputed from nothing each time.
//!
//! Shares nothing with the fast replica but names and the path hash. There is no order of application in it: every
//! answer is a maximum, a minimum or a sort over the *set* of ops, so it says what any order must give.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use covey_crdt::change::HolderKey;
use covey_crdt::hash::{BlockHash, PathId};
use covey_crdt::id::{Incarnation, LifeId, WorkerId};
use covey_crdt::keyspace::{Keyspace, Unit};
use covey_crdt::lane::LaneId;
use covey_crdt::lives::LifeRecord;
use covey_crdt::op::{FloorRaise, Op, Touch, WorkerUpdate};
use covey_crdt::replica::Expanded;
use covey_crdt::stamp::{Floor, Stamp};
use covey_crdt::worker::WorkerRecord;

/// One op of a history: whose log it stands in, and the content of the chain it names, if it names one.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) life: LifeId,
    pub(crate) op: Op,
    pub(crate) chain: Arc<[BlockHash]>,
}

/// `(stamp, −depth)`: of two ranks the larger is the more recent.
type Recency = (Stamp, Reverse<u32>);

/// What a replica that saw exactly these ops must hold.
pub(crate) fn expected(ops: &[Entry]) -> Expanded {
    let records = records(ops);
    let coverage = holders(ops, &records)
        .into_iter()
        .filter_map(|(worker, keyspace)| {
            let held = holder(ops, &worker, &keyspace, &records[&worker]);
            let nothing = held.0 == Floor::LOWEST && held.1.is_empty();
            (!nothing).then_some((HolderKey { worker, keyspace, lane: LaneId::PLAIN }, held))
        })
        .collect();
    // Histories retire nobody: that is the mesh's business, and judged there.
    Expanded {
        records,
        lives: lives(ops),
        retired: BTreeMap::new(),
        forgotten: Stamp::ZERO,
        coverage,
        feeds: BTreeMap::new(),
    }
}

fn named(op: &Op) -> Option<(&WorkerId, &Incarnation)> {
    match op {
        Op::Touch(touch) => Some((&touch.worker, &touch.incarnation)),
        Op::Floor(raise) => Some((&raise.worker, &raise.incarnation)),
        Op::Worker(update) => Some((&update.worker, &update.incarnation)),
        // Histories hold no restated slices: whole slices are joined and judged in `slices`.
        Op::Joined { .. } | Op::Left | Op::Restated(_) | Op::Retired(_) | Op::Forget(_) => None,
    }
}

/// The largest incarnation anybody named; inside it the smallest capacity and the latest meta.
fn records(ops: &[Entry]) -> BTreeMap<WorkerId, WorkerRecord> {
    let mut latest: BTreeMap<WorkerId, Incarnation> = BTreeMap::new();
    for (worker, incarnation) in ops.iter().filter_map(|entry| named(&entry.op)) {
        let known = latest.entry(worker.clone()).or_insert_with(|| incarnation.clone());
        *known = known.clone().max(incarnation.clone());
    }
    let record = |worker: &WorkerId, incarnation: Incarnation| {
        let all: Vec<_> = ops.iter().filter_map(|entry| update(&entry.op)).collect();
        let updates = || all.iter().filter(|update| update.worker == *worker && update.incarnation == incarnation);
        let capacity_tokens = updates().filter_map(|update| update.capacity_tokens).min();
        let meta = updates().filter_map(|update| update.meta.clone()).max_by_key(|meta| meta.stamp);
        WorkerRecord { incarnation, capacity_tokens, meta }
    };
    latest.into_iter().map(|(worker, incarnation)| (worker.clone(), record(&worker, incarnation))).collect()
}

const fn update(op: &Op) -> Option<&WorkerUpdate> {
    if let Op::Worker(update) = op { Some(update) } else { None }
}

fn lives(ops: &[Entry]) -> BTreeMap<LifeId, LifeRecord> {
    let left = |life: LifeId| ops.iter().any(|entry| entry.life == life && entry.op == Op::Left);
    let mut all = BTreeMap::new();
    for entry in ops {
        if let Op::Joined { name } = &entry.op {
            all.insert(entry.life, LifeRecord { name: name.clone(), left: left(entry.life) });
        }
    }
    all
}

/// Every holder that an op names, of whatever incarnation, unless its worker is removed.
fn holders(ops: &[Entry], records: &BTreeMap<WorkerId, WorkerRecord>) -> BTreeSet<(WorkerId, Arc<Keyspace>)> {
    let mut all = BTreeSet::new();
    for entry in ops {
        if let Op::Touch(Touch { worker, keyspace, .. }) | Op::Floor(FloorRaise { worker, keyspace, .. }) = &entry.op
            && !records[worker].incarnation.is_removed()
        {
            all.insert((worker.clone(), Arc::clone(keyspace)));
        }
    }
    all
}

/// The most recent `capacity` of all blocks above every published floor. The floor is the largest published one, or the
/// rank of the first block that does not fit when there is one.
///
/// That is also the floor of whoever cut on the way: a block is cut when `capacity` others outrank it, ranks only rise,
/// and a published floor that takes one of those others is itself above the block.
fn holder(
    ops: &[Entry],
    worker: &WorkerId,
    keyspace: &Arc<Keyspace>,
    record: &WorkerRecord,
) -> (Floor, BTreeMap<PathId, (Stamp, u32)>) {
    let mut floor: Recency = (Stamp::ZERO, Reverse(u32::MAX));
    let mut touched: BTreeMap<PathId, (Stamp, u32)> = BTreeMap::new();
    let here = |on: &WorkerId, at: &Arc<Keyspace>, under: &Incarnation| {
        on == worker && at == keyspace && *under == record.incarnation
    };
    for entry in ops {
        if let Op::Touch(touch) = &entry.op
            && here(&touch.worker, &touch.keyspace, &touch.incarnation)
        {
            let mut path = PathId::ROOT;
            for (depth, hash) in (1..).zip(entry.chain.iter()) {
                path = path.child(*hash);
                let block = touched.entry(path).or_insert((touch.stamp, depth));
                block.0 = block.0.max(touch.stamp);
            }
        }
        if let Op::Floor(raise) = &entry.op
            && here(&raise.worker, &raise.keyspace, &raise.incarnation)
        {
            floor = floor.max((raise.floor.stamp, Reverse(raise.floor.depth)));
        }
    }
    let mut blocks: Vec<(Recency, PathId)> =
        touched.into_iter().map(|(path, (stamp, depth))| ((stamp, Reverse(depth)), path)).collect();
    blocks.retain(|(recency, _)| *recency > floor);
    blocks.sort_by_key(|(recency, _)| Reverse(*recency));
    let room = capacity_blocks(keyspace, record.capacity_tokens);
    if let Some((first_out, _)) = blocks.get(room) {
        floor = *first_out;
        blocks.truncate(room);
    }
    let kept = blocks.into_iter().map(|((stamp, Reverse(depth)), path)| (path, (stamp, depth))).collect();
    (Floor { stamp: floor.0, depth: floor.1.0 }, kept)
}

/// Ruling R6, written out a second time.
fn capacity_blocks(keyspace: &Keyspace, tokens: Option<u64>) -> usize {
    let unit_per_token = match keyspace.unit {
        Unit::Tokens => 1,
        Unit::Bytes => 4,
    };
    tokens.map_or(1 << 24, |tokens| (tokens * unit_per_token / u64::from(keyspace.block_units)).max(1) as usize)
}
