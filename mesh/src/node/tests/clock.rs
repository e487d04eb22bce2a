//! Hazards of wrong clocks: P11, rulings R8 and the rules (b) and (c).

use super::*;
use crate::note::{AbortWhy, ClockState, Drop};

#[test]
fn one_slow_gateway_of_three_silences_nobody_p11() {
    let mut net = Net::mesh(&["a", "b", "c"]);
    net.offsets_ms[2] = -10_000;
    net.run(1_000);
    let clocks: Vec<_> = net.nodes.iter().map(Node::clock).collect();
    assert_eq!(clocks, [ClockState::Good, ClockState::Good, ClockState::Behind]);
}

#[test]
fn a_fast_gateway_publishes_nothing_until_its_clock_is_mended_rule_a() {
    let mut net = Net::mesh(&["a", "b", "c"]);
    net.probe(0, "t");
    net.run(100);
    net.offsets_ms[2] = 10_000;
    let before = net.seq(2, 2);
    net.place(2, &[1]);
    assert_eq!(net.nodes[2].clock(), ClockState::Ahead, "a step shows at once, not with the next exchange");
    assert_eq!(net.seq(2, 2), before);
    assert_eq!(net.noted(2, |note| matches!(note, Note::Dropped { why: Drop::Clock })), 1);
    net.offsets_ms[2] = 0;
    net.place(2, &[1]);
    net.run(100);
    assert_eq!(net.seq(0, 2), before + 1);
}

#[test]
fn a_small_step_back_is_absorbed_and_a_large_one_ends_the_life_r8() {
    let mut net = Net::mesh(&["a", "b"]);
    net.probe(0, "t");
    net.offsets_ms[0] = -200;
    net.run(100);
    assert_eq!(net.reborn[0], None);
    let mut net = Net::mesh(&["a", "b"]);
    net.probe(0, "t");
    net.offsets_ms[0] = -300;
    net.place(0, &[1]);
    assert_eq!(net.reborn[0], Some(Rebirth::ClockStepped));
    assert_eq!(net.seq(0, 0), 2, "a life that is over says nothing more");
}

#[test]
fn a_state_from_the_future_is_not_merged_before_its_time_rule_c() {
    let mut net = Net::new(&["a"]);
    net.offsets_ms[0] = 5_000;
    net.run(3_200);
    net.probe(0, "t");
    net.place(0, &[1]);
    net.add(config("b"));
    net.link(0, 1);
    net.run(2_000);
    // Rule c: a state with stamps from the future is not merged either, so the newcomer waits until they are past.
    assert_eq!(net.nodes[1].phase(), Phase::Joining);
    let future = |note: &Note| matches!(note, Note::RepairAborted { why: AbortWhy::FutureStamp, .. });
    assert!(net.noted(1, future) > 0);
    assert!(net.nodes[1].replica().record(&worker()).is_none(), "nothing of it was merged (rule c)");
    assert!(net.seq(1, 0) <= 1, "only what carries no stamp is applied");
    let pulls = net.sent.iter().filter(|(from, _, message)| *from == 1 && matches!(message, Message::Pull(_)));
    assert_eq!(pulls.count(), 0);
    net.run(5_000);
    assert!(net.is_equal(0, 1), "time passes and it is applied");
}

#[test]
fn an_op_from_the_future_waits_uncounted_and_is_not_pulled_again_rule_b() {
    let mut net = Net::new(&["a", "b"]);
    net.offsets_ms[1] = -5_000;
    net.link(0, 1);
    net.run(3_000);
    let before = net.seq(1, 0);
    // Of two the faster is silent, so its ops are made while it does not see the other.
    net.cut(0, 1);
    net.run(50);
    net.probe(0, "t");
    net.run(50);
    assert_eq!(net.seq(0, 0), before + 1);
    net.sent.clear();
    net.link(0, 1);
    net.run(2_000);
    assert_eq!(net.seq(1, 0), before, "held, not counted");
    let pulls = net.sent.iter().filter(|(from, _, message)| *from == 1 && matches!(message, Message::Pull(_))).count();
    assert_eq!(pulls, 1, "what is held is not asked for again");
    let held = |(from, _, message): &&(usize, usize, Message)| {
        *from == 1 && matches!(message, Message::Exchange(exchange) if !exchange.held.is_empty())
    };
    assert!(net.sent.iter().filter(held).count() > 0, "every exchange says what is held (R13)");
    net.run(5_000);
    assert_eq!(net.seq(1, 0), before + 1);
}

#[test]
fn what_follows_an_op_is_stamped_later_than_it_although_the_own_clock_is_slower() {
    let mut net = Net::mesh(&["a", "b"]);
    net.offsets_ms[0] = 200;
    net.probe(0, "t");
    net.place(0, &[1]);
    net.run(10);
    net.place(1, &[2]);
    let placed = net.nodes[1].replica().holders().map(|(_, _, placed)| placed).next().expect("a holder");
    let stamps: Vec<_> = placed.segments(None).map(|(stamp, _)| stamp.life).collect();
    assert_eq!(stamps, [net.life(0), net.life(1)], "the effect is the more recent of the two");
}
