//! I7: an event-fed holder equals the worker's cache at its position. Looked at in every replica, whose feeds must be states
//! that the engine was in, and in every ingester that says it knows the cache exactly.
//!
//! What is not complete may lack blocks, and must not have others. Not here: that feeds get to the end (`world::streams`).

use std::collections::{BTreeMap, BTreeSet};

use covey_crdt::hash::BlockHash;
use covey_crdt::id::{Token, WorkerId};
use covey_crdt::stored::{FeedState, StoredKey};

use super::{View, Violation};
use crate::caches::Cache;

/// What an ingester says it knows exactly.
#[derive(Clone, Debug)]
pub struct Known {
    /// Whose.
    pub name: String,
    /// Of which worker.
    pub worker: WorkerId,
    /// At which state.
    pub key: StoredKey,
    /// The blocks.
    pub blocks: BTreeSet<BlockHash>,
}

/// Every life of every engine, by the token it had.
#[derive(Clone, Debug, Default)]
pub struct Told<'a>(BTreeMap<WorkerId, Vec<(Token, &'a Cache)>>);

impl<'a> Told<'a> {
    /// What engines held.
    pub fn new(engines: impl Iterator<Item = (WorkerId, &'a [Cache])>, token: impl Fn(usize, u64) -> Token) -> Self {
        let named = |(nth, (worker, lives)): (usize, (WorkerId, &'a [Cache]))| {
            (worker, lives.iter().map(|cache| (token(nth, cache.token), cache)).collect())
        };
        Self(engines.enumerate().map(named).collect())
    }

    /// What some life of the engine held at a position. Two lives may have had one token, and for a while a life may go by
    /// the token of the one before.
    fn states(&self, worker: &WorkerId, position: u64) -> impl Iterator<Item = &BTreeSet<BlockHash>> {
        let lives = self.0.get(worker).map_or(&[][..], Vec::as_slice);
        lives.iter().filter_map(move |(_, cache)| cache.at(position)).map(|held| &**held)
    }
}

/// Looks at a replica's feeds.
pub(super) fn check(view: &View, told: &Told<'_>) -> Vec<Violation> {
    let wrong = view.state.feeds.iter().filter(|(worker, feed)| feed.is_last && !is_true(worker, feed, told));
    wrong
        .map(|(worker, feed)| {
            let at = (&feed.key, feed.is_complete);
            let what = format!(
                "{}: {worker}'s feed of {} blocks at {at:?} is no state of its cache",
                view.name,
                feed.blocks()
            );
            Violation::new("I7", what)
        })
        .collect()
}

fn is_true(worker: &WorkerId, feed: &FeedState, told: &Told<'_>) -> bool {
    let held: BTreeSet<BlockHash> = feed.lanes().values().flat_map(|set| set.blocks().iter().copied()).collect();
    let fits = |truth: &BTreeSet<BlockHash>| if feed.is_complete { held == *truth } else { held.is_subset(truth) };
    told.states(worker, feed.key.position).any(fits)
}

/// Looks at what ingesters claim.
pub(super) fn check_known(known: &[Known], told: &Told<'_>) -> Vec<Violation> {
    let wrong = known
        .iter()
        .filter(|known| !told.states(&known.worker, known.key.position).any(|truth| *truth == known.blocks));
    wrong
        .map(|known| {
            let (name, worker, key) = (&known.name, &known.worker, &known.key);
            Violation::new("I7", format!("{name} says it knows {worker} exactly at {key:?}, and does not"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use covey_crdt::id::Incarnation;
    use covey_crdt::lane::LaneId;
    use covey_crdt::stored::{Generation, StoredLane, StoredOp};

    use super::*;
    use crate::caches::keyspace;
    use crate::invariants::made;
    use crate::plan::Stream;

    fn engine() -> Cache {
        let mut cache = Cache::new(0, 1, 30, 100);
        let mut draw = Stream::new(5, "made");
        (0..8).for_each(|_| drop(cache.step(&mut draw)));
        cache
    }

    fn view(position: u64, is_complete: bool, blocks: impl Iterator<Item = BlockHash>) -> View {
        let made = made::lone();
        let mut view = View::of("gw-0".to_owned(), &made.node);
        let token = Token::new("boot").expect("a token");
        let key = StoredKey {
            incarnation: Incarnation { counter: 1, token },
            generation: Generation::default(),
            position,
            part: 0,
        };
        let lane =
            StoredLane { keyspace: keyspace(), lane: LaneId::PLAIN, added: blocks.collect(), removed: Vec::new() };
        let worker = made::worker(0);
        let op = StoredOp { worker: worker.clone(), key, begins: true, is_last: true, is_complete, lanes: vec![lane] };
        view.state.feeds.insert(worker, FeedState::begun(&op));
        view
    }

    #[test]
    fn a_state_of_the_engine_is_true_and_any_other_is_found() {
        let cache = engine();
        let lives = [cache.clone()];
        let told = Told::new([(made::worker(0), &lives[..])].into_iter(), |_, _| Token::new("boot").expect("a token"));
        let truth = Arc::clone(cache.at(8).expect("the last"));
        let find = |view: View| check(&view, &told).len();
        assert_eq!(find(view(8, true, truth.iter().copied())), 0);
        assert_eq!(find(view(8, false, truth.iter().copied().skip(2))), 0, "it does not claim to be all");
        assert_eq!(find(view(8, true, truth.iter().copied().skip(1))), 1, "a block is missing");
        assert_eq!(find(view(8, false, truth.iter().copied().chain([BlockHash(1)]))), 1, "a block too many");
        assert_eq!(find(view(9, true, truth.iter().copied())), 1, "it was never there");
        let key = view(8, true, truth.iter().copied()).state.feeds[&made::worker(0)].key.clone();
        let known = |blocks| Known { name: "gw-0".to_owned(), worker: made::worker(0), key: key.clone(), blocks };
        assert_eq!(check_known(&[known((*truth).clone())], &told), []);
        assert_eq!(check_known(&[known(BTreeSet::new())], &told).len(), 1);
    }
}
