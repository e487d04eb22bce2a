//! Sessions that send only what differs end where a walk over everything ends, however questions and answers are cut,
//! and whatever both sides apply on the way; and they cost what differs, not what there is.

use std::collections::BTreeSet;

use covey_crdt::change::{Change, Place, RunId};
use covey_crdt::codec::{
    decode_chains, decode_holder_asks, decode_outcome, decode_slice, decode_window, encode_chains, encode_holder_asks,
    encode_outcome, encode_slice, encode_window,
};
use covey_crdt::hash::BlockHash;
use covey_crdt::lattice::Merged;
use covey_crdt::outline::{Grain, Room};
use covey_crdt::replica::Replica;
use covey_crdt::slice::{Answer, Cursor, Request};
use covey_crdt::walk::{AskSizes, Walk};
use proptest::prelude::*;

use crate::generate::{self, CUT_3, History, LONG, TIGHT, incarnation, keyspace, stamp};
use crate::reference::{Entry, expected};
use crate::slices::{apply, owners, pace, replica_of, share};

/// How one session is done.
#[derive(Clone, Copy, Debug)]
struct Manner {
    budget_bytes: usize,
    sizes: AskSizes,
    grain: Grain,
    salt: u64,
    /// Slices in one answer.
    burst: usize,
}

fn manner() -> impl Strategy<Value = Manner> {
    let bytes = || prop_oneof![Just(1usize), 1..300usize, Just(4_096), Just(1 << 20)];
    let sizes = (prop_oneof![Just(1usize), 1..4usize, Just(1_024)], bytes(), bytes());
    let grain = (prop_oneof![Just(1usize), 1..4usize, Just(32)], prop_oneof![Just(1usize), 1..4usize, Just(128)]);
    (bytes(), sizes, grain, any::<u64>(), 1..4usize).prop_map(|(budget_bytes, sizes, grain, salt, burst)| {
        let (window_workers, ask_bytes, answer_bytes) = sizes;
        let (bucket_segments, buckets) = grain;
        let sizes = AskSizes { window_workers, room: Room { ask_bytes, answer_bytes } };
        Manner { budget_bytes, sizes, grain: Grain { bucket_segments, buckets }, salt, burst }
    })
}

const USUAL: Manner = Manner {
    budget_bytes: 96 * 1024,
    sizes: AskSizes { window_workers: 1_024, room: Room { ask_bytes: 96 * 1024, answer_bytes: 4 * 96 * 1024 } },
    grain: Grain { bucket_segments: 16, buckets: 128 },
    salt: 7,
    burst: 4,
};

/// What a session took.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    trips: usize,
    /// Questions, both ways: windows, holders, outlines.
    summary_bytes: usize,
    slice_bytes: usize,
    segments: usize,
    fresh: usize,
}

impl Cost {
    const fn bytes(&self) -> usize {
        self.summary_bytes + self.slice_bytes
    }
}

struct Session {
    manner: Manner,
    walk: Walk,
    kept: Vec<Place>,
    sent: BTreeSet<RunId>,
    cost: Cost,
}

impl Session {
    fn new(manner: Manner) -> Self {
        let (kept, sent) = (Vec::new(), BTreeSet::new());
        Self { manner, walk: Walk::new(manner.salt, manner.sizes), kept, sent, cost: Cost::default() }
    }

    /// One question and its answer, through bytes. `between` is what happens while they travel.
    fn step(&mut self, donor: &mut Replica, receiver: &mut Replica, between: impl FnOnce(&mut Replica, &mut Replica)) {
        let ask = self.walk.ask(receiver);
        let (window, holders) = (encode_window(&ask.window), encode_holder_asks(&ask.holders));
        assert_eq!(decode_window(&window), Ok(ask.window.clone()));
        assert_eq!(decode_holder_asks(&holders), Ok(ask.holders.clone()));
        let row = 12 * self.manner.sizes.window_workers + 400;
        assert!(
            holders.len() <= 2 * self.manner.sizes.room.ask_bytes + 300 && window.len() <= row,
            "{}",
            holders.len()
        );
        self.cost.trips += 1;
        self.cost.summary_bytes += window.len() + holders.len();
        let mut between = Some(between);
        let mut rest = ask;
        for _ in 0..self.manner.burst {
            // A run the donor freed is one it did not send: its number may stand for another by now.
            for change in donor.take_changes() {
                if let Change::RunFreed { run } = change {
                    self.sent.remove(&run);
                }
            }
            let request = Request {
                salt: self.manner.salt,
                holders: &rest.holders,
                cursor: rest.cursor.as_ref(),
                window: Some(&rest.window),
                grain: self.manner.grain,
            };
            let answer = donor.answer(&request, self.manner.budget_bytes, &|run| self.sent.contains(&run));
            let ends = answer.piece.ends.iter().filter(|end| donor.chains().is_end(**end));
            self.sent.extend(ends.map(|end| end.run));
            if let Some(between) = between.take() {
                between(donor, receiver);
            }
            let more = rest.advance(answer.piece.slice.next.as_ref(), &answer.outcome);
            self.take(receiver, answer);
            if !more {
                break;
            }
        }
    }

