//! Feeds by hazard: ops lost on the way, publishers that die, joiners, two ingesters that disagree, silence.

use std::collections::BTreeSet;

use bytes::Bytes;
use covey_crdt::hash::BlockHash;
use covey_crdt::lane::LaneId;
use covey_crdt::stored::{Generation, StoredKey, StoredLane, StoredOp};

use super::{Net, config, keyspace, worker};
use crate::feed::{FeedReport, FeedState, Role};
use crate::input::{Input, Load, Local};
use crate::inspect::{Answer, Ask, PAGE_STORED};
use crate::limits::{BLOB_PIECE_BYTES, BRIDGE_MS, BRIDGE_QUEUED_MS, LINGER_MS, SETTLE_MS};
use crate::note::Note;
use crate::output::FeedOrder;
use crate::wire::Message;

/// The op of an engine's batch `position`: it stores one block and lets the third last go.
pub(super) fn op(net: &Net, position: u64) -> StoredOp {
    let added = vec![BlockHash(1_000 + position)];
    let removed = if position >= 3 { vec![BlockHash(1_000 + position - 3)] } else { Vec::new() };
    let key = StoredKey { incarnation: net.incarnation(0), generation: Generation::default(), position, part: 0 };
    let lane = StoredLane { keyspace: keyspace(), lane: LaneId::PLAIN, added, removed };
    StoredOp { worker: worker(), key, begins: position == 0, is_last: true, is_complete: true, lanes: vec![lane] }
}

/// A mesh whose gateways all can read the worker's events, with owners assigned.
pub(super) fn mesh(names: &[&str]) -> Net {
    let mut net = Net::mesh(names);
    net.probe(0, "boot");
    for nth in 0..names.len() {
        net.input(nth, Input::Local(Local::Ingests { worker: worker(), can: true }));
    }
    net.run(SETTLE_MS + 1_000);
    net
}

pub(super) fn with(net: &Net, role: Role) -> Vec<usize> {
    (0..net.nodes.len()).filter(|nth| net.nodes[*nth].feed_role(&worker()) == role).collect()
}

/// Everybody who ingests reads the batch.
pub(super) fn read(net: &mut Net, position: u64) {
    for nth in 0..net.nodes.len() {
        if net.nodes[nth].feed_role(&worker()).ingests() {
            let op = op(net, position);
            net.input(nth, Input::Local(Local::Ingested(Box::new(op))));
        }
    }
}

pub(super) fn position(net: &Net, nth: usize) -> Option<u64> {
    net.nodes[nth].replica().feed(&worker()).map(|state| state.key.position)
}

/// What gateways say to one another about feeds, once each: ops, gaps, pulls, states, hand-offs.
pub(super) fn play(net: &mut Net) {
    for nth in 0..net.nodes.len() {
        net.input(nth, Input::Local(Local::Ingests { worker: worker(), can: true }));
    }
    net.run(SETTLE_MS + 1_000);
    let report = FeedReport { state: FeedState::Exact, ..FeedReport::default() };
    for nth in 0..net.nodes.len() {
        net.input(nth, Input::Local(Local::FeedReport { worker: worker(), report }));
    }
    (0..3).for_each(|position| read(net, position));
    net.run(1_500);
    net.swallow(|_, _, message| matches!(message, Message::FeedOps(_)));
    (3..6).for_each(|position| read(net, position));
    net.run(50);
    net.swallow(|_, _, _| false);
    read(net, 6);
    net.run(1_000);
    for nth in 0..net.nodes.len() {
        net.input(nth, Input::Local(Local::AskHandOff { worker: worker() }));
        net.run(5);
        for giver in 0..net.nodes.len() {
            let (to, state) = (net.life(nth), Some(Bytes::from_static(b"a state")));
            net.input(giver, Input::Local(Local::HandOff { to, worker: worker(), state }));
        }
    }
    net.run(500);
}

