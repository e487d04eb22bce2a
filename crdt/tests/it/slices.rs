//! Whole replicas are a lattice too: one is joined into another by walking all its slices, however small they are cut
//! and however much the donor changes on the way.

use std::collections::BTreeSet;

use covey_crdt::change::{Change, Place, RunId};
use covey_crdt::codec::{decode_chains, decode_slice, encode_chains, encode_slice};
use covey_crdt::lattice::Merged;
use covey_crdt::replica::{ApplyError, Replica};
use covey_crdt::slice::{Cursor, Piece};
use covey_crdt::stamp::Rank;
use proptest::prelude::*;

use crate::changes::Mirror;
use crate::generate::{self, CUT_3, History, LONG, TIGHT};
use crate::reference::{Entry, expected};
use crate::run::{Way, check_growth, check_state, parents};

/// How one walk is done.
#[derive(Clone, Copy, Debug)]
struct Manner {
    budget_bytes: usize,
    /// The donor remembers what it sent, and the receiver keeps it until the walk is over.
    remember: bool,
}

fn manner() -> impl Strategy<Value = Manner> {
    let budget_bytes = prop_oneof![Just(1usize), 1..300usize, Just(4_096), Just(1 << 20)];
    (budget_bytes, any::<bool>()).prop_map(|(budget_bytes, remember)| Manner { budget_bytes, remember })
}

/// One walk from a donor into a receiver.
struct Walk {
    manner: Manner,
    cursor: Option<Cursor>,
    sent: BTreeSet<RunId>,
    kept: Vec<Place>,
}

impl Walk {
    fn new(manner: Manner) -> Self {
        Self { manner, cursor: Some(Cursor::Start), sent: BTreeSet::new(), kept: Vec::new() }
    }

    /// Moves the next slice, through bytes. `None` when the walk is complete.
    fn step(&mut self, donor: &Replica, receiver: &mut Replica) -> Option<Merged> {
        let cursor = self.cursor.take()?;
        let piece = donor.piece(&cursor, self.manner.budget_bytes, &|run| self.sent.contains(&run));
        check_size(donor, &piece, self.manner.budget_bytes);
        let slice = decode_slice(&encode_slice(&piece.slice)).expect("our own bytes");
        let chains = decode_chains(&encode_chains(&piece.chains)).expect("our own bytes");
        assert_eq!((&slice, &chains), (&piece.slice, &piece.chains));
        let learned: Vec<Place> = chains
            .iter()
            .map(|chain| receiver.learn(chain).expect("short enough").expect("its base is known"))
            .collect();
        let before = receiver.digest();
        let merged = receiver.merge_slice(&slice).expect("its chains have just been learned");
        assert_eq!(merged == Merged::Grew, receiver.digest() != before, "Grew iff something changed");
        if self.manner.remember {
            let ends = piece.ends.iter().filter(|end| donor.chains().is_end(**end));
            self.sent.extend(ends.map(|end| end.run));
            self.kept.extend(learned);
        } else {
            learned.into_iter().for_each(|place| receiver.release(place));
        }
        assert_ne!(slice.next.as_ref(), Some(&cursor), "a walk moves on");
        self.cursor = slice.next;
        Some(merged)
    }

    /// A run the donor freed is one it did not send: its number may stand for another by now.
    fn forget_freed(&mut self, donor: &mut Replica) {
        for change in donor.take_changes() {
            if let Change::RunFreed { run } = change {
                self.sent.remove(&run);
            }
        }
    }

    /// Gives back what was kept for the walk.
    fn finish(self, receiver: &mut Replica) {
        assert_eq!(self.cursor, None);
        self.kept.into_iter().for_each(|place| receiver.release(place));
    }
}

/// A slice is at most its budget and one row with its content longer; tables of names come on top. A row's content is
/// at most every run of the donor, each from the anchor before it.
fn check_size(donor: &Replica, piece: &Piece, budget_bytes: usize) {
    let content: usize = piece.chains.iter().map(|chain| 24 + 8 * chain.hashes.len()).sum();
    assert_eq!(encode_chains(&piece.chains).len(), content);
    let row = 8 * donor.chains().blocks() as usize + (24 + 8 * 16) * donor.chains().runs();
    assert!(content <= budget_bytes + row, "{content} bytes of content for a budget of {budget_bytes}");
    let slice = encode_slice(&piece.slice).len();
    assert!(slice <= 2 * budget_bytes + 1_024, "{slice} bytes of slice for a budget of {budget_bytes}");
}

