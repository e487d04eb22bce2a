//! Feeds under attack: peers that are broken or of another version, positions and counters at their ends, sizes at scale,
//! clocks that jump.

use bytes::Bytes;
use covey_crdt::codec::encode_stored;
use covey_crdt::hash::BlockHash;
use covey_crdt::id::WorkerId;
use covey_crdt::lane::LaneId;
use covey_crdt::stored::{Generation, StoredKey, StoredLane, StoredOp};
use serde_bytes::ByteBuf;

use super::feeds::{mesh, op, position, read, with};
use super::{Net, keyspace, token, worker};
use crate::feed::{FeedReport, FeedState, Role};
use crate::input::{Input, Local, MonoTime};
use crate::limits::{FEED_HELD_BYTES_MAX, FEED_HELD_MS, SEQ_MAX, SETTLE_MS};
use crate::note::Note;
use crate::output::FeedOrder;
use crate::wire::{BlobPiece, FeedOps, FeedTrimmed, Message};

pub(super) fn named(nth: usize) -> WorkerId {
    WorkerId::new(&format!("w-{nth:05}"), 0).expect("a name")
}

/// A frame of one node to another, whatever the sender itself would say.
pub(super) fn send(net: &mut Net, from: usize, to: usize, message: &Message) {
    let life = net.life(from);
    net.input(to, Input::Received { from: life, bytes: message.encode() });
}

pub(super) fn ops(ops: &[StoredOp]) -> Message {
    Message::FeedOps(FeedOps { ops: ops.iter().map(|op| ByteBuf::from(encode_stored(op))).collect() })
}

/// An op of any worker: its state is these blocks.
pub(super) fn begun(net: &Net, worker: WorkerId, generation: Generation, blocks: std::ops::Range<u64>) -> StoredOp {
    let key = StoredKey { incarnation: net.incarnation(0), generation, position: 0, part: 0 };
    let added = blocks.map(BlockHash).collect();
    let lane = StoredLane { keyspace: keyspace(), lane: LaneId::PLAIN, added, removed: Vec::new() };
    StoredOp { worker, key, begins: true, is_last: true, is_complete: true, lanes: vec![lane] }
}

fn closes(net: &Net, nth: usize) -> usize {
    net.noted(nth, |note| matches!(note, Note::Malformed { .. }))
}

#[test]
fn i9_ops_that_never_fit_are_held_within_bytes_and_time_and_what_is_good_still_comes() {
    let mut net = mesh(&["a", "b", "c"]);
    let other = with(&net, Role::Off)[0];
    let publisher = with(&net, Role::Publisher)[0];
    read(&mut net, 0);
    net.run(50);
    let mut far = op(&net, 9_000);
    far.lanes[0].added = (0..4_000).map(BlockHash).collect();
    for nth in 0..900 {
        far.worker = named(nth % 7);
        far.key.position = u64::MAX - nth as u64;
        send(&mut net, publisher, other, &ops(std::slice::from_ref(&far)));
    }
    assert!(net.nodes[other].held_bytes <= FEED_HELD_BYTES_MAX, "{}", net.nodes[other].held_bytes);
    assert!(net.noted(other, |note| matches!(note, Note::FeedDropped)) > 0);
    net.swallow(move |from, _, message| from == publisher && matches!(message, Message::FeedOps(_)));
    read(&mut net, 1);
    net.run(10);
    net.swallow(|_, _, _| false);
    read(&mut net, 2);
    net.run(1_000);
    assert_eq!(position(&net, other), Some(2), "there was no room to hold op 2, so it was asked for");
    net.run(FEED_HELD_MS + 200);
    assert_eq!(net.nodes[other].held_bytes, 0);
    assert_eq!(closes(&net, other), 0);
}

