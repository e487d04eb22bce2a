//! The all-knowing observer: every op that was ever published, every chain that was ever placed, and a slow, obvious
//! model that says what a replica must hold when it has applied a given vector.
//!
//! The model shares no code with the lattice it judges: it keeps all ops and recomputes.
//!
//! Not here: comparing (`invariants`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use covey_crdt::change::HolderKey;
use covey_crdt::hash::{BlockHash, PathId};
use covey_crdt::id::{Incarnation, LifeId, WorkerId};
use covey_crdt::keyspace::Keyspace;
use covey_crdt::lane::LaneId;
use covey_crdt::lives::Retirement;
use covey_crdt::op::Op;
use covey_crdt::replica::Expanded;
use covey_crdt::stamp::{Rank, Stamp};
use covey_mesh::node::Node;

/// What has happened.
#[derive(Clone, Debug, Default)]
pub struct Oracle {
    /// Every op, by life and sequence number.
    ops: BTreeMap<LifeId, Vec<Op>>,
    /// Every path ever placed: its parent and depth.
    paths: BTreeMap<PathId, (PathId, u32)>,
    /// How long the log of every life that was ever retired is, and when that was decided.
    ends: BTreeMap<LifeId, Retirement>,
    /// What each worker's incarnation really accepted.
    accepted: BTreeSet<(WorkerId, Incarnation, PathId)>,
}

/// What a holder must cover: stamp and depth by path.
pub type Coverage = BTreeMap<PathId, (Stamp, u32)>;

impl Oracle {
    /// Writes down that a worker accepted a chain.
    pub fn accept(&mut self, worker: &WorkerId, incarnation: &Incarnation, chain: &[BlockHash]) {
        let mut path = PathId::ROOT;
        for (depth, block) in (1..).zip(chain) {
            let child = path.child(*block);
            self.paths.insert(child, (path, depth));
            self.accepted.insert((worker.clone(), incarnation.clone(), child));
            path = child;
        }
    }

    /// Writes down what a node published since the last look.
    ///
    /// # Panics
    /// When the node's own log has a gap: its host looked too late.
    pub fn record(&mut self, node: &Node) {
        let own = self.ops.entry(node.life()).or_default();
        let first = own.len() as u64 + 1;
        if node.vector().head(node.life()).seq >= first {
            let fresh = node.retained(node.life(), first).expect("own ops are looked at as they are published");
            own.extend(fresh.map(|(_, op)| op.clone()));
        }
        for op in own.get(first as usize - 1..).into_iter().flatten() {
            if let Op::Retired(end) = op {
                let known = self.ends.entry(end.life).or_insert(Retirement { last: 0, at: Stamp::ZERO });
                known.last = known.last.max(end.last);
                known.at = known.at.max(end.stamp);
            }
        }
    }

    /// Every life that published, and how many ops.
    pub fn heads(&self) -> impl Iterator<Item = (LifeId, u64)> + '_ {
        self.ops.iter().map(|(life, ops)| (*life, ops.len() as u64))
    }

    /// Everything a life published, in order.
    #[must_use]
    pub fn log(&self, life: LifeId) -> &[Op] {
        self.ops.get(&life).map_or(&[], Vec::as_slice)
    }

    /// Ops ever published.
    #[must_use]
    pub fn published(&self) -> u64 {
        self.ops.values().map(|ops| ops.len() as u64).sum()
    }

    /// What a replica counts: its vector, and the whole logs of the lives that are retired there, forgotten ones included.
    #[must_use]
    pub fn counts(&self, vector: &BTreeMap<LifeId, u64>, state: &Expanded) -> BTreeMap<LifeId, u64> {
        let mut all = vector.clone();
        all.extend(state.retired.iter().map(|(life, end)| (*life, end.last)));
        let forgotten = self.ends.iter().filter(|(life, end)| {
            end.at <= state.forgotten && !vector.contains_key(life) && !state.retired.contains_key(life)
        });
        all.extend(forgotten.map(|(life, end)| (*life, end.last)));
        all
    }

    /// The ops that a vector counts.
    pub fn counted<'a>(&'a self, vector: &'a BTreeMap<LifeId, u64>) -> impl Iterator<Item = &'a Op> {
        vector.iter().filter_map(|(life, seq)| Some(self.ops.get(life)?.iter().take(*seq as usize))).flatten()
    }

    /// Every op ever published.
    pub fn ops(&self) -> impl Iterator<Item = &Op> {
        self.ops.values().flatten()
    }

    /// The parent of a path that was placed.
    #[must_use]
    pub fn parent(&self, path: PathId) -> Option<PathId> {
        self.paths.get(&path).map(|(parent, _)| *parent)
    }

    /// Whether the worker's incarnation was really sent this path.
    #[must_use]
    pub fn was_accepted(&self, worker: &WorkerId, incarnation: &Incarnation, path: PathId) -> bool {
        self.accepted.contains(&(worker.clone(), incarnation.clone(), path))
    }

    /// Incarnation of every worker and coverage of every holder that a clean replica with this vector must have.
    #[must_use]
    pub fn expect(
        &self,
        vector: &BTreeMap<LifeId, u64>,
    ) -> (BTreeMap<WorkerId, Incarnation>, BTreeMap<HolderKey, Coverage>) {
        let facts: Vec<Fact> = self.counted(vector).flat_map(facts).collect();
        let mut incarnations: BTreeMap<WorkerId, Incarnation> = BTreeMap::new();
        for fact in &facts {
            let newest = incarnations.entry(fact.worker.clone()).or_insert_with(|| fact.incarnation.clone());
            *newest = fact.incarnation.clone().max(newest.clone());
        }
        let mut capacity: BTreeMap<WorkerId, u64> = BTreeMap::new();
        let mut floors: BTreeMap<HolderKey, Rank> = BTreeMap::new();
        let mut coverage: BTreeMap<HolderKey, Coverage> = BTreeMap::new();
        for fact in facts.into_iter().filter(|fact| incarnations[&fact.worker] == fact.incarnation) {
            match fact.says {
                Says::Exists => {}
                Says::Capacity(tokens) => {
                    let least = capacity.entry(fact.worker).or_insert(tokens);
                    *least = tokens.min(*least);
                }
                Says::Floor(keyspace, rank) => {
                    let floor = floors.entry(holder(&fact.worker, &keyspace)).or_insert(Rank::LOWEST);
                    *floor = rank.max(*floor);
                }
                Says::Touch(keyspace, mut path, newest) => {
                    let blocks = coverage.entry(holder(&fact.worker, &keyspace)).or_default();
                    while let Some((parent, depth)) = self.paths.get(&path) {
                        let stamp = blocks.entry(path).or_insert((newest, *depth));
                        stamp.0 = newest.max(stamp.0);
                        path = *parent;
                    }
                }
            }
        }
        for (key, blocks) in &mut coverage {
            let floor = floors.get(key).copied().unwrap_or(Rank::LOWEST);
            let room = key.keyspace.capacity_blocks(capacity.get(&key.worker).copied());
            keep_top(blocks, floor, room as usize);
        }
        coverage.retain(|key, blocks| !blocks.is_empty() && !incarnations[&key.worker].is_removed());
        (incarnations, coverage)
    }
}

