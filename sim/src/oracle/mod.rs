//! The all-knowing observer: every op that was ever published, every chain that was ever placed, and a slow, obvious
//! model that says what a replica must hold when it has applied a given vector.
//!
//! The model shares no code with the lattice it judges: it keeps all ops, sorted by what they speak of (`history`), and
//! recomputes from those that a vector counts.
//!
//! When an identity is used twice, one vector can stand for two logs. What the log says after it forked is then not
//! known from the vector: the workers it names are *tainted*, and judged only by all replicas being equal in the end.
//!
//! Not here: comparing (`invariants`).

mod history;
mod paths;

use std::collections::{BTreeMap, BTreeSet};

use covey_crdt::change::HolderKey;
use covey_crdt::digest::Digest;
use covey_crdt::hash::{BlockHash, PathId};
use covey_crdt::id::{Incarnation, LifeId, WorkerId};
use covey_crdt::lives::Retirement;
use covey_crdt::op::Op;
use covey_crdt::replica::Expanded;
use covey_crdt::stamp::Stamp;
use covey_mesh::node::Node;

use history::History;
use paths::Paths;

/// What a holder must cover: stamp and depth by path.
pub type Coverage = BTreeMap<PathId, (Stamp, u32)>;

/// What one life published, in one of the branches of its log.
#[derive(Clone, Debug, Default)]
struct Log {
    /// How many ops it shares with the branch it left.
    shared: u64,
    ops: Vec<Op>,
}

/// What has happened.
#[derive(Clone, Debug, Default)]
pub struct Oracle {
    /// Every op, by life and branch of its log.
    logs: BTreeMap<(LifeId, u32), Log>,
    /// Lives whose identity was used twice, and the last op that is certain.
    forked: BTreeMap<LifeId, u64>,
    tainted: BTreeSet<WorkerId>,
    /// What each node, by its life, or the donor it has its state from, ever knew of the ends of lives.
    ends: BTreeMap<LifeId, Ends>,
    history: BTreeMap<WorkerId, History>,
    paths: Paths,
    published: u64,
    takeovers: Takeovers,
}

/// What a node ever knew of the ends of lives.
#[derive(Clone, Debug, Default)]
struct Ends {
    digest: Digest,
    known: BTreeMap<LifeId, Retirement>,
}

/// Who expires whose placements.
#[derive(Clone, Debug, Default)]
struct Takeovers {
    owners: BTreeMap<WorkerId, LifeId>,
    seen: u64,
}

impl Takeovers {
    fn see(&mut self, life: LifeId, op: &Op) {
        let Op::Floor(raise) = op else { return };
        // Expiry names a moment, a reset names its own stamp.
        if raise.floor.stamp != raise.stamp
            && self.owners.insert(raise.worker.clone(), life).is_some_and(|before| before != life)
        {
            self.seen += 1;
        }
    }
}

impl Oracle {
    /// Writes down that a worker accepted a chain.
    pub fn accept(&mut self, worker: &WorkerId, incarnation: &Incarnation, chain: &[BlockHash]) {
        self.paths.accept(worker, incarnation, chain);
    }

    /// Writes down what a node published since the last look.
    ///
    /// # Panics
    /// When the node's own log has a gap: its host looked too late.
    pub fn record(&mut self, node: &Node) {
        self.record_branch(node, 0);
    }

    /// As [`Self::record`], for a node that writes a branch of its life's log.
    ///
    /// # Panics
    /// As for [`Self::record`].
    pub fn record_branch(&mut self, node: &Node, branch: u32) {
        let (life, seq) = (node.life(), node.vector().head(node.life()).seq);
        self.see_ends(node);
        let log = self.logs.entry((life, branch)).or_default();
        let first = log.shared + log.ops.len() as u64 + 1;
        if seq < first {
            return;
        }
        let certain = self.forked.get(&life).copied().unwrap_or(u64::MAX);
        let fresh = node.retained(life, first).expect("own ops are looked at as they are published");
        for (seq, op) in fresh {
            self.published += 1;
            if seq > certain {
                taint(&mut self.tainted, op);
            }
            if branch == 0 {
                history::add(&mut self.history, &self.paths, life, seq, op);
            }
            self.takeovers.see(life, op);
            log.ops.push(op.clone());
        }
    }

    /// A life's identity is used a second time, from behind op number `shared` of the log on; the new branch's number.
    pub fn fork(&mut self, life: LifeId, shared: u64) -> u32 {
        let certain = self.forked.entry(life).or_insert(shared);
        *certain = shared.min(*certain);
        for log in self.logs.range((life, 0)..=(life, u32::MAX)).map(|(_, log)| log) {
            let uncertain = certain.saturating_sub(log.shared);
            log.ops.iter().skip(uncertain as usize).for_each(|op| taint(&mut self.tainted, op));
        }
        let branch = self.logs.range((life, 0)..=(life, u32::MAX)).count() as u32;
        self.logs.insert((life, branch), Log { shared, ops: Vec::new() });
        branch
    }

    /// Whether what a replica holds of this worker cannot be told from its vector: a life that names it forked.
    #[must_use]
    pub fn is_tainted(&self, worker: &WorkerId) -> bool {
        self.tainted.contains(worker)
    }