#[test]
fn two_of_the_gateways_ingest_a_worker_and_an_op_of_both_is_applied_once() {
    for names in [&["a"][..], &["a", "b", "c"], &["a", "b", "c", "d", "e", "f", "g", "h"]] {
        let mut net = mesh(names);
        assert_eq!(with(&net, Role::Publisher).len(), 1);
        assert_eq!(with(&net, Role::Standby).len(), usize::from(names.len() > 1));
        (0..5).for_each(|position| read(&mut net, position));
        net.run(600);
        assert!((0..names.len()).all(|nth| position(&net, nth) == Some(4) && net.is_equal(0, nth)));
        assert_eq!(net.noted(0, |note| matches!(note, Note::TakenOver { .. } | Note::FeedForked { .. })), 0);
        let blocks: BTreeSet<_> = (2..5).map(|position| BlockHash(1_000 + position)).collect();
        let state = net.nodes[0].replica().feed(&worker()).expect("a state");
        assert!(state.lanes().values().all(|set| *set.blocks() == blocks));
    }
}

#[test]
fn p3_a_standby_publishes_what_its_publisher_did_not_and_nothing_is_lost_or_doubled() {
    let mut net = mesh(&["a", "b", "c"]);
    let (publisher, standby) = (with(&net, Role::Publisher)[0], with(&net, Role::Standby)[0]);
    (0..3).for_each(|position| read(&mut net, position));
    net.run(50);
    net.freeze(publisher);
    (3..6).for_each(|position| read(&mut net, position));
    net.run(700);
    let third = 3 - publisher - standby;
    assert_eq!((position(&net, standby), position(&net, third)), (Some(5), Some(5)));
    assert!(net.noted(standby, |note| matches!(note, Note::TakenOver { .. })) > 0);
    assert!(net.is_equal(standby, third));
}

#[test]
fn a_lost_push_is_pulled_and_ops_behind_it_wait() {
    let mut net = mesh(&["a", "b", "c"]);
    let publisher = with(&net, Role::Publisher)[0];
    read(&mut net, 0);
    net.run(50);
    net.swallow(move |from, _, message| from == publisher && matches!(message, Message::FeedOps(_)));
    read(&mut net, 1);
    net.run(20);
    net.swallow(|_, _, _| false);
    read(&mut net, 2);
    net.run(20);
    assert!((0..3).filter(|nth| *nth != publisher).all(|nth| position(&net, nth) == Some(0)), "op 2 waits for op 1");
    net.run(1_000);
    assert!((0..3).all(|nth| position(&net, nth) == Some(2)));
    assert!((0..3).any(|nth| net.noted(nth, |note| matches!(note, Note::FeedPulled { .. })) > 0));
}

#[test]
fn a_joiner_gets_the_whole_state_from_a_peer_and_nothing_from_the_engine() {
    let mut net = mesh(&["a", "b"]);
    read(&mut net, 0);
    let mut large = op(&net, 1);
    large.lanes[0].added = (0..4_000).map(BlockHash).collect();
    for position in 1..10 {
        large.key.position = position;
        large.lanes[0].added = (position * 4_000..(position + 1) * 4_000).map(BlockHash).collect();
        for nth in 0..2 {
            net.input(nth, Input::Local(Local::Ingested(Box::new(large.clone()))));
        }
    }
    net.run(500);
    for node in &mut net.nodes {
        node.set_knobs(crate::limits::Knobs { log_age_ms: 1, ..crate::limits::Knobs::default() });
    }
    net.run(500);
    let joiner = net.add(config("c"));
    let mut dropped = 0;
    net.swallow(move |_, _, message| {
        // Every third piece is lost: it is asked for again.
        let is_piece = matches!(message, Message::BlobPiece(_));
        dropped += usize::from(is_piece);
        is_piece && dropped.is_multiple_of(3)
    });
    (0..2).for_each(|nth| net.link(joiner, nth));
    net.run(4_000);
    assert!(net.is_equal(0, joiner) && position(&net, joiner) == Some(9));
    let fetched =
        |note: &Note| matches!(note, Note::FeedFetched { bytes, .. } if *bytes as usize > 2 * BLOB_PIECE_BYTES);
    assert_eq!(net.noted(joiner, fetched), 1);
}