fn join(receiver: &mut Replica, donor: &Replica, manner: Manner) -> Merged {
    let mut walk = Walk::new(manner);
    let mut merged = Merged::Unchanged;
    while let Some(step) = walk.step(donor, receiver) {
        merged = merged.or(step);
    }
    walk.finish(receiver);
    assert!(receiver.is_consistent());
    merged
}

pub(crate) fn apply(replica: &mut Replica, entry: &Entry) {
    let (place, _) = replica.learn_chain(&entry.chain).expect("short enough");
    let _ = replica.apply(entry.life, &entry.op).expect("its content has just been learned");
    replica.release(place);
}

/// The entries that `owners` gives to replica `nth`; joinings go to everybody, so that no log is entered in its middle.
pub(crate) fn share(history: &History, owners: &[u8], nth: u8) -> Vec<Entry> {
    let joined = |entry: &Entry| matches!(entry.op, covey_crdt::op::Op::Joined { .. });
    let mine = |at: usize, entry: &Entry| joined(entry) || owners[at % owners.len()] >> nth & 1 == 1;
    history.entries.iter().enumerate().filter(|(at, entry)| mine(*at, entry)).map(|(_, entry)| entry.clone()).collect()
}

pub(crate) fn replica_of(entries: &[Entry]) -> Replica {
    let mut replica = Replica::default();
    entries.iter().for_each(|entry| apply(&mut replica, entry));
    replica
}

/// Idempotent, commutative, associative, and equal to having seen the union of the ops.
fn replicas_are_a_lattice(history: &History, owners: &[u8], manners: &[Manner; 4]) {
    let ops: Vec<_> = (0..3).map(|nth| share(history, owners, nth)).collect();
    let [a, b, c] = [0, 1, 2].map(|nth| replica_of(&ops[nth]));
    let joined = |one: &Replica, other: &Replica, manner| {
        let mut joined = one.clone();
        let merged = join(&mut joined, other, manner);
        assert_eq!(merged == Merged::Unchanged, joined.digest() == one.digest(), "Unchanged iff unchanged");
        assert_eq!(join(&mut joined, other, manners[3]), Merged::Unchanged, "absorbing");
        joined
    };
    let same = |one: &Replica, other: &Replica| {
        assert_eq!(one.expand(), other.expand());
        assert_eq!(one.digest(), other.digest());
    };
    same(&joined(&a, &a, manners[0]), &a);
    let ab = joined(&a, &b, manners[0]);
    same(&ab, &joined(&b, &a, manners[1]));
    assert_eq!(ab.expand(), expected(&[ops[0].clone(), ops[1].clone()].concat()));
    let abc = joined(&ab, &c, manners[2]);
    same(&abc, &joined(&a, &joined(&b, &c, manners[1]), manners[0]));
    assert_eq!(abc.expand(), expected(&ops.concat()));
    same(&joined(&Replica::default(), &abc, manners[2]), &abc);
}

/// Donor and receiver go on applying ops between slices. Afterwards the receiver lacks at most what the donor learned on
/// the way, and at no time does it hold what the whole set of ops does not say.
fn a_donor_that_changes_between_slices(history: &History, owners: &[u8], pace: &[u8], manner: Manner) {
    let parents = parents(&history.entries);
    let (early, late): (Vec<_>, Vec<_>) =
        history.entries.iter().enumerate().partition(|(at, _)| owners[at % owners.len()] & 1 == 1 || *at < 3);
    let [early, late] = [early, late].map(|side| side.into_iter().map(|(_, entry)| entry.clone()).collect::<Vec<_>>());
    let whole = expected(&history.entries);
    let mut donor = replica_of(&early);
    let (mut receiver, mut mirror) = (replica_of(&share(history, owners, 1)), Mirror::default());
    let mut walk = Walk::new(manner);
    let mut on_the_way = late.iter();
    for nth in 0.. {
        let before = receiver.expand();
        if walk.step(&donor, &mut receiver).is_none() {
            break;
        }
        let after = receiver.expand();
        check_state(&after, &parents);
        check_growth(&before, &after);
        assert!(receiver.is_consistent());
        for (key, (floor, blocks)) in &after.coverage {
            let now = whole.records[&key.worker].incarnation == after.records[&key.worker].incarnation;
            let Some((final_floor, final_blocks)) = whole.coverage.get(key).filter(|_| now) else { continue };
            assert!(floor <= final_floor, "a floor nobody's ops give");
            for (path, (stamp, depth)) in blocks {
                let kept = final_blocks.get(path).is_some_and(|(latest, _)| latest >= stamp);
                let gone = Rank { stamp: *stamp, depth: *depth } <= *final_floor;
                assert!(kept || gone, "a block nobody's ops give");
            }
        }
        for change in receiver.take_changes() {
            mirror.apply(change);
        }
        mirror.verify(&receiver);
        on_the_way.by_ref().take(usize::from(pace[nth % pace.len()])).for_each(|entry| apply(&mut donor, entry));
        walk.forget_freed(&mut donor);
    }
    walk.finish(&mut receiver);
    let rest: Vec<_> = on_the_way.cloned().collect();
    let learned_on_the_way = &late[..late.len() - rest.len()];
    // What the donor's log says after the walk's start, and nothing else, completes the receiver.
    learned_on_the_way.iter().for_each(|entry| apply(&mut receiver, entry));
    let ops = [early, learned_on_the_way.to_vec(), share(history, owners, 1)].concat();
    assert_eq!(receiver.expand(), expected(&ops));
    assert!(receiver.is_consistent());
}

