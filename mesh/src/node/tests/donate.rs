//! Hazards of donors: too many receivers at once, receivers that vanish, a spent budget; and what a session costs.

use covey_crdt::stamp::{Hlc, Stamp};

use super::*;
use crate::limits::{BUCKETS_MAX, Knobs, PERMIT_IDLE_MS, PERMIT_RETRY_MS, PERMITS_MAX};
use crate::note::RepairCost;

const CHAINS: u64 = 12;

/// A founded gateway whose state takes many slices.
fn donor(knobs: Knobs) -> Net {
    let mut net = Net::new(&["a"]);
    net.nodes[0].set_knobs(knobs);
    net.run(3_200);
    net.probe(0, "t");
    for chain in 0..CHAINS {
        net.place(0, &[chain, 100 + chain]);
    }
    net.run(100);
    net
}

fn small() -> Knobs {
    Knobs { slice_bytes: 1, log_bytes: 1, ..Knobs::default() }
}

fn costs(net: &Net, nth: usize) -> Vec<RepairCost> {
    let done = |note: &Note| if let Note::RepairDone { cost, .. } = note { Some(*cost) } else { None };
    net.notes[nth].iter().filter_map(done).collect()
}

fn refusals(net: &Net, nth: usize) -> usize {
    net.noted(nth, |note| matches!(note, Note::RepairRefused { .. }))
}

#[test]
fn the_third_receiver_at_once_is_refused_and_comes_back() {
    let mut net = donor(small());
    for name in ["b", "c", "d"] {
        let joiner = net.add(config(name));
        net.link(0, joiner);
    }
    let mut most = 0;
    for _ in 0..3_000 {
        net.run(1);
        most = most.max(net.nodes[0].permits.open());
    }
    assert_eq!(most, PERMITS_MAX);
    let refused: usize = (1..4).map(|nth| refusals(&net, nth)).sum();
    assert!(refused > 0);
    assert!((1..4).all(|nth| net.is_equal(0, nth)));
    assert!((1..4).all(|nth| costs(&net, nth).len() == 1), "one donor, one session each");
    assert!((1..4).all(|nth| net.noted(nth, |note| matches!(note, Note::RepairAborted { .. })) == 0));
    assert_eq!(net.nodes[0].permits.open(), 0, "permits end with their sessions");
}

#[test]
fn a_refused_receiver_asks_no_earlier_than_it_was_told() {
    let mut net = donor(small());
    net.nodes[0].set_knobs(Knobs { permits: 1, ..small() });
    let b = net.add(config("b"));
    // The first receiver asks once and then for nothing.
    net.swallow(|_, to, message| to == 1 && matches!(message, Message::SliceReply(_)));
    net.link(0, b);
    net.run(300);
    assert_eq!(net.nodes[0].permits.open(), 1);
    let c = net.add(config("c"));
    net.link(0, c);
    let (mut refused_at, mut asked_at) = (Vec::new(), Vec::new());
    for ms in 0..900 {
        net.sent.clear();
        net.run(1);
        for (from, to, message) in &net.sent {
            if let Message::SliceRefused(refused) = message
                && *to == c
            {
                assert_eq!(refused.retry_after_ms, PERMIT_RETRY_MS);
                refused_at.push(ms);
            }
            if matches!(message, Message::SliceAsk(_)) && *from == c {
                asked_at.push(ms);
            }
        }
    }
    assert!(refused_at.len() > 1, "{refused_at:?}");
    let early = |ask: &u64| refused_at.iter().any(|at| at < ask && ask - at < PERMIT_RETRY_MS);
    assert!(!asked_at.iter().any(early), "refused at {refused_at:?}, asked at {asked_at:?}");
}

#[test]
fn the_permit_of_a_receiver_that_vanished_is_given_to_another() {
    let mut net = donor(small());
    net.nodes[0].set_knobs(Knobs { permits: 1, ..small() });
    let b = net.add(config("b"));
    net.link(0, b);
    while net.nodes[0].permits.open() == 0 {
        net.run(1);
    }
    net.run(3);
    net.freeze(b);
    let c = net.add(config("c"));
    net.link(0, c);
    net.run(PERMIT_IDLE_MS + 1_500);
    assert!(refusals(&net, c) > 0);
    assert!(net.is_equal(0, c), "although the link with the first still stands");
}