fn keep_top(blocks: &mut Coverage, floor: Rank, room: usize) {
    let mut ranks: Vec<Rank> = blocks.values().map(|(stamp, depth)| Rank { stamp: *stamp, depth: *depth }).collect();
    ranks.retain(|rank| *rank > floor);
    ranks.sort_unstable();
    // Blocks of equal rank (two branches at one depth under one stamp) cannot exist: a stamp is one touch.
    let least = ranks.len().checked_sub(room).and_then(|nth| ranks.get(nth)).copied();
    blocks.retain(|_, (stamp, depth)| {
        let rank = Rank { stamp: *stamp, depth: *depth };
        rank > floor && least.is_none_or(|least| rank >= least)
    });
}

fn holder(worker: &WorkerId, keyspace: &Arc<Keyspace>) -> HolderKey {
    HolderKey { worker: worker.clone(), keyspace: Arc::clone(keyspace), lane: LaneId::PLAIN }
}

/// One thing an op says about one incarnation of a worker.
struct Fact {
    worker: WorkerId,
    incarnation: Incarnation,
    says: Says,
}

enum Says {
    Exists,
    Capacity(u64),
    Floor(Arc<Keyspace>, Rank),
    Touch(Arc<Keyspace>, PathId, Stamp),
}

fn facts(op: &Op) -> Vec<Fact> {
    let fact = |worker: &WorkerId, incarnation: &Incarnation, says: Says| Fact {
        worker: worker.clone(),
        incarnation: incarnation.clone(),
        says,
    };
    match op {
        Op::Touch(touch) => {
            let says = Says::Touch(Arc::clone(&touch.keyspace), touch.tip.path, touch.stamp);
            vec![fact(&touch.worker, &touch.incarnation, says)]
        }
        Op::Floor(raise) => {
            vec![fact(&raise.worker, &raise.incarnation, Says::Floor(Arc::clone(&raise.keyspace), raise.floor))]
        }
        Op::Worker(update) => {
            let says = update.capacity_tokens.map_or(Says::Exists, Says::Capacity);
            vec![fact(&update.worker, &update.incarnation, says)]
        }
        Op::Stored(batch) => vec![fact(&batch.worker, &batch.key.incarnation, Says::Exists)],
        Op::Restated(slice) => {
            let mut all = Vec::new();
            for (worker, record) in &slice.workers {
                let says = record.capacity_tokens.map_or(Says::Exists, Says::Capacity);
                all.push(fact(worker, &record.incarnation, says));
            }
            for part in &slice.holders {
                let says = Says::Floor(Arc::clone(&part.keyspace), part.floor);
                all.push(fact(&part.worker, &part.incarnation, says));
                for (stamp, tip) in &part.segments {
                    let says = Says::Touch(Arc::clone(&part.keyspace), tip.path, *stamp);
                    all.push(fact(&part.worker, &part.incarnation, says));
                }
            }
            all
        }
        Op::Joined { .. } | Op::Left | Op::Retired(_) | Op::Forget(_) => Vec::new(),
    }
}
