//! Hazards of repair sessions that end early: P4, P5, P6, ruling R13.

use super::*;
use crate::limits::Knobs;

/// `a` and `b` are a mesh; `b` missed what `a` no longer retains, and got two slices of the session that mends that.
/// Then `a` fell silent.
fn torn() -> Net {
    let mut net = Net::mesh(&["a", "b"]);
    let knobs = Knobs { slice_bytes: 1, log_bytes: 1, ..Knobs::default() };
    net.nodes[0].set_knobs(knobs);
    net.probe(0, "t");
    net.run(50);
    net.cut(0, 1);
    for chain in 0..8 {
        net.place(0, &[chain, 100 + chain]);
    }
    net.run(400);
    net.swallow(|_, _, message| matches!(message, Message::SliceReply(reply) if 4 * reply.nth + reply.part >= 7));
    net.link(0, 1);
    net.run(800);
    assert!(net.nodes[1].session.as_ref().is_some_and(|session| session.merged), "a session is under way");
    net
}

#[test]
fn a_session_that_breaks_off_leaves_its_receiver_dirty_until_it_has_caught_up_p4() {
    let mut net = torn();
    assert_eq!(net.nodes[1].phase(), Phase::Dirty, "from the first merged slice");
    net.cut(0, 1);
    net.run(200);
    assert!(net.nodes[1].session.is_none());
    assert_eq!(net.nodes[1].phase(), Phase::Dirty, "after the session was given up as well");
    assert_eq!(net.nodes[1].status(MonoTime::from_ms(0)).digest, None);
    net.swallow(|_, _, _| false);
    net.link(0, 1);
    net.run(3_000);
    assert!(net.is_equal(0, 1));
}

#[test]
fn a_dirty_replica_advertises_no_digest_and_says_so_r13() {
    let mut net = torn();
    net.sent.clear();
    net.run(600);
    let mut exchanges = 0;
    for (from, _, message) in &net.sent {
        if let (1, Message::Exchange(exchange)) = (from, message) {
            exchanges += 1;
            assert!(exchange.digest.is_empty() && exchange.phase == 2);
        }
    }
    assert!(exchanges > 0);
}

#[test]
fn a_dirty_donor_hands_its_targets_on_p5() {
    let mut net = torn();
    let target = net.nodes[1].targets.get(&net.life(0)).copied().expect("the session named one");
    net.freeze(0);
    net.cut(0, 1);
    let c = net.add(config("c"));
    net.link(1, c);
    net.run(1_500);
    assert_eq!(net.nodes[c].targets.get(&net.life(0)), Some(&target));
    assert_eq!(net.nodes[c].phase(), Phase::Dirty, "it holds what its vector does not count");
}

#[test]
fn replicas_whose_missing_ops_died_with_their_writer_become_clean_and_equal_p6() {
    let mut net = torn();
    net.freeze(0);
    net.cut(0, 1);
    let c = net.add(config("c"));
    net.link(1, c);
    net.run(4_000);
    assert_eq!(net.nodes[1].phase(), Phase::Dirty, "not before it is sure");
    net.run(8_000);
    assert!(net.is_equal(1, c));
    assert_eq!(net.nodes[1].replica().expand(), net.nodes[c].replica().expand());
    // The writer was only away: it comes back and all are equal again.
    net.swallow(|_, _, _| false);
    net.link(0, 1);
    net.link(0, c);
    net.run(8_000);
    assert!(net.is_equal(0, 1) && net.is_equal(1, c));
}

#[test]
fn a_joiner_whose_only_donor_dies_half_way_is_ready_in_the_end() {
    let mut net = Net::new(&["a"]);
    net.nodes[0].set_knobs(Knobs { slice_bytes: 1, ..Knobs::default() });
    net.run(3_200);
    net.probe(0, "t");
    for chain in 0..8 {
        net.place(0, &[chain]);
    }
    net.run(100);
    let b = net.add(config("b"));
    net.swallow(|_, _, message| matches!(message, Message::SliceReply(reply) if 4 * reply.nth + reply.part >= 7));
    net.link(0, b);
    net.run(1_000);
    assert!(!net.nodes[b].targets.is_empty(), "it merged a part");
    net.freeze(0);
    net.cut(0, b);
    net.run(10_000);
    assert_eq!(net.nodes[b].phase(), Phase::Clean);
}