#[test]
fn i9_feeds_that_only_a_peer_claims_are_forgotten_with_it() {
    let mut net = mesh(&["a", "b", "c"]);
    let mut far = op(&net, 9_000);
    for nth in 0..500 {
        far.worker = named(nth);
        send(&mut net, 1, 0, &ops(std::slice::from_ref(&far)));
    }
    net.run(300);
    assert!(net.nodes[0].feeds.len() >= 500);
    net.cut(0, 1);
    net.run(FEED_HELD_MS + 300);
    assert!(net.nodes[0].feeds.len() <= 1 && net.nodes[0].behind.is_empty(), "{}", net.nodes[0].feeds.len());
}

#[test]
fn i9_keyspaces_that_events_speak_about_are_bounded() {
    let mut net = mesh(&["a", "b", "c"]);
    let begins = begun(&net, worker(), Generation::default(), 0..1);
    send(&mut net, 1, 0, &ops(std::slice::from_ref(&begins)));
    for nth in 1..300_u32 {
        let model = covey_crdt::id::ModelName::new(&format!("m{nth}")).expect("a name");
        let unit = covey_crdt::keyspace::Unit::Tokens;
        let other = covey_crdt::keyspace::Keyspace::new(model, unit, 16, covey_crdt::keyspace::HashKeyId(0));
        let mut next = op(&net, u64::from(nth));
        next.lanes[0].keyspace = std::sync::Arc::new(other.expect("a block size"));
        next.lanes[0].removed = next.lanes[0].added.clone();
        send(&mut net, 1, 0, &ops(std::slice::from_ref(&next)));
    }
    assert!(position(&net, 0).is_some_and(|position| position > 0), "they were applied");
    assert!(net.nodes[0].feeds[&worker()].speaks.len() <= covey_crdt::limits::KEYSPACES_PER_WORKER_MAX);
    assert!(net.nodes[0].replica().is_consistent());
}

#[test]
fn a_peer_that_claims_what_it_cannot_give_does_not_keep_a_node_from_asking_others() {
    let mut net = mesh(&["a", "b", "c"]);
    let other = with(&net, Role::Off)[0];
    let publisher = with(&net, Role::Publisher)[0];
    let liar = 3 - other - publisher;
    read(&mut net, 0);
    net.run(50);
    let mut lie = op(&net, 9_000);
    lie.key.generation = Generation { counter: u32::MAX, life: u128::MAX };
    send(&mut net, liar, other, &ops(&[lie]));
    net.swallow(move |_, to, message| to == other && matches!(message, Message::FeedOps(_)));
    read(&mut net, 1);
    net.run(400);
    // Nor does it answer.
    net.swallow(move |from, to, message| {
        (from, to) == (liar, other) && matches!(message, Message::FeedOps(_) | Message::FeedTrimmed(_))
    });
    net.run(3_000);
    assert_eq!(position(&net, other), Some(1));
}

#[test]
fn a_gap_is_filled_though_no_exchange_told_of_it() {
    let mut net = mesh(&["a", "b", "c"]);
    let other = with(&net, Role::Off)[0];
    read(&mut net, 0);
    net.run(50);
    let mut swallowed = 0;
    net.swallow(move |_, to, message| {
        let is_push = to == other && matches!(message, Message::FeedOps(_));
        swallowed += usize::from(is_push);
        // Exchanges have thousands of other feeds to tell of first.
        (is_push && swallowed == 1) || matches!(message, Message::Exchange(exchange) if !exchange.feeds.is_empty())
    });
    read(&mut net, 1);
    net.run(20);
    read(&mut net, 2);
    net.run(700);
    assert_eq!(position(&net, other), Some(2));
}

