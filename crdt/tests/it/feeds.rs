//! Feeds: whatever order, repeats and whole states its ops arrive by, a replica ends in the state with the largest key, and
//! what readers saw of it is exactly that state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use covey_crdt::change::{Change, Coverage, FeedView, HolderKey, HolderSlot};
use covey_crdt::codec::{decode_feed, decode_stored, encode_feed, encode_stored};
use covey_crdt::digest::Digest;
use covey_crdt::hash::BlockHash;
use covey_crdt::id::{Incarnation, Token, WorkerId};
use covey_crdt::lane::LaneId;
use covey_crdt::lattice::Merged;
use covey_crdt::limits::HASHES_PER_OP_MAX;
use covey_crdt::replica::Replica;
use covey_crdt::stored::{FeedGap, FeedState, Generation, StoredKey, StoredLane, StoredOp};
use covey_crdt::worker::WorkerRecord;
use proptest::prelude::*;

use crate::generate::{keyspace, life, worker};

fn incarnation(counter: u64) -> Incarnation {
    Incarnation { counter, token: Token::new(&format!("boot-{counter}")).expect("a token") }
}

/// One batch: how many ops it is split into, and what each toggles (lane, block).
type Batch = Vec<Vec<(u8, u64)>>;

/// Everything one engine and its ingesters ever said: a chain of ops, and the state after each.
#[derive(Clone, Debug)]
struct Story {
    ops: Vec<StoredOp>,
    states: Vec<FeedState>,
}

/// A story of incarnations × generations × batches. Every generation begins with what the one before held.
fn story() -> impl Strategy<Value = Story> {
    let op = prop::collection::vec((0u8..2, 0u64..12), 0..5);
    let batch = prop::collection::vec(op, 1..3);
    let generation = prop::collection::vec(batch, 1..4);
    prop::collection::vec(prop::collection::vec(generation, 1..3), 1..3).prop_map(|incarnations| told(&incarnations))
}

fn told(incarnations: &[Vec<Vec<Batch>>]) -> Story {
    let mut story = Story { ops: Vec::new(), states: Vec::new() };
    for (counter, generations) in (1..).zip(incarnations) {
        let (mut generation, mut sets) = (Generation::default(), BTreeMap::new());
        for batches in generations {
            generation = generation.next(life(0));
            for (position, batch) in (7..).zip(batches) {
                for (part, toggles) in (0..).zip(batch) {
                    let key = StoredKey { incarnation: incarnation(counter), generation, position, part };
                    let begins = position == 7 && part == 0;
                    let is_last = part as usize + 1 == batch.len();
                    story.push(tell(key, begins, is_last, &mut sets, toggles));
                }
            }
        }
    }
    story
}

type Sets = BTreeMap<u8, BTreeSet<BlockHash>>;

fn tell(key: StoredKey, begins: bool, is_last: bool, sets: &mut Sets, toggles: &[(u8, u64)]) -> StoredOp {
    let before = if begins { Sets::new() } else { sets.clone() };
    for (lane, block) in toggles {
        let set = sets.entry(*lane).or_default();
        if !set.remove(&BlockHash(*block)) {
            set.insert(BlockHash(*block));
        }
    }
    let lanes = (0..2).filter_map(|lane| {
        let (was, is) = (before.get(&lane).cloned().unwrap_or_default(), sets.get(&lane).cloned().unwrap_or_default());
        let added: Vec<_> = is.difference(&was).copied().collect();
        let removed: Vec<_> = was.difference(&is).copied().collect();
        let touched = !added.is_empty() || !removed.is_empty();
        touched.then(|| StoredLane { keyspace: keyspace(0), lane: LaneId(lane), added, removed })
    });
    let is_complete = key.generation.counter % 2 == 1;
    StoredOp { worker: worker(0), begins, is_last, is_complete, lanes: lanes.collect(), key }
}

impl Story {
    fn push(&mut self, op: StoredOp) {
        let state = if op.begins {
            FeedState::begun(&op)
        } else {
            let mut state = self.states.last().expect("a generation begins with an op that says so").clone();
            let _ = state.apply(&op).expect("ops follow each other");
            state
        };
        self.ops.push(op);
        self.states.push(state);
    }
}

/// What a reader that sees only changes knows of feeds.
#[derive(Default)]
struct Mirror {
    holders: BTreeMap<HolderSlot, (HolderKey, BTreeSet<BlockHash>)>,
    feed: Option<FeedView>,
}

