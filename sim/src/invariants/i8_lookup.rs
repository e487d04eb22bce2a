//! I8: a lookup equals a brute-force answer from the state version it names. Every simulated node feeds the gateway's own
//! read index; at checks random chains are looked up in it and in the node's replica, expanded, prefix by prefix.
//!
//! Not here: readers beside a writer (the index's own tests).

use std::collections::BTreeMap;
use std::sync::Arc;

use covey_crdt::change::{Change, HolderKey};
use covey_crdt::hash::{BlockHash, PathId};
use covey_crdt::id::{LifeId, WorkerId};
use covey_crdt::keyspace::Keyspace;
use covey_crdt::lane::LaneId;
use covey_crdt::replica::Expanded;
use covey_gateway_plugin::index::{Index, Reading, Writer};
use covey_gateway_plugin::load::Workers;
use covey_mesh::input::Load;

use super::Violation;

/// One chain to look up.
pub type Query = (Arc<Keyspace>, Vec<BlockHash>);

/// Loads by gateway life and worker.
pub type Loads = BTreeMap<(LifeId, WorkerId), Load>;

/// The read index of one life of a node.
#[derive(Debug)]
pub struct Lookups {
    life: LifeId,
    workers: Arc<Workers>,
    index: Arc<Index>,
    writer: Writer,
}

impl Lookups {
    /// An empty index.
    #[must_use]
    pub fn new(life: LifeId) -> Self {
        let workers: Arc<Workers> = Arc::default();
        let index = Arc::new(Index::new(Arc::clone(&workers)));
        let writer = index.writer(life);
        Self { life, workers, index, writer }
    }

    /// The replica changed.
    pub fn changed(&mut self, change: Change) {
        self.writer.changed(change);
    }

    /// A gateway's load on a worker is now this.
    pub fn load(&mut self, life: LifeId, worker: &WorkerId, load: Load) {
        self.writer.load(life, worker, load);
    }

    /// Publishes and says what the index answers wrongly, given what the replica and the load registers really say.
    pub fn check(&mut self, name: &str, state: &Expanded, loads: &Loads, queries: &[Query]) -> Vec<Violation> {
        let mut found = Vec::new();
        if self.writer.publish().is_some() {
            found.push(Violation::new("I8", format!("{name}: the index cannot be published though nobody reads it")));
        }
        let reading = self.index.load();
        found.extend(queries.iter().filter_map(|query| wrong_answer(name, &reading, state, query)));
        found.extend(self.wrong_loads(name, &reading, loads));
        found
    }

    fn wrong_loads(&self, name: &str, reading: &Reading, loads: &Loads) -> Vec<Violation> {
        let mut sums: BTreeMap<&WorkerId, Load> = BTreeMap::new();
        for ((life, worker), load) in loads {
            let sum = sums.entry(worker).or_default();
            if *life != self.life {
                sum.requests += load.requests;
                sum.queued_tokens += load.queued_tokens;
            }
        }
        let wrong = sums.into_iter().filter_map(|(worker, sum)| {
            let seen = self.workers.find(worker).map_or_else(Load::default, |cell| reading.others(cell.no()));
            (seen != sum).then(|| format!("{name}: the index has {seen:?} on {worker}, the registers say {sum:?}"))
        });
        wrong.map(|what| Violation::new("I8", what)).collect()
    }
}

fn wrong_answer(name: &str, reading: &Reading, state: &Expanded, (keyspace, chain): &Query) -> Option<Violation> {
    let overlap = reading.lookup(keyspace, chain);
    let mut answered = BTreeMap::new();
    for step in overlap.steps() {
        for no in step.iter() {
            let worker = reading.id(no).cloned();
            let twice = answered.insert(worker.clone(), step.depth).is_some();
            if worker.is_none() || twice {
                let what = format!("{name}: a lookup names {worker:?} twice, or nobody");
                return Some(Violation::new("I8", what));
            }
        }
    }
    let expected = brute_force(state, keyspace, chain);
    let answered: BTreeMap<WorkerId, u32> =
        answered.into_iter().filter_map(|(worker, depth)| Some((worker?, depth))).collect();
    (answered != expected).then(|| {
        let (model, blocks) = (keyspace.model.as_str(), chain.len());
        let what = format!("{name}: of {blocks} blocks in {model} the index says {answered:?}, the state {expected:?}");
        Violation::new("I8", what)
    })
}

/// How many blocks of the chain each worker covers, by looking at every prefix.
fn brute_force(state: &Expanded, keyspace: &Arc<Keyspace>, chain: &[BlockHash]) -> BTreeMap<WorkerId, u32> {
    let mut found = BTreeMap::new();
    for (worker, record) in &state.records {
        let key = HolderKey { worker: worker.clone(), keyspace: Arc::clone(keyspace), lane: LaneId::PLAIN };
        if record.incarnation.is_removed() {
            continue;
        }
        let placed = state.coverage.get(&key).map(|(_, blocks)| blocks);
        let mut path = PathId::ROOT;
        let covered = chain.iter().take_while(|block| {
            path = path.child(**block);
            placed.is_some_and(|blocks| blocks.contains_key(&path))
        });
        let set = state.feeds.get(worker).and_then(|feed| feed.lanes().get(&(Arc::clone(keyspace), LaneId::PLAIN)));
        let stored = chain.iter().take_while(|block| set.is_some_and(|set| set.blocks().contains(block)));
        let depth = covered.count().max(stored.count()) as u32;
        if depth > 0 {
            found.insert(worker.clone(), depth);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariants::made::{self, chain, keyspace, worker};

    fn queries() -> Vec<Query> {
        vec![(keyspace(), chain(0, 9)), (keyspace(), chain(1, 4)), (keyspace(), chain(7, 3))]
    }

    #[test]
    fn an_index_that_was_told_everything_answers_as_the_state_does() {
        let mut made = made::lone();
        let state = made.node.replica().expand();
        assert_eq!(made.lookups.check("gw-0", &state, &Loads::new(), &queries()), []);
        assert!(brute_force(&state, &keyspace(), &chain(0, 9)).contains_key(&worker(0)), "something is covered");
    }

    #[test]
    fn an_index_that_missed_a_change_is_found() {
        let made = made::lone();
        let state = made.node.replica().expand();
        let mut stale = Lookups::new(made.node.life());
        for change in made.changes.iter().filter(|change| !matches!(change, Change::Reach { .. })) {
            stale.changed(change.clone());
        }
        let found = stale.check("gw-0", &state, &Loads::new(), &queries());
        assert!(found.iter().all(|violation| violation.invariant == "I8") && !found.is_empty(), "{found:?}");
    }

    #[test]
    fn an_index_that_keeps_what_is_gone_is_found() {
        let mut made = made::lone();
        let mut state = made.node.replica().expand();
        state.coverage.clear();
        assert_eq!(
            made.lookups.check("gw-0", &state, &Loads::new(), &queries()).len(),
            2,
            "both chains that were placed"
        );
    }

    #[test]
    fn loads_of_dead_gateways_that_still_count_are_found() {
        let mut made = made::lone();
        let state = made.node.replica().expand();
        let load = Load { requests: 2, queued_tokens: 10 };
        made.lookups.load(LifeId(9), &worker(0), load);
        let registers = |load| Loads::from([((LifeId(9), worker(0)), load)]);
        assert_eq!(made.lookups.check("gw-0", &state, &registers(load), &[]), []);
        assert_eq!(made.lookups.check("gw-0", &state, &registers(Load::default()), &[]).len(), 1);
    }
}