#[test]
fn a_donor_that_dies_half_way_is_replaced_by_one_that_was_busy() {
    let mut net = donor(small());
    let b = net.add(config("b"));
    net.link(0, b);
    net.run(1_500);
    assert!(net.is_equal(0, b));
    net.nodes[b].set_knobs(small());
    let c = net.add(config("c"));
    net.swallow(|from, _, message| {
        from == 0 && matches!(message, Message::SliceReply(reply) if 4 * reply.nth + reply.part >= 9)
    });
    net.link(0, c);
    net.run(800);
    assert!(net.nodes[c].session.as_ref().is_some_and(|session| session.merged), "half way");
    net.link(b, c);
    net.freeze(0);
    net.cut(0, c);
    net.cut(0, b);
    net.run(1_500);
    assert!(net.is_equal(b, c));
    let last = costs(&net, c).last().copied().expect("the second session");
    assert!(last.segments < CHAINS, "what the first session brought is not sent again: {last:?}");
}

#[test]
fn a_session_goes_on_at_the_pace_of_the_donors_budget() {
    let rate = 2_000;
    let mut net = donor(small());
    net.nodes[0].set_knobs(Knobs { repair_bytes_per_s: rate, ..small() });
    let b = net.add(config("b"));
    net.link(0, b);
    let mut ms = 0;
    while costs(&net, b).is_empty() {
        net.run(10);
        ms += 10;
        assert!(ms < 20_000, "it is slow, not stuck");
    }
    let cost = costs(&net, b)[0];
    let answered = cost.slice_bytes + cost.content_bytes;
    assert!(refusals(&net, b) > 0 && net.noted(b, |note| matches!(note, Note::RepairAborted { .. })) == 0);
    // A second's worth goes at once, and each question answered may overdraw by one slice.
    assert!(answered > 2 * rate && ms * rate / 1_000 + rate + 1_000 >= answered / 2, "{answered} bytes in {ms} ms");
    assert!(ms >= 500, "{answered} bytes in {ms} ms");
    net.run(1_000);
    assert!(net.is_equal(0, b));
}

/// `a` and `b` each went on alone for longer than their logs reach back.
fn parted(knobs: Knobs) -> Net {
    let mut net = Net::mesh(&["a", "b"]);
    for node in &mut net.nodes {
        node.set_knobs(knobs);
    }
    net.probe(0, "t");
    for chain in 0..40 {
        net.place(0, &[chain]);
    }
    net.run(300);
    assert!(net.is_equal(0, 1));
    net.cut(0, 1);
    for chain in 0..10 {
        net.place(0, &[chain, 100]);
        net.place(1, &[10 + chain, 200]);
        net.run(50);
    }
    net.run(400);
    net.link(0, 1);
    net.run(3_000);
    net
}

#[test]
fn both_sides_of_a_partition_are_sent_what_they_lack_and_little_else() {
    let log_bytes = 1;
    for buckets in [1, 4, BUCKETS_MAX] {
        let net = parted(Knobs { log_bytes, buckets, bucket_segments: 4, ..Knobs::default() });
        assert!(net.is_equal(0, 1), "{buckets} buckets");
        for nth in 0..2 {
            let costs = costs(&net, nth);
            let new: u64 = costs.iter().map(|cost| cost.segments_new).sum();
            let sent: u64 = costs.iter().skip(usize::from(nth > 0)).map(|cost| cost.segments).sum();
            assert!(new >= 10 && sent <= 20, "{buckets} buckets: {costs:?}");
        }
    }
}

#[test]
fn one_segment_out_of_50_000_takes_few_bytes() {
    let mut net = Net::mesh(&["a", "b"]);
    net.probe(0, "t");
    net.run(100);
    let incarnation = net.incarnation(0);
    for nth in 0..50_001_u64 {
        let at = Stamp { hlc: Hlc::new(EPOCH_MS - 100_000 + nth, 0), life: LifeId(9) };
        for node in &mut net.nodes[usize::from(nth == 30_000)..] {
            let chain = [BlockHash(nth)];
            let (place, _) = node.replica.learn_chain(&chain).expect("one block");
            let _ = node.replica.place(&worker(), &keyspace(), &incarnation, place, at);
        }
    }
    net.run(1_000);
    assert!(net.is_equal(0, 1));
    let cost = costs(&net, 0).into_iter().find(|cost| cost.segments > 0).expect("a session for the missing one");
    assert_eq!((cost.segments, cost.segments_new), (1, 1));
    assert!(cost.summary_bytes + cost.slice_bytes < 12_000 && cost.asks == 2, "{cost:?}");
}