impl Mirror {
    fn apply(&mut self, change: Change) {
        match change {
            Change::Holder { slot, key, coverage } => {
                assert_eq!(coverage, Coverage::Stored);
                assert!(self.holders.insert(slot, (key, BTreeSet::new())).is_none(), "a slot in use is given again");
            }
            Change::HolderFreed { slot } => {
                let (_, set) = self.holders.remove(&slot).expect("freed once");
                assert!(set.is_empty(), "it still held {set:?}");
            }
            Change::Stored { slot, added, removed } => {
                let set = &mut self.holders.get_mut(&slot).expect("a live holder").1;
                assert!(removed.iter().all(|block| set.remove(block)), "what goes was there");
                assert!(added.iter().all(|block| set.insert(*block)), "what comes was not");
                assert!(!(added.is_empty() && removed.is_empty()), "a change that changes nothing");
            }
            Change::Feed { worker: whose, feed } => {
                assert_eq!(whose, worker(0));
                self.feed = feed;
            }
            Change::Worker(_) => {}
            Change::Run { .. } | Change::RunFreed { .. } | Change::Reach { .. } | Change::WorkerFreed { .. } => {
                panic!("feeds touch no chains: {change:?}")
            }
        }
    }

    fn is(&self, state: Option<&FeedState>) -> bool {
        let mine: BTreeMap<_, _> = self.holders.values().map(|(key, set)| (key.lane, set.clone())).collect();
        let theirs: BTreeMap<_, _> = state
            .iter()
            .flat_map(|state| state.lanes())
            .map(|((_, lane), set)| (*lane, set.blocks().clone()))
            .collect();
        mine == theirs && self.feed == state.map(FeedView::of)
    }
}

/// One way something reaches a replica.
#[derive(Clone, Copy, Debug)]
enum Way {
    Op(usize),
    Whole(usize),
    Record(usize),
}

fn ways(count: usize) -> impl Strategy<Value = Vec<Way>> {
    let nth = 0..count;
    let way = prop_oneof![
        6 => nth.clone().prop_map(Way::Op),
        1 => nth.clone().prop_map(Way::Whole),
        1 => nth.prop_map(Way::Record),
    ];
    prop::collection::vec(way, 0..40)
}

fn deliver(replica: &mut Replica, story: &Story, way: Way) -> Result<Merged, FeedGap> {
    match way {
        Way::Op(nth) => replica.apply_feed(&story.ops[nth]),
        Way::Whole(nth) => Ok(replica.install_feed(&worker(0), Arc::new(story.states[nth].clone()))),
        Way::Record(nth) => {
            let record = WorkerRecord::new(story.ops[nth].key.incarnation.clone());
            Ok(replica.merge_record(&worker(0), &record))
        }
    }
}