    fn take(&mut self, receiver: &mut Replica, answer: Answer) {
        let slice = encode_slice(&answer.piece.slice);
        let outcome = encode_outcome(&answer.outcome);
        assert_eq!(decode_outcome(&outcome), Ok(answer.outcome.clone()));
        for chain in decode_chains(&encode_chains(&answer.piece.chains)).expect("our own bytes") {
            self.kept.push(receiver.learn(&chain).expect("short enough").expect("its base is known"));
        }
        let slice_in = decode_slice(&slice).expect("our own bytes");
        let (_, fresh) = receiver.merge_counted(&slice_in).expect("its chains have just been learned");
        self.cost.summary_bytes += outcome.len();
        self.cost.slice_bytes += slice.len();
        self.cost.segments += slice_in.holders.iter().map(|holder| holder.segments.len()).sum::<usize>();
        self.cost.fresh += fresh as usize;
        self.walk.take(receiver, slice_in.next.as_ref(), answer.outcome).expect("an answer to the question");
    }

    fn finish(self, receiver: &mut Replica) -> Cost {
        self.kept.into_iter().for_each(|place| receiver.release(place));
        self.cost
    }
}

/// A session between replicas that stay as they are otherwise.
fn join(receiver: &mut Replica, donor: &Replica, manner: Manner) -> Cost {
    let mut donor = donor.clone();
    let _ = donor.take_changes();
    let mut session = Session::new(manner);
    while !session.walk.is_done() {
        session.step(&mut donor, receiver, |_, _| {});
    }
    assert!(receiver.is_consistent());
    session.finish(receiver)
}

/// Merges a walk over everything.
fn join_whole(receiver: &mut Replica, donor: &Replica) -> Merged {
    let piece = donor.piece(&Cursor::Start, usize::MAX, &|_| false);
    let kept: Vec<Place> =
        piece.chains.iter().map(|chain| receiver.learn(chain).expect("short").expect("its base is known")).collect();
    let merged = receiver.merge_slice(&piece.slice).expect("its chains have just been learned");
    kept.into_iter().for_each(|place| receiver.release(place));
    merged
}

fn sends_what_differs(history: &History, owners: &[u8], manners: &[Manner; 2]) {
    let ops: Vec<_> = (0..2).map(|nth| share(history, owners, nth)).collect();
    let [a, b] = [0, 1].map(|nth| replica_of(&ops[nth]));
    let (mut whole, mut fine) = (a.clone(), a.clone());
    let _ = join_whole(&mut whole, &b);
    join(&mut fine, &b, manners[0]);
    assert_eq!(fine.expand(), whole.expand());
    assert_eq!(fine.digest(), whole.digest());
    assert_eq!(fine.expand(), expected(&ops.concat()));
    let again = join(&mut fine, &b, manners[1]);
    assert_eq!((fine.digest(), again.fresh), (whole.digest(), 0), "absorbing");
    let mut fresh = Replica::default();
    join(&mut fresh, &fine, manners[1]);
    assert_eq!(fresh.expand(), fine.expand());
    let alike = join(&mut fresh, &fine, manners[0]);
    assert_eq!(alike.segments, 0, "nothing is sent to a replica that has it all");
}

