//! Feeds by the hundred and thousand: who joins, who dies, what people are told.

use bytes::Bytes;
use covey_crdt::id::LifeId;
use covey_crdt::stored::Generation;

use super::feed_attacks::{begun, named, ops, send};
use super::{Net, config};
use crate::feed::{FeedReport, FeedState};
use crate::input::{Input, Local, MonoTime};
use crate::limits::{Knobs, SUMMARY_FEEDS};
use crate::output::FeedOrder;

/// A mesh of two that has `feeds` feeds, each read by the first.
fn wide(feeds: usize) -> Net {
    let mut net = Net::mesh(&["a", "b"]);
    net.probe(0, "boot");
    net.run(100);
    for nth in 0..feeds {
        let first = nth as u64 * 10;
        let begins = begun(&net, named(nth), Generation::default(), first..first + 8);
        send(&mut net, 1, 0, &ops(std::slice::from_ref(&begins)));
        send(&mut net, 0, 1, &ops(&[begins]));
    }
    net
}

#[test]
fn a_joiner_has_a_thousand_feeds_within_seconds_though_no_log_reaches_back() {
    let mut net = wide(1_000);
    net.run(200);
    for node in &mut net.nodes {
        node.set_knobs(Knobs { log_age_ms: 1, ..Knobs::default() });
    }
    net.run(300);
    assert_eq!(net.nodes[0].replica().feeds().count(), 1_000);
    let joiner = net.add(config("c"));
    (0..2).for_each(|nth| net.link(joiner, nth));
    let mut ms = 0;
    while !net.is_equal(0, joiner) && ms < 20_000 {
        net.run(100);
        ms += 100;
    }
    assert!(ms <= 10_000, "{ms} ms for {} feeds", net.nodes[joiner].replica().feeds().count());
}

#[test]
fn i12_a_gateway_that_reads_hundreds_of_feeds_tells_of_each_every_second() {
    let feeds = 4 * SUMMARY_FEEDS + 5;
    let mut net = Net::mesh(&["a", "b"]);
    for nth in 0..feeds {
        net.input(0, Input::Local(Local::Ingests { worker: named(nth), can: true }));
    }
    let report = FeedReport { state: FeedState::Exact, ..FeedReport::default() };
    for _ in 0..20 {
        net.run(500);
        for nth in 0..feeds {
            net.input(0, Input::Local(Local::FeedReport { worker: named(nth), report }));
        }
    }
    let view = net.nodes[1].view(MonoTime::from_ms(net.now_ms));
    let told = &view.sights.iter().find(|sight| sight.life == LifeId(1)).expect("it told").feeds;
    assert_eq!(told.len(), feeds);
    assert!(told.values().all(|told| told.age_ms <= 1_500 && told.of.report.state == FeedState::Exact));
    // What it reads no more is gone, though the others are as many as before.
    net.input(0, Input::Local(Local::Ingests { worker: named(7), can: false }));
    net.run(5_000);
    let view = net.nodes[1].view(MonoTime::from_ms(net.now_ms));
    assert_eq!(view.sights.iter().find(|sight| sight.life == LifeId(1)).expect("it told").feeds.len(), feeds - 1);
}

#[test]
fn when_a_gateway_dies_those_who_take_over_forty_feeds_are_each_handed_the_state() {
    let mut net = Net::mesh(&["a", "b"]);
    let report = FeedReport { state: FeedState::Exact, ..FeedReport::default() };
    for nth in 0..40 {
        net.input(0, Input::Local(Local::Ingests { worker: named(nth), can: true }));
    }
    net.run(4_500);
    for nth in 0..40 {
        net.input(0, Input::Local(Local::FeedReport { worker: named(nth), report }));
    }
    net.run(1_200);
    for nth in 0..40 {
        net.input(1, Input::Local(Local::AskHandOff { worker: named(nth) }));
    }
    let mut answered = 0;
    for _ in 0..1_000 {
        net.run(1);
        let asked: Vec<FeedOrder> = net.orders[0][answered..].to_vec();
        answered = net.orders[0].len();
        for order in asked {
            if let FeedOrder::Export { to, worker } = order {
                let state = Some(Bytes::from(vec![9; 1_000]));
                net.input(0, Input::Local(Local::HandOff { to, worker, state }));
            }
        }
    }
    let handed = |has: bool| {
        let is = |order: &&FeedOrder| matches!(order, FeedOrder::HandedOff { state, .. } if state.is_some() == has);
        net.orders[1].iter().filter(is).count()
    };
    assert_eq!((handed(true), handed(false)), (40, 0));
}