#[test]
fn a_new_ingester_gets_the_state_of_another_and_one_without_is_told_so() {
    let mut net = mesh(&["a", "b", "c"]);
    let publisher = with(&net, Role::Publisher)[0];
    let other = with(&net, Role::Off)[0];
    let ask = |net: &mut Net| net.input(other, Input::Local(Local::AskHandOff { worker: worker() }));
    ask(&mut net);
    assert!(
        net.orders[other].contains(&FeedOrder::HandedOff { worker: worker(), state: None }),
        "nobody knows anything"
    );
    let report = FeedReport { state: FeedState::Exact, position: 3, ..FeedReport::default() };
    net.input(publisher, Input::Local(Local::FeedReport { worker: worker(), report }));
    net.run(1_500);
    ask(&mut net);
    net.run(10);
    let to = net.life(other);
    assert!(net.orders[publisher].contains(&FeedOrder::Export { to, worker: worker() }));
    let state = Bytes::from(vec![7; 3 * BLOB_PIECE_BYTES]);
    net.input(publisher, Input::Local(Local::HandOff { to, worker: worker(), state: Some(state.clone()) }));
    net.run(50);
    assert_eq!(net.orders[other].last(), Some(&FeedOrder::HandedOff { worker: worker(), state: Some(state) }));
}

#[test]
fn two_states_under_one_key_are_named_and_the_publisher_begins_anew() {
    let mut net = mesh(&["a", "b", "c"]);
    let (publisher, standby) = (with(&net, Role::Publisher)[0], with(&net, Role::Standby)[0]);
    read(&mut net, 0);
    net.run(50);
    net.swallow(move |from, to, message| from == publisher && to == standby && matches!(message, Message::FeedOps(_)));
    let good = op(&net, 1);
    net.input(publisher, Input::Local(Local::Ingested(Box::new(good.clone()))));
    let bad = StoredOp { is_complete: false, ..good };
    net.input(standby, Input::Local(Local::Ingested(Box::new(bad))));
    net.run(30);
    net.swallow(move |_, _, message| matches!(message, Message::FeedPull(_)));
    net.run(1_000);
    assert!(net.noted(publisher, |note| matches!(note, Note::FeedForked { .. })) == 1);
    assert!(net.orders[publisher].contains(&FeedOrder::Restart { worker: worker() }));
}

#[test]
fn an_op_whose_predecessors_died_with_their_maker_makes_its_ingester_open_a_generation() {
    let mut net = mesh(&["a", "b", "c"]);
    let publisher = with(&net, Role::Publisher)[0];
    read(&mut net, 0);
    net.run(50);
    // The publisher read on to batch 4, handed its state over, and died before anything was out.
    let late = op(&net, 5);
    net.input(publisher, Input::Local(Local::Ingested(Box::new(late))));
    net.run(1_900);
    assert!(!net.orders[publisher].contains(&FeedOrder::Restart { worker: worker() }), "it may still come");
    net.run(300);
    assert!(net.orders[publisher].contains(&FeedOrder::Restart { worker: worker() }));
    let mut begun = op(&net, 6);
    (begun.begins, begun.key.generation) = (true, Generation::default().next(net.life(publisher)));
    begun.lanes[0].removed.clear();
    net.input(publisher, Input::Local(Local::Ingested(Box::new(begun))));
    net.run(50);
    assert!((0..3).all(|nth| position(&net, nth) == Some(6)));
}

#[test]
fn who_loses_a_feed_lingers_and_who_is_new_waits() {
    let mut net = mesh(&["a", "b"]);
    let joiner = net.add(config("c"));
    (0..2).for_each(|nth| net.link(joiner, nth));
    net.input(joiner, Input::Local(Local::Ingests { worker: worker(), can: true }));
    net.run(SETTLE_MS - 500);
    assert_eq!(net.nodes[joiner].feed_role(&worker()), Role::Off, "it may be gone again in a moment");
    net.run(2_000);
    let roles: Vec<Role> = net.nodes.iter().map(|node| node.feed_role(&worker())).collect();
    let ingest = |roles: &[Role]| roles.iter().filter(|role| matches!(role, Role::Publisher | Role::Standby)).count();
    assert_eq!(ingest(&roles), 2, "{roles:?}");
    if roles.contains(&Role::Leaving) {
        net.run(LINGER_MS);
        assert!(with(&net, Role::Leaving).is_empty());
    }
}