/// Both sides apply ops between question and answer and after it. When the session ends the receiver holds all that the
/// donor held when it began: no op that came on the way is needed for that.
fn both_change_on_the_way(history: &History, owners: &[u8], pace: &[u8], manner: Manner) {
    let (early, late): (Vec<_>, Vec<_>) =
        history.entries.iter().enumerate().partition(|(at, _)| owners[at % owners.len()] & 1 == 1 || *at < 3);
    let [early, late] = [early, late].map(|side| side.into_iter().map(|(_, entry)| entry.clone()).collect::<Vec<_>>());
    let mut donor = replica_of(&early);
    let mut receiver = replica_of(&share(history, owners, 1));
    let mut at_start = donor.clone();
    let mut session = Session::new(manner);
    let (mut to_donor, mut to_receiver) = (late.iter(), late.iter().rev());
    for nth in 0.. {
        if session.walk.is_done() {
            break;
        }
        let steps = usize::from(pace[nth % pace.len()]);
        session.step(&mut donor, &mut receiver, |donor, receiver| {
            to_donor.by_ref().take(steps).for_each(|entry| apply(donor, entry));
            to_receiver.by_ref().take(steps / 2).for_each(|entry| apply(receiver, entry));
        });
        to_donor.by_ref().take(steps).for_each(|entry| apply(&mut donor, entry));
        assert!(receiver.is_consistent());
    }
    session.finish(&mut receiver);
    let _ = at_start.take_changes();
    let before = receiver.digest();
    assert_eq!(
        join_whole(&mut receiver.clone(), &at_start),
        Merged::Unchanged,
        "it holds the donor's state at the start"
    );
    assert_eq!(receiver.digest(), before);
    late.iter().for_each(|entry| apply(&mut receiver, entry));
    let ops: Vec<Entry> = [early, late, share(history, owners, 1)].concat();
    assert_eq!(receiver.expand(), expected(&ops));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]
    #[test]
    fn tight_caches_end_as_after_a_whole_walk(
        history in generate::history(TIGHT), owners in owners(), manners in [manner(), manner()],
    ) {
        sends_what_differs(&history, &owners, &manners);
    }

    #[test]
    fn long_chains_end_as_after_a_whole_walk(
        history in generate::history(LONG), owners in owners(), manners in [manner(), manner()],
    ) {
        sends_what_differs(&history, &owners, &manners);
    }

    #[test]
    fn aliased_chains_end_as_after_a_whole_walk(
        history in generate::history(CUT_3), owners in owners(), manners in [manner(), manner()],
    ) {
        sends_what_differs(&history, &owners, &manners);
    }

    #[test]
    fn tight_caches_that_change_on_the_way_lose_nothing_of_the_start(
        history in generate::history(TIGHT), owners in owners(), pace in pace(), manner in manner(),
    ) {
        both_change_on_the_way(&history, &owners, &pace, manner);
    }

    #[test]
    fn long_chains_that_change_on_the_way_lose_nothing_of_the_start(
        history in generate::history(LONG), owners in owners(), pace in pace(), manner in manner(),
    ) {
        both_change_on_the_way(&history, &owners, &pace, manner);
    }
}

/// A replica with `holders` holders of `segments` conversations each, of two blocks; those that `changed` picks have a
/// further turn, touched late.
fn replica_with(holders: usize, segments: usize, changed: impl Fn(usize, usize) -> bool) -> Replica {
    let mut replica = Replica::default();
    let place = |replica: &mut Replica, holder: usize, chain: &[u64], ms: u64| {
        let chain: Vec<BlockHash> = chain.iter().map(|hash| BlockHash(*hash)).collect();
        let (place, _) = replica.learn_chain(&chain).expect("short enough");
        let worker = covey_crdt::id::WorkerId::new(&format!("http://10.0.{}.{}:8000", holder / 200, holder % 200), 0);
        let _ = replica.place(&worker.expect("a name"), &keyspace(0), &incarnation(1), place, stamp(ms, 0, holder % 3));
        replica.release(place);
    };
    for holder in 0..holders {
        for nth in 0..segments {
            let base = (holder * segments + nth) as u64 * 4;
            place(&mut replica, holder, &[base + 1, base + 2], 1_000 + base);
        }
    }
    for holder in 0..holders {
        for nth in (0..segments).filter(|nth| changed(holder, *nth)) {
            let base = (holder * segments + nth) as u64 * 4;
            place(&mut replica, holder, &[base + 1, base + 2, base + 3], 100_000_000 + base);
        }
    }
    let _ = replica.take_changes();
    replica
}