#[test]
fn counters_and_positions_at_their_ends_change_nothing_else() {
    let mut net = mesh(&["a", "b", "c"]);
    let mut last = begun(&net, worker(), Generation { counter: u32::MAX, life: u128::MAX }, 0..3);
    last.key.position = u64::MAX;
    send(&mut net, 1, 0, &ops(std::slice::from_ref(&last)));
    let (mut after, mut part) = (last.clone(), last.clone());
    (after.begins, after.key.position) = (false, 0);
    (part.begins, part.key.part) = (false, u32::MAX);
    send(&mut net, 1, 0, &ops(&[after, part]));
    net.run(2_000);
    assert!((0..3).all(|nth| position(&net, nth) == Some(u64::MAX) && net.is_equal(0, nth)));
    // Nothing goes on from there; an operator has the worker's coverage forgotten.
    net.input(2, Input::Local(Local::Raise { worker: worker() }));
    net.run(500);
    assert_eq!(net.incarnation(0).counter, 2);
    let publisher = with(&net, Role::Publisher)[0];
    let again = begun(&net, worker(), Generation::default(), 5..9);
    net.input(publisher, Input::Local(Local::Ingested(Box::new(again))));
    net.run(1_000);
    assert!((0..3).all(|nth| position(&net, nth) == Some(0) && net.is_equal(0, nth)));
}

#[test]
fn an_engine_that_numbers_as_it_likes_does_not_make_peers_close_the_link() {
    let mut net = mesh(&["a", "b"]);
    let report = FeedReport { state: FeedState::Exact, position: u64::MAX - 1, ..FeedReport::default() };
    for nth in 0..2 {
        net.input(nth, Input::Local(Local::FeedReport { worker: worker(), report }));
    }
    net.run(2_500);
    assert_eq!((closes(&net, 0), closes(&net, 1)), (0, 0));
    let seen = net.nodes[0].summary(MonoTime::from_ms(net.now_ms)).feeds[0].report.position;
    assert_eq!(seen, SEQ_MAX);
}

#[test]
fn a_fork_is_named_in_every_incarnation() {
    let mut net = mesh(&["a", "b", "c"]);
    let publisher = with(&net, Role::Publisher)[0];
    let other = (publisher + 1) % 3;
    let restarts = |net: &Net| {
        let is_restart = |order: &&FeedOrder| matches!(order, FeedOrder::Restart { .. });
        net.orders[publisher].iter().filter(is_restart).count()
    };
    for (text, counter, expected) in [("boot", 3, 1), ("boot-2", 0, 2)] {
        net.probe(0, text);
        net.run(500);
        let good = begun(&net, worker(), Generation { counter, life: 1 }, 0..3);
        net.input(publisher, Input::Local(Local::Ingested(Box::new(good.clone()))));
        net.run(100);
        send(&mut net, other, publisher, &ops(&[StoredOp { is_complete: false, ..good }]));
        assert_eq!(restarts(&net), expected, "{text}");
    }
}

#[test]
fn a_peer_that_is_wrong_about_digests_does_not_call_for_generations_without_end() {
    let mut net = mesh(&["a", "b", "c"]);
    let publisher = with(&net, Role::Publisher)[0];
    let other = (publisher + 1) % 3;
    let seconds = 40;
    for nth in 0..10 * seconds {
        let good = begun(&net, worker(), Generation { counter: nth, life: 1 }, 0..3);
        net.input(publisher, Input::Local(Local::Ingested(Box::new(good.clone()))));
        net.run(100);
        send(&mut net, other, publisher, &ops(&[StoredOp { is_complete: false, ..good }]));
    }
    let forks = net.noted(publisher, |note| matches!(note, Note::FeedForked { .. }));
    assert!((3..=5).contains(&forks), "{forks}: at once, then after 5, 10, 20 s");
}

#[test]
fn pieces_and_answers_that_were_not_asked_for_change_nothing() {
    let mut net = mesh(&["a", "b", "c"]);
    read(&mut net, 0);
    net.run(100);
    for (kind, total, offset, bytes) in [(0, u64::MAX, u64::MAX, 1), (1, 10, 0, 10), (0, 1, 0, 90_000), (1, 0, 7, 0)] {
        let bytes = ByteBuf::from(vec![1; bytes]);
        let piece = BlobPiece { kind, worker: "w".to_owned(), rank: 0, id: 7, total, offset, bytes };
        send(&mut net, 1, 0, &Message::BlobPiece(piece));
    }
    for name in ["w", "nobody"] {
        send(&mut net, 1, 0, &Message::FeedTrimmed(FeedTrimmed { worker: name.to_owned(), rank: 9 }));
    }
    let (to, state) = (net.life(1), Some(Bytes::from_static(b"x")));
    net.input(0, Input::Local(Local::HandOff { to, worker: worker(), state }));
    net.run(500);
    assert!((0..3).all(|nth| closes(&net, nth) == 0 && net.is_equal(0, nth)));
    assert!(net.orders[0].iter().all(|order| !matches!(order, FeedOrder::HandedOff { .. })));
}