#[test]
fn i12_an_ingester_that_says_nothing_any_more_knows_nothing() {
    let mut net = mesh(&["a", "b"]);
    let publisher = with(&net, Role::Publisher)[0];
    let report = FeedReport { state: FeedState::Exact, ..FeedReport::default() };
    net.input(publisher, Input::Local(Local::FeedReport { worker: worker(), report }));
    let state =
        |net: &Net| net.nodes[publisher].summary(crate::input::MonoTime::from_ms(net.now_ms)).feeds[0].report.state;
    assert_eq!(state(&net), FeedState::Exact);
    net.run(crate::limits::REPORT_MS + 200);
    assert_eq!(state(&net), FeedState::Stale);
}

#[test]
fn stored_coverage_is_read_in_pages_that_add_up_to_the_set_and_name_its_state() {
    let mut net = mesh(&["a"]);
    let (blocks, last) = (PAGE_STORED as u64 + 10, BlockHash(7));
    let mut begun = op(&net, 0);
    begun.lanes[0].added = (0..blocks).map(|nth| BlockHash(1_000 + nth)).collect();
    let other = StoredLane { lane: LaneId(1), added: vec![last], removed: Vec::new(), ..begun.lanes[0].clone() };
    begun.lanes.push(other);
    net.input(0, Input::Local(Local::Ingested(Box::new(begun))));
    let (mut after, mut read, mut pages) = (None, Vec::new(), 0);
    loop {
        let Answer::Stored(page) = net.nodes[0].inspect(&Ask::Stored { worker: worker(), after }) else {
            panic!("a page of stored coverage")
        };
        let state = net.nodes[0].replica().feed(&worker()).expect("it has one");
        let row = page.feed.expect("its state");
        assert_eq!((row.position, row.blocks, row.contents.0), (0, blocks + 1, state.contents().0));
        read.extend(page.sets.iter().flat_map(|set| set.hashes.iter().map(|hash| (set.lane, hash.0))));
        (after, pages) = (page.next, pages + 1);
        if after.is_none() {
            break;
        }
    }
    let first = (0..blocks).map(|nth| (0, 1_000 + nth));
    assert_eq!((pages, read), (2, first.chain([(1, last.0)]).collect::<Vec<_>>()));
}

/// Blocks of the worker that gateway `nth` knows of by placements.
fn placed(net: &Net, nth: usize) -> u32 {
    net.nodes[nth].replica().holders_in(&worker()).map(|(_, placed)| placed.blocks()).sum()
}

#[test]
fn events_overrule_placements_after_the_bridge_but_not_those_of_prompts_that_still_wait() {
    let mut net = mesh(&["a", "b"]);
    let report = FeedReport { state: FeedState::Exact, ..FeedReport::default() };
    for nth in 0..2 {
        net.input(nth, Input::Local(Local::FeedReport { worker: worker(), report }));
    }
    (0..2).for_each(|position| read(&mut net, position));
    let load = |queued_tokens| Load { requests: u32::from(queued_tokens > 0), queued_tokens };
    // Whichever of the two publishes, it hears of a queue from the other as well.
    for asked in 0..2 {
        net.input(asked, Input::Local(Local::Load { worker: worker(), load: load(9_000) }));
        net.place(asked, &[1, 2, 3]);
        net.run(BRIDGE_MS + 2_000);
        assert_eq!((placed(&net, 0), placed(&net, 1)), (3, 3), "its prompt is not computed yet");
        net.input(asked, Input::Local(Local::Load { worker: worker(), load: load(0) }));
        net.run(BRIDGE_MS + 1_000);
        assert_eq!((placed(&net, 0), placed(&net, 1)), (0, 0), "events have caught up");
    }
    net.input(0, Input::Local(Local::Load { worker: worker(), load: load(9_000) }));
    net.place(0, &[1, 2, 3]);
    net.run(BRIDGE_MS + BRIDGE_QUEUED_MS + 2_000);
    assert_eq!(placed(&net, 1), 0, "a queue that is never empty holds nothing for ever");
}