#[expect(clippy::print_stdout, reason = "the numbers are for people")]
fn measure(name: &str, receiver: &Replica, donor: &Replica, differing: usize) -> Cost {
    let mut merged = receiver.clone();
    let cost = join(&mut merged, donor, USUAL);
    let mut whole = receiver.clone();
    let _ = join_whole(&mut whole, donor);
    assert_eq!(merged.digest(), whole.digest());
    let all = encode_slice(&donor.piece(&Cursor::Start, usize::MAX, &|_| false).slice).len();
    println!("{name}: {differing} differ, {cost:?}, {} bytes in all; everything is {all} bytes", cost.bytes());
    cost
}

/// Bytes of a window: they depend on how many workers there are, not on what differs.
const CONSTANT: usize = 16 * 240 + 1_024;

/// What differs, and what finding and mending it may cost: bytes a differing segment, and round trips.
struct Case {
    name: &'static str,
    changed: fn(usize, usize) -> bool,
    differing: usize,
    bytes_max: usize,
    trips_max: usize,
}

#[rustfmt::skip]
const CASES: [Case; 6] = [
    Case { name: "the latest quarter", changed: |_, nth| nth >= 300, differing: 24_000, bytes_max: 50, trips_max: 10 },
    Case { name: "any quarter of a tenth of the workers", changed: |holder, nth| holder % 10 == 0 && nth % 4 == 0,
        differing: 2_400, bytes_max: 70, trips_max: 4 },
    Case { name: "any tenth", changed: |_, nth| nth % 10 == 0, differing: 9_600, bytes_max: 110, trips_max: 8 },
    // Few on each of many workers: what tells them apart costs more than they do, and still a twentieth of everything.
    Case { name: "the latest hundredth", changed: |_, nth| nth >= 396, differing: 960, bytes_max: 200, trips_max: 4 },
    Case { name: "one", changed: |holder, nth| holder == 100 && nth == 100, differing: 1, bytes_max: 1_000, trips_max: 2 },
    Case { name: "nothing", changed: |_, _| false, differing: 0, bytes_max: 0, trips_max: 1 },
];

#[test]
fn bytes_follow_what_differs_not_what_there_is() {
    let receiver = replica_with(240, 400, |_, _| false);
    let costs = CASES.map(|case| {
        let cost = measure(case.name, &receiver, &replica_with(240, 400, case.changed), case.differing);
        (case, cost)
    });
    for (case, cost) in costs {
        let most = case.bytes_max * case.differing + CONSTANT;
        assert!(cost.bytes() <= most, "{}: {} bytes, at most {most}", case.name, cost.bytes());
        assert!(cost.trips <= case.trips_max, "{}: {} trips", case.name, cost.trips);
    }
}

#[test]
fn one_segment_of_a_large_holder_takes_few_bytes() {
    let receiver = replica_with(1, 50_000, |_, _| false);
    let one = replica_with(1, 50_000, |_, nth| nth == 30_000);
    let cost = measure("one of 50,000", &receiver, &one, 1);
    assert!(cost.bytes() < 12_000 && cost.trips == 2 && cost.segments == 1, "{cost:?}");
}

#[test]
fn a_joiner_pays_no_more_than_for_a_whole_walk() {
    let donor = replica_with(240, 400, |_, _| false);
    let mut joiner = Replica::default();
    let cost = join(&mut joiner, &donor, USUAL);
    assert_eq!(joiner.digest(), donor.digest());
    let (mut cursor, mut trips, mut bytes, mut sent) = (Some(Cursor::Start), 0, 0, BTreeSet::new());
    while let Some(from) = cursor {
        let piece = donor.piece(&from, USUAL.budget_bytes, &|run| sent.contains(&run));
        sent.extend(piece.ends.iter().map(|end| end.run));
        (trips, bytes) = (trips + 1, bytes + encode_slice(&piece.slice).len());
        cursor = piece.slice.next;
    }
    assert_eq!(cost.trips, usize::div_ceil(trips, USUAL.burst), "as many slices");
    assert!(cost.summary_bytes <= 40 * trips, "{cost:?}");
    assert_eq!(cost.slice_bytes, bytes);
}

#[test]
fn where_all_differs_a_session_takes_about_one_round_trip_more() {
    let donor = replica_with(240, 400, |_, _| true);
    let receiver = replica_with(240, 400, |_, _| false);
    let fresh = join(&mut Replica::default(), &donor, USUAL);
    let cost = measure("everything", &receiver, &donor, 240 * 400);
    assert!(cost.trips <= fresh.trips + 3, "{cost:?} against {fresh:?}");
    assert!(cost.bytes() <= 36 * 240 * 400, "{cost:?}");
}