    /// Every life that published, and the number of its last op.
    pub fn heads(&self) -> impl Iterator<Item = (LifeId, u64)> + '_ {
        let mut heads: BTreeMap<LifeId, u64> = BTreeMap::new();
        for ((life, _), log) in &self.logs {
            let head = heads.entry(*life).or_default();
            *head = (log.shared + log.ops.len() as u64).max(*head);
        }
        heads.into_iter()
    }

    /// Everything a life published, in order; without what a second use of its identity added.
    #[must_use]
    pub fn log(&self, life: LifeId) -> &[Op] {
        self.logs.get(&(life, 0)).map_or(&[], |log| &log.ops)
    }

    /// Whether some life's identity was used twice.
    #[must_use]
    pub fn forks(&self) -> bool {
        !self.forked.is_empty()
    }

    /// Whether this life's identity was used twice.
    #[must_use]
    pub fn has_forked(&self, life: LifeId) -> bool {
        self.forked.contains_key(&life)
    }

    /// Ops ever published.
    #[must_use]
    pub const fn published(&self) -> u64 {
        self.published
    }

    /// How often another life than before expired a worker's placements.
    #[must_use]
    pub const fn takeovers(&self) -> u64 {
        self.takeovers.seen
    }

    fn see_ends(&mut self, node: &Node) {
        let digest = node.replica().ends_digest();
        let ends = self.ends.entry(node.life()).or_default();
        if ends.digest != digest {
            ends.digest = digest;
            ends.known.extend(node.replica().retired().iter().map(|(life, end)| (*life, *end)));
        }
    }

    /// A node has the state of a donor now: what that one forgot, this one forgot.
    pub fn inherit(&mut self, life: LifeId, donor: LifeId) {
        let known = self.ends.get(&donor).map(|ends| ends.known.clone()).unwrap_or_default();
        self.ends.entry(life).or_default().known.extend(known);
    }

    /// The lives that a node knew to be retired and has forgotten, and how long their logs were: it counted them whole.
    fn forgotten(&self, node: LifeId, through: Stamp) -> impl Iterator<Item = (LifeId, u64)> + '_ {
        let known = self.ends.get(&node).into_iter().flat_map(|ends| &ends.known);
        known.filter(move |(_, end)| end.at <= through).map(|(life, end)| (*life, end.last))
    }

    /// Whether the node knows the life as retired, or forgot it.
    #[must_use]
    pub fn has_ended(&self, life: LifeId, node: &Node) -> bool {
        let replica = node.replica();
        replica.retired().contains_key(&life)
            || self.forgotten(node.life(), replica.forgotten()).any(|(ended, _)| ended == life)
    }

    /// The lives that are retired at a node, forgotten ones included, and how long their logs are.
    #[must_use]
    pub fn ended_at(&self, node: &Node) -> Vec<(LifeId, u64)> {
        let mut all: BTreeMap<LifeId, u64> = self.forgotten(node.life(), node.replica().forgotten()).collect();
        all.extend(node.replica().retired().iter().map(|(life, end)| (*life, end.last)));
        all.into_iter().collect()
    }

    /// What the replica of a node counts: its vector, and the whole logs of the lives that are retired there, forgotten ones
    /// included.
    #[must_use]
    pub fn counts(&self, node: LifeId, vector: &BTreeMap<LifeId, u64>, state: &Expanded) -> BTreeMap<LifeId, u64> {
        let mut all: BTreeMap<LifeId, u64> = self.forgotten(node, state.forgotten).collect();
        all.extend(vector);
        all.extend(state.retired.iter().map(|(life, end)| (*life, end.last)));
        all
    }

    /// The ops that a vector counts.
    pub fn counted<'a>(&'a self, vector: &'a BTreeMap<LifeId, u64>) -> impl Iterator<Item = &'a Op> {
        vector
            .iter()
            .filter_map(|(life, seq)| Some(self.logs.get(&(*life, 0))?.ops.iter().take(*seq as usize)))
            .flatten()
    }

    /// Every op ever published.
    pub fn ops(&self) -> impl Iterator<Item = &Op> {
        self.logs.values().flat_map(|log| &log.ops)
    }

    /// The parent of a path that was placed.
    #[must_use]
    pub fn parent(&self, path: PathId) -> Option<PathId> {
        self.paths.parent(path)
    }

    /// The 64-bit hash that names a path's last block.
    #[must_use]
    pub fn block(&self, path: PathId) -> Option<BlockHash> {
        self.paths.block(path)
    }

    /// Whether the worker's incarnation was really sent this path.
    #[must_use]
    pub fn was_accepted(&self, worker: &WorkerId, incarnation: &Incarnation, path: PathId) -> bool {
        self.paths.was_accepted(worker, incarnation, path)
    }

    /// Incarnation of every worker and coverage of every holder that a clean replica with this vector must have, but for
    /// tainted workers. `feeds` names the incarnations of its feeds: a state of a feed comes by its own log, and whoever
    /// applies it before the op that names its incarnation adopts that.
    #[must_use]
    pub fn expect(
        &self,
        vector: &BTreeMap<LifeId, u64>,
        feeds: &BTreeMap<WorkerId, Incarnation>,
    ) -> (BTreeMap<WorkerId, Incarnation>, BTreeMap<HolderKey, Coverage>) {
        let mut incarnations = BTreeMap::new();
        let mut coverage = BTreeMap::new();
        for (worker, history) in &self.history {
            if self.tainted.contains(worker) {
                continue;
            }
            let Some((incarnation, era)) = history.newest(vector) else { continue };
            let fed = feeds.get(worker).filter(|fed| *fed > incarnation);
            incarnations.insert(worker.clone(), fed.unwrap_or(incarnation).clone());
            let Some(era) = fed.map_or(Some(era), |fed| history.era(fed)) else { continue };
            if !incarnation.is_removed() {
                era.cover(worker, vector, &self.paths, &mut coverage);
            }
        }
        (incarnations, coverage)
    }
}

fn taint(tainted: &mut BTreeSet<WorkerId>, op: &Op) {
    history::facts(op, &mut |worker, _, _| {
        tainted.insert(worker.clone());
    });
}

#[cfg(test)]
mod tests;
