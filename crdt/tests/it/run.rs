//! Plays a history into a replica in some order and way, and looks at it after every step.
//!
//! Not here: what must hold (`laws`), what the changes must say (`changes`).

use std::collections::{BTreeMap, BTreeSet};

use covey_crdt::chain::{Chains, Tip};
use covey_crdt::change::{Place, RunId};
use covey_crdt::hash::{BlockHash, PathId};
use covey_crdt::lattice::Merged;
use covey_crdt::op::Op;
use covey_crdt::replica::{ApplyError, Expanded, Replica};
use covey_crdt::stamp::Rank;
use proptest::prelude::*;

use crate::changes::Mirror;
use crate::reference::Entry;

/// How an op and the content of its chain reach the replica.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    /// The whole chain, given back as soon as the op is applied.
    Whole,
    /// The whole chain, kept as a retained log would.
    Kept,
    /// Only the pieces that were not sent before, from a replica whose runs are cut differently.
    Pieces,
    /// The op before its content, as when a push is lost.
    OpFirst,
    /// As a local placement, without an op.
    Direct,
}

/// An order of delivery with repeats, and a way for each delivery.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    keys: Vec<u16>,
    ways: Vec<Way>,
    repeats: Vec<(prop::sample::Index, prop::sample::Index)>,
}

const KEYS: usize = 64;

/// Any schedule.
pub(crate) fn schedule() -> impl Strategy<Value = Schedule> {
    let way = prop_oneof![
        3 => Just(Way::Whole),
        1 => Just(Way::Kept),
        3 => Just(Way::Pieces),
        2 => Just(Way::OpFirst),
        1 => Just(Way::Direct),
    ];
    (
        prop::collection::vec(0u16..512, KEYS),
        prop::collection::vec(way, KEYS),
        prop::collection::vec(any::<(prop::sample::Index, prop::sample::Index)>(), 0..12),
    )
        .prop_map(|(keys, ways, repeats)| Schedule { keys, ways, repeats })
}

impl Schedule {
    /// The deliveries. A life's leaving is never delivered before its joining: they stand in one log.
    pub(crate) fn deliveries<'a>(&self, entries: &'a [Entry]) -> Vec<(&'a Entry, Way)> {
        let mut order: Vec<usize> = (0..entries.len()).collect();
        order.sort_by_key(|nth| self.keys[nth % KEYS]);
        for (what, at) in &self.repeats {
            order.insert(at.index(order.len() + 1), what.index(entries.len()));
        }
        let mut joined = BTreeSet::new();
        let mut deliveries = Vec::new();
        for (nth, which) in order.into_iter().enumerate() {
            let entry = &entries[which];
            let way = self.ways[nth % KEYS];
            if entry.op == Op::Left && joined.insert(entry.life) {
                let joining = |other: &&Entry| other.life == entry.life && matches!(other.op, Op::Joined { .. });
                deliveries.extend(entries.iter().find(joining).map(|joining| (joining, way)));
            }
            if matches!(entry.op, Op::Joined { .. }) {
                joined.insert(entry.life);
            }
            deliveries.push((entry, way));
        }
        deliveries
    }
}

/// A replica under observation.
pub(crate) struct Subject {
    pub(crate) replica: Replica,
    pub(crate) mirror: Mirror,
    source: Chains,
    source_places: BTreeMap<Tip, Place>,
    sent: BTreeSet<RunId>,
    kept: Vec<Place>,
}

impl Subject {
    /// Nothing yet, beside a sender that has every chain of the history, stored last one first.
    pub(crate) fn new(entries: &[Entry]) -> Self {
        let mut source = Chains::default();
        let mut source_places = BTreeMap::new();
        for entry in entries.iter().rev().filter(|entry| !entry.chain.is_empty()) {
            let place = source.insert(Place::ROOT, &entry.chain, &mut Vec::new()).expect("short enough");
            source_places.insert(source.name(place), place);
        }
        Self {
            replica: Replica::default(),
            mirror: Mirror::default(),
            source,
            source_places,
            sent: BTreeSet::new(),
            kept: Vec::new(),
        }
    }

