//! What all ops together say of one worker, sorted so that what a vector counts can be read off.
//!
//! Coverage is found the obvious way: touches from the newest to the oldest, each filling its path from the root down
//! until the holder is full or the floor is reached.
//!
//! Not here: tainted workers (the observer leaves them out).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use covey_crdt::change::HolderKey;
use covey_crdt::hash::PathId;
use covey_crdt::id::{Incarnation, LifeId, WorkerId};
use covey_crdt::keyspace::Keyspace;
use covey_crdt::lane::LaneId;
use covey_crdt::op::Op;
use covey_crdt::stamp::{Rank, Stamp};

use super::Coverage;
use super::paths::{PathNr, Paths, ROOT};

/// Which op said something.
type Source = (LifeId, u64);

fn counts(vector: &BTreeMap<LifeId, u64>, (life, seq): Source) -> bool {
    vector.get(&life).is_some_and(|applied| *applied >= seq)
}

/// One worker.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    eras: BTreeMap<Incarnation, Era>,
}

/// One incarnation of a worker.
#[derive(Clone, Debug, Default)]
pub(super) struct Era {
    /// The first op of each life that names it.
    named: BTreeMap<LifeId, u64>,
    capacities: Vec<(u64, Source)>,
    spaces: BTreeMap<Arc<Keyspace>, Space>,
}

/// One keyspace of an incarnation.
#[derive(Clone, Debug, Default)]
struct Space {
    floors: Vec<(Rank, Source)>,
    touches: BTreeMap<Stamp, Vec<(PathNr, Source)>>,
}

/// One thing an op says about one incarnation of a worker.
pub(super) enum Says<'a> {
    Exists,
    Capacity(u64),
    Floor(&'a Arc<Keyspace>, Rank),
    Touch(&'a Arc<Keyspace>, PathId, Stamp),
}

/// Writes an op down.
pub(super) fn add(all: &mut BTreeMap<WorkerId, History>, paths: &Paths, life: LifeId, seq: u64, op: &Op) {
    facts(op, &mut |worker, incarnation, says| {
        if !all.contains_key(worker) {
            all.insert(worker.clone(), History::default());
        }
        let eras = &mut all.get_mut(worker).expect("inserted above").eras;
        if !eras.contains_key(incarnation) {
            eras.insert(incarnation.clone(), Era::default());
        }
        eras.get_mut(incarnation).expect("inserted above").add(paths, (life, seq), &says);
    });
}

impl History {
    /// The newest incarnation that the vector counts.
    pub(super) fn newest(&self, vector: &BTreeMap<LifeId, u64>) -> Option<(&Incarnation, &Era)> {
        let named = |era: &Era| era.named.iter().any(|(life, seq)| counts(vector, (*life, *seq)));
        self.eras.iter().rev().find(|(_, era)| named(era))
    }

    /// What was said of an incarnation.
    pub(super) fn era(&self, incarnation: &Incarnation) -> Option<&Era> {
        self.eras.get(incarnation)
    }
}

impl Era {
    fn add(&mut self, paths: &Paths, source: Source, says: &Says<'_>) {
        self.named.entry(source.0).or_insert(source.1);
        match says {
            Says::Exists => {}
            Says::Capacity(tokens) => self.capacities.push((*tokens, source)),
            Says::Floor(keyspace, rank) => self.space(keyspace).floors.push((*rank, source)),
            Says::Touch(keyspace, path, stamp) => {
                // A path nobody accepted is a phantom: I6 finds it, and it covers nothing here.
                if let Some(number) = paths.number(*path) {
                    self.space(keyspace).touches.entry(*stamp).or_default().push((number, source));
                }
            }
        }
    }

    fn space(&mut self, keyspace: &Arc<Keyspace>) -> &mut Space {
        self.spaces.entry(Arc::clone(keyspace)).or_default()
    }

    /// Adds the coverage of every holder of this incarnation.
    pub(super) fn cover(
        &self,
        worker: &WorkerId,
        vector: &BTreeMap<LifeId, u64>,
        paths: &Paths,
        coverage: &mut BTreeMap<HolderKey, Coverage>,
    ) {
        let counted = self.capacities.iter().filter(|(_, source)| counts(vector, *source));
        let capacity = counted.map(|(tokens, _)| *tokens).min();
        for (keyspace, space) in &self.spaces {
            let blocks = space.cover(vector, paths, keyspace.capacity_blocks(capacity) as usize);
            if !blocks.is_empty() {
                let (worker, keyspace) = (worker.clone(), Arc::clone(keyspace));
                coverage.insert(HolderKey { worker, keyspace, lane: LaneId::PLAIN }, blocks);
            }
        }
    }
}

impl Space {
    fn cover(&self, vector: &BTreeMap<LifeId, u64>, paths: &Paths, room: usize) -> Coverage {
        let floors = self.floors.iter().filter(|(_, source)| counts(vector, *source));
        let floor = floors.map(|(rank, _)| *rank).max().unwrap_or(Rank::LOWEST);
        let mut seen = BTreeSet::new();
        let mut blocks = Coverage::new();
        for (stamp, touches) in self.touches.iter().rev() {
            for (tip, _) in touches.iter().filter(|(_, source)| counts(vector, *source)) {
                let mut path = Vec::new();
                let mut at = *tip;
                // What a newer touch covered, it covered up to the root.
                while at != ROOT && seen.insert(at) {
                    path.push(at);
                    at = paths.get(at).parent;
                }
                for number in path.into_iter().rev() {
                    let path = paths.get(number);
                    let rank = Rank { stamp: *stamp, depth: path.depth };
                    if rank <= floor || blocks.len() == room {
                        return blocks;
                    }
                    blocks.insert(path.id, (*stamp, path.depth));
                }
            }
        }
        blocks
    }
}

/// Everything an op says.
pub(super) fn facts(op: &Op, say: &mut dyn FnMut(&WorkerId, &Incarnation, Says<'_>)) {
    match op {
        Op::Touch(touch) => {
            say(&touch.worker, &touch.incarnation, Says::Touch(&touch.keyspace, touch.tip.path, touch.stamp));
        }
        Op::Floor(raise) => say(&raise.worker, &raise.incarnation, Says::Floor(&raise.keyspace, raise.floor)),
        Op::Worker(update) => {
            let says = update.capacity_tokens.map_or(Says::Exists, Says::Capacity);
            say(&update.worker, &update.incarnation, says);
        }
        Op::Restated(slice) => {
            for (worker, record) in &slice.workers {
                say(worker, &record.incarnation, record.capacity_tokens.map_or(Says::Exists, Says::Capacity));
            }
            for part in &slice.holders {
                say(&part.worker, &part.incarnation, Says::Floor(&part.keyspace, part.floor));
                for (stamp, tip) in &part.segments {
                    say(&part.worker, &part.incarnation, Says::Touch(&part.keyspace, tip.path, *stamp));
                }
            }
        }
        Op::Joined { .. } | Op::Left | Op::Retired(_) | Op::Forget(_) => {}
    }
}