pub(crate) fn owners() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(0u8..8, 64)
}

fn manners() -> impl Strategy<Value = [Manner; 4]> {
    [manner(), manner(), manner(), manner()]
}

pub(crate) fn pace() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(0u8..3, 8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]
    #[test]
    fn replicas_with_tight_caches_are_a_lattice(
        history in generate::history(TIGHT), owners in owners(), manners in manners(),
    ) {
        replicas_are_a_lattice(&history, &owners, &manners);
    }

    #[test]
    fn replicas_with_long_chains_are_a_lattice(
        history in generate::history(LONG), owners in owners(), manners in manners(),
    ) {
        replicas_are_a_lattice(&history, &owners, &manners);
    }

    #[test]
    fn replicas_with_aliased_chains_are_a_lattice(
        history in generate::history(CUT_3), owners in owners(), manners in manners(),
    ) {
        replicas_are_a_lattice(&history, &owners, &manners);
    }

    #[test]
    fn a_walk_survives_a_donor_that_changes_between_slices(
        history in generate::history(TIGHT), owners in owners(), pace in pace(), manner in manner(),
    ) {
        a_donor_that_changes_between_slices(&history, &owners, &pace, manner);
    }

    #[test]
    fn a_walk_survives_a_donor_of_long_chains_that_changes_between_slices(
        history in generate::history(LONG), owners in owners(), pace in pace(), manner in manner(),
    ) {
        a_donor_that_changes_between_slices(&history, &owners, &pace, manner);
    }

    /// A slice whose content is lacking alters nothing, whatever else it carries.
    #[test]
    fn a_slice_without_its_content_is_refused_whole(history in generate::history(TIGHT)) {
        let donor = replica_of(&history.entries);
        let piece = donor.piece(&Cursor::Start, usize::MAX, &|_| false);
        prop_assert_eq!(&piece.slice.next, &None);
        let mut receiver = Replica::default();
        let named = piece.slice.holders.iter().any(|holder| !holder.segments.is_empty());
        match receiver.merge_slice(&piece.slice) {
            Ok(_) => prop_assert!(!named),
            Err(ApplyError::Unresolved(tip)) => {
                prop_assert!(piece.slice.holders.iter().any(|holder| holder.segments.iter().any(|(_, end)| *end == tip)));
                prop_assert_eq!(receiver.digest(), Replica::default().digest());
            }
        }
    }
}

/// Ways of delivery do not matter to what a walk shows.
#[test]
fn two_replicas_that_store_chains_differently_walk_alike() {
    let all: Vec<Entry> = crate::hazards::several_long_chains();
    let mut one = crate::run::Subject::new(&all);
    let mut other = crate::run::Subject::new(&all);
    for entry in &all {
        let _ = one.deliver(entry, Way::Whole);
    }
    for entry in all.iter().rev() {
        let _ = other.deliver(entry, Way::Pieces);
    }
    let whole = |replica: &Replica| replica.piece(&Cursor::Start, usize::MAX, &|_| false).slice;
    assert_eq!(whole(&one.replica), whole(&other.replica));
    assert_eq!(one.replica.digest(), other.replica.digest());
}