fn end_of(story: &Story, ways: &[Way]) -> Replica {
    let (mut replica, mut mirror) = (Replica::default(), Mirror::default());
    for way in ways.iter().copied().chain((0..story.ops.len()).map(Way::Op)) {
        let before = (replica.feed(&worker(0)).cloned(), replica.digest());
        let known = replica.record(&worker(0)).map(|record| record.incarnation.clone());
        let result = deliver(&mut replica, story, way);
        replica.take_changes().for_each(|change| mirror.apply(change));
        assert!(replica.is_consistent(), "digests and counts");
        let after = (replica.feed(&worker(0)).cloned(), replica.digest());
        assert!(mirror.is(after.0.as_ref()), "readers see the state and nothing else");
        let incarnation = replica.record(&worker(0)).map(|record| record.incarnation.clone());
        match result {
            Err(FeedGap) | Ok(Merged::Unchanged) => assert_eq!((&before, &known), (&after, &incarnation)),
            Ok(Merged::Grew) => {
                assert_ne!((&before, &known), (&after, &incarnation));
                let key = |state: &Option<FeedState>| state.as_ref().map(|state| state.key.clone());
                assert!(incarnation > known || key(&after.0) > key(&before.0), "I4: neither regresses");
            }
        }
        let told = after.0.as_ref().map(|state| story.states.iter().any(|told| told == state));
        assert_ne!(told, Some(false), "no state but one of the story's: {after:?}");
        let past = replica.feed(&worker(0)).map(|state| Some(&state.key.incarnation) == incarnation.as_ref());
        assert_ne!(past, Some(false), "P1: a feed is of the worker's present incarnation");
    }
    replica
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]
    #[test]
    fn a_feed_ends_in_its_last_state_whatever_way_it_came(
        (story, one, other) in story().prop_flat_map(|story| {
            let count = story.ops.len();
            (Just(story), ways(count), ways(count))
        })
    ) {
        let (one, other) = (end_of(&story, &one), end_of(&story, &other));
        prop_assert_eq!(one.feed(&worker(0)), story.states.last());
        prop_assert_eq!(one.digest(), other.digest(), "I1");
        prop_assert_ne!(one.digest(), Digest::default());
    }

    #[test]
    fn feed_states_are_a_lattice(
        (story, a, b, c) in story().prop_flat_map(|story| {
            let nth = 0..story.states.len();
            (Just(story), nth.clone(), nth.clone(), nth)
        })
    ) {
        let [a, b, c] = [a, b, c].map(|nth| &story.states[nth]);
        crate::laws::lattice_laws(a, b, c);
        prop_assert_eq!(a.digest(&worker(0)) == b.digest(&worker(0)), a == b, "digests tell states apart");
    }

    #[test]
    fn ops_and_states_round_trip_and_damage_is_refused_or_read(story in story(), at in any::<prop::sample::Index>(), bit in 0u8..8) {
        for (op, state) in story.ops.iter().zip(&story.states) {
            prop_assert_eq!(decode_stored(&encode_stored(op)), Ok(op.clone()));
            prop_assert_eq!(decode_feed(&encode_feed(&worker(0), state)), Ok((worker(0), state.clone())));
            for mut bytes in [encode_stored(op), encode_feed(&worker(0), state)] {
                let at = at.index(bytes.len());
                prop_assert!(decode_stored(&bytes[..at]).is_err() && decode_feed(&bytes[..at]).is_err());
                bytes[at] ^= 1 << bit;
                let _either = (decode_stored(&bytes), decode_feed(&bytes));
            }
        }
    }
}

#[test]
fn a_gap_is_never_guessed_and_an_older_generation_changes_nothing() {
    let story =
        told(&[vec![vec![vec![vec![(0, 1)]], vec![vec![(0, 2)]], vec![vec![(0, 3)]]], vec![vec![vec![(1, 4)]]]]]);
    let mut replica = Replica::default();
    assert_eq!(replica.apply_feed(&story.ops[1]), Err(FeedGap));
    assert!(replica.feed(&worker(0)).is_none());
    assert_eq!(replica.apply_feed(&story.ops[0]), Ok(Merged::Grew));
    assert_eq!(replica.apply_feed(&story.ops[2]), Err(FeedGap));
    assert_eq!(replica.apply_feed(&story.ops[3]), Ok(Merged::Grew), "a generation begins by itself");
    for old in &story.ops[..3] {
        assert_eq!(replica.apply_feed(old), Ok(Merged::Unchanged));
    }
    assert_eq!(replica.feed(&worker(0)), story.states.last());
}

#[test]
fn an_op_of_too_many_hashes_is_refused() {
    let mut op = golden_op();
    op.lanes[0].added = (0..=HASHES_PER_OP_MAX as u64).map(BlockHash).collect();
    assert!(decode_stored(&encode_stored(&op)).is_err());
    let claimed = WorkerId::new("w", 0).expect("a name");
    let mut bytes = encode_feed(&claimed, &FeedState::begun(&golden_op()));
    let len = bytes.len();
    bytes[len - 16..len - 12].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(decode_feed(&bytes).is_err(), "a count above what is there is refused before anything is allocated");
}

fn golden_op() -> StoredOp {
    let key = StoredKey {
        incarnation: incarnation(3),
        generation: Generation::default().next(life(2)),
        position: 1_234,
        part: 0,
    };
    let lane = |lane, added: &[u64]| StoredLane {
        keyspace: keyspace(1),
        lane: LaneId(lane),
        added: added.iter().copied().map(BlockHash).collect(),
        removed: Vec::new(),
    };
    StoredOp {
        worker: worker(1),
        key,
        begins: true,
        is_last: true,
        is_complete: true,
        lanes: vec![lane(0, &[7, 8]), lane(64, &[9])],
    }
}

/// Golden bytes of this wire version.
pub(crate) fn golden() -> Vec<(String, Vec<u8>)> {
    let op = golden_op();
    let state = FeedState::begun(&op);
    vec![("stored".to_owned(), encode_stored(&op)), ("feed".to_owned(), encode_feed(&worker(1), &state))]
}