    /// Delivers one op.
    pub(crate) fn deliver(&mut self, entry: &Entry, way: Way) -> Merged {
        let Op::Touch(touch) = &entry.op else {
            return self.replica.apply(entry.life, &entry.op).expect("names no chain");
        };
        if matches!(way, Way::OpFirst) {
            let before = self.replica.digest();
            match self.replica.apply(entry.life, &entry.op) {
                Ok(merged) => return merged,
                Err(ApplyError::Unresolved(tip)) => assert_eq!(tip, touch.tip),
            }
            assert_eq!(self.replica.digest(), before, "an op that cannot be applied alters nothing");
        }
        if matches!(way, Way::Pieces) {
            self.learn_pieces(touch.tip);
            return self.replica.apply(entry.life, &entry.op).expect("its content has just been learned");
        }
        let (place, tip) = self.replica.learn_chain(&entry.chain).expect("short enough");
        assert_eq!(tip, touch.tip);
        let merged = if matches!(way, Way::Direct) {
            self.replica.place(&touch.worker, &touch.keyspace, &touch.incarnation, place, touch.stamp)
        } else {
            self.replica.apply(entry.life, &entry.op).expect("its content has just been learned")
        };
        if matches!(way, Way::Kept) {
            self.kept.push(place)
        } else {
            self.replica.release(place)
        }
        merged
    }

    fn learn_pieces(&mut self, tip: Tip) {
        for (end, piece) in self.source.pieces(self.source_places[&tip], &|run| self.sent.contains(&run)) {
            let place = self.replica.learn(&piece).expect("short enough").expect("its base was sent before");
            self.kept.push(place);
            if self.source.is_end(end) {
                self.sent.insert(end.run);
            }
        }
    }

    /// Gives back every chain kept.
    pub(crate) fn release_all(&mut self) {
        for place in self.kept.drain(..) {
            self.replica.release(place);
        }
    }

    /// Brings the mirror up to date and compares it with the replica.
    pub(crate) fn reflect(&mut self) {
        for change in self.replica.take_changes() {
            self.mirror.apply(change);
        }
        self.mirror.verify(&self.replica);
    }
}

/// A block's parent, for every block of the history.
pub(crate) fn parents(entries: &[Entry]) -> BTreeMap<PathId, PathId> {
    let mut all = BTreeMap::new();
    for entry in entries {
        entry.chain.iter().fold(PathId::ROOT, |path: PathId, hash: &BlockHash| {
            all.insert(path.child(*hash), path);
            path.child(*hash)
        });
    }
    all
}

/// I3, and of I5 what one state shows: nothing lies at or below its holder's floor.
pub(crate) fn check_state(state: &Expanded, parents: &BTreeMap<PathId, PathId>) {
    for (key, (floor, blocks)) in &state.coverage {
        for (path, (stamp, depth)) in blocks {
            assert!(Rank { stamp: *stamp, depth: *depth } > *floor, "{key:?}: {path:?} lies under the floor");
            let parent = parents[path];
            if parent == PathId::ROOT {
                assert_eq!(*depth, 1);
                continue;
            }
            let above = blocks.get(&parent).expect("I3: covered only below something covered");
            assert!(above.0 >= *stamp && above.1 + 1 == *depth, "stamps never increase with depth");
        }
        let capacity = key.keyspace.capacity_blocks(state.records[&key.worker].capacity_tokens);
        assert!(blocks.len() <= capacity as usize, "{key:?} holds more than fits");
    }
}

/// I4, and of I5 what two successive states show: a floor is never lost inside an incarnation, nor an incarnation.
pub(crate) fn check_growth(before: &Expanded, after: &Expanded) {
    for (worker, old) in &before.records {
        let new = &after.records[worker];
        assert!(new.incarnation >= old.incarnation, "I4: {worker} went back to an older incarnation");
        if new.incarnation != old.incarnation {
            continue;
        }
        let room = |tokens: Option<u64>| tokens.unwrap_or(u64::MAX);
        assert!(room(new.capacity_tokens) <= room(old.capacity_tokens), "I4: {worker}'s capacity grew");
        assert!(new.meta >= old.meta, "{worker}'s meta went back");
        for (key, (floor, _)) in before.coverage.range(..).filter(|(key, _)| key.worker == *worker) {
            let (now, _) = after.coverage.get(key).cloned().unwrap_or((Rank::LOWEST, BTreeMap::new()));
            assert!(now >= *floor, "I4: {key:?} lost its floor");
        }
    }
    assert!(before.lives.iter().all(|(life, old)| !old.left || after.lives[life].left), "a life came back");
}