#[test]
fn both_sides_of_a_partition_open_generations_and_all_end_equal() {
    let mut net = mesh(&["a", "b", "c", "d"]);
    read(&mut net, 0);
    net.run(100);
    for (one, other) in [(0, 2), (0, 3), (1, 2), (1, 3)] {
        net.cut(one, other);
    }
    net.run(SETTLE_MS + 500);
    for (side, blocks) in [([0, 1], 10..14), ([2, 3], 20..23)] {
        let life = side.map(|nth| net.life(nth));
        let publisher = side.into_iter().find(|nth| net.nodes[*nth].feed_role(&worker()) == Role::Publisher);
        let opened = begun(&net, worker(), Generation::default().next(life[0]), blocks);
        net.input(publisher.expect("each side has one"), Input::Local(Local::Ingested(Box::new(opened))));
    }
    net.run(200);
    for (one, other) in [(0, 2), (0, 3), (1, 2), (1, 3)] {
        net.link(one, other);
    }
    net.run(2_000);
    assert!((0..4).all(|nth| net.is_equal(0, nth)));
    let state = net.nodes[0].replica().feed(&worker()).expect("a state");
    assert_eq!((state.key.generation.life, state.blocks()), (net.life(2).0, 3), "the larger life's, whole");
}

#[test]
fn clocks_that_stand_still_or_jump_lose_nothing_and_claim_nothing() {
    let mut net = mesh(&["a", "b", "c"]);
    let publisher = with(&net, Role::Publisher)[0];
    let standby = with(&net, Role::Standby)[0];
    read(&mut net, 0);
    net.run(100);
    // The publisher does nothing for 30 s, with ops it made and did not push.
    net.freeze(publisher);
    read(&mut net, 1);
    for position in 2..40 {
        let late = op(&net, position);
        net.input(standby, Input::Local(Local::Ingested(Box::new(late))));
        net.run(300);
    }
    for other in (0..3).filter(|nth| *nth != publisher) {
        net.cut(publisher, other);
        net.link(publisher, other);
    }
    // And its clock jumps by a month.
    net.now_ms += 30 * 86_400_000;
    net.run(SETTLE_MS + 2_000);
    assert!((0..3).all(|nth| position(&net, nth) == Some(39) && net.is_equal(0, nth)));
    assert_eq!(net.noted(publisher, |note| matches!(note, Note::FeedForked { .. })), 0);
}

#[test]
fn r11_an_incarnation_raised_by_force_keeps_the_token_and_the_capacity() {
    let mut net = Net::mesh(&["a", "b"]);
    net.input(0, Input::Local(Local::Raise { worker: worker() }));
    assert_eq!(net.noted(0, |note| matches!(note, Note::Dropped { .. })), 1, "nobody knows it");
    let started_at = net.incarnation(0);
    let probed = Local::Probed { worker: worker(), started_at, token: token("boot"), capacity_tokens: Some(4_096) };
    net.input(0, Input::Local(probed));
    net.place(0, &[1, 2, 3]);
    net.run(300);
    net.input(1, Input::Local(Local::Raise { worker: worker() }));
    net.run(300);
    let record = net.nodes[0].replica().record(&worker()).expect("it is known").clone();
    assert_eq!((record.incarnation.counter, record.incarnation.token), (2, token("boot")));
    assert_eq!(record.capacity_tokens, Some(4_096));
    assert_eq!(net.nodes[0].replica().holders().count(), 0, "what was placed is forgotten");
    assert!(net.is_equal(0, 1));
}
