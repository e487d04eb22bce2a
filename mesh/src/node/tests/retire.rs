//! Hazards of lives that end (P7–P10): ops applied after the acknowledgement, joiners that hear of the end before the
//! op, members that were away too long, and the whole mesh forgetting.

use std::cell::Cell;
use std::rc::Rc;

use covey_crdt::op::{LifeEnd, Op};
use covey_crdt::stamp::Stamp;

use super::*;
use crate::limits::Knobs;

const HORIZON_MS: u64 = 6_000;

/// A mesh whose horizon is short.
fn mesh(names: &[&str]) -> Net {
    let mut net = Net::new(names);
    for node in &mut net.nodes {
        node.set_knobs(Knobs { horizon_ms: HORIZON_MS, ..Knobs::default() });
    }
    for other in 1..names.len() {
        for one in 0..other {
            net.link(one, other);
        }
    }
    net.run(3_000);
    net.probe(0, "t");
    net.run(100);
    for nth in 0..names.len() {
        net.place(nth, &[nth as u64 + 1]);
    }
    net.run(1_000);
    assert!(net.is_equal(0, 1), "the mesh is up");
    net
}

fn knows(net: &Net, nth: usize, of: usize) -> bool {
    let node = &net.nodes[nth];
    node.replica().lives().contains_key(&net.life(of)) || node.vector().head(net.life(of)).seq > 0
}

/// The third node says goodbye and is gone.
fn third_leaves(net: &mut Net) {
    net.input(2, Input::Local(Local::Leave));
    net.run(50);
    net.cut(0, 2);
    net.cut(1, 2);
}

fn retired(net: &Net, nth: usize, of: usize) -> bool {
    net.nodes[nth].replica().retired().contains_key(&net.life(of))
}

#[test]
fn a_life_that_left_is_retired_everywhere_and_its_coverage_stays_p7() {
    let mut net = mesh(&["a", "b", "c"]);
    third_leaves(&mut net);
    net.run(1_500);
    for nth in 0..2 {
        assert!(retired(&net, nth, 2) && !knows(&net, nth, 2), "node {nth}");
    }
    assert!(net.is_equal(0, 1));
    let blocks: u32 = net.nodes[0].replica().holders().map(|(_, _, placed)| placed.blocks()).sum();
    assert_eq!(blocks, 3, "what it placed is still true");
}

#[test]
fn a_crashed_life_is_retired_after_the_horizon_and_not_before() {
    let mut net = mesh(&["a", "b", "c"]);
    net.freeze(2);
    net.cut(0, 2);
    net.cut(1, 2);
    net.run(HORIZON_MS - 1_000);
    assert!(knows(&net, 0, 2) && knows(&net, 1, 2), "it may come back");
    net.run(2_500);
    assert!(retired(&net, 0, 2) && retired(&net, 1, 2) && net.is_equal(0, 1));
}

#[test]
fn retirement_waits_for_the_member_that_lacks_the_last_op_p7() {
    let mut net = mesh(&["a", "b", "c"]);
    // The last words of c reach a, and b hears nothing of a for a while.
    let deaf = Rc::new(Cell::new(true));
    let mute = Rc::clone(&deaf);
    net.cut(1, 2);
    net.swallow(move |from, to, _| mute.get() && (from, to) == (0, 1));
    net.place(2, &[7, 8]);
    net.run(20);
    net.freeze(2);
    net.cut(0, 2);
    net.run(HORIZON_MS + 2_000);
    assert!(!retired(&net, 0, 2), "b has not said that it has everything");
    deaf.set(false);
    net.run(2_000);
    assert!(retired(&net, 0, 2) && retired(&net, 1, 2) && net.is_equal(0, 1));
    let blocks = |nth: usize| net.nodes[nth].replica().holders().map(|(_, _, placed)| placed.blocks()).sum::<u32>();
    assert_eq!((blocks(0), blocks(1)), (5, 5));
}

#[test]
fn the_end_of_a_life_is_not_applied_before_its_last_op_p8() {
    let mut net = mesh(&["a", "b", "c"]);
    let (gone, stamp) = (net.life(2), net.nodes[0].hlc);
    let last = net.seq(0, 2);
    // Somebody ends the life one op later than b has it.
    net.swallow(|_, to, message| to == 1 && matches!(message, Message::Ops(ops) if ops.life == LifeId(3).into()));
    net.place(2, &[9]);
    net.run(50);
    assert_eq!((net.seq(0, 2), net.seq(1, 2)), (last + 1, last));
    let end = LifeEnd { life: gone, last: last + 1, stamp: Stamp { hlc: stamp.tick(WallMs(0)), life: net.life(0) } };
    net.nodes[0].publish(Op::Retired(end));
    net.collect(0);
    net.run(200);
    assert!(retired(&net, 0, 2) && !retired(&net, 1, 2), "b waits");
    assert!(net.seq(1, 0) < net.seq(0, 0), "and applies nothing behind it");
    net.run(4_000);
    assert!(retired(&net, 1, 2) && net.is_equal(0, 1), "a session covers it");
}

#[test]
fn a_joiner_takes_the_ends_with_its_donors_vector_p9() {
    let mut net = mesh(&["a", "b", "c"]);
    third_leaves(&mut net);
    net.run(1_500);
    assert!(retired(&net, 0, 2));
    let joiner = net.add(config("d"));
    net.link(0, joiner);
    net.link(1, joiner);
    net.run(1_500);
    assert!(retired(&net, joiner, 2) && !knows(&net, joiner, 2));
    assert!(net.is_equal(0, joiner) && net.is_equal(1, joiner));
}

#[test]
fn the_smaller_side_of_a_long_partition_begins_anew_and_the_larger_keeps_all_p10() {
    let mut net = mesh(&["a", "b", "c", "d", "e"]);
    for one in 0..2 {
        for other in 2..5 {
            net.cut(one, other);
        }
    }
    net.run(HORIZON_MS + 3_000);
    assert!(!retired(&net, 0, 2), "two of five retire nobody");
    assert!(retired(&net, 2, 0) && retired(&net, 3, 1), "three of five do");
    for one in 0..2 {
        for other in 2..5 {
            net.link(one, other);
        }
    }
    net.run(600);
    assert_eq!(net.reborn[..2], [Some(Rebirth::Retired); 2]);
    assert_eq!(net.reborn[2..], [None; 3]);
}

#[test]
fn of_two_even_sides_that_with_the_smallest_life_goes_on_p10() {
    let mut net = mesh(&["a", "b"]);
    net.cut(0, 1);
    net.run(HORIZON_MS + 3_000);
    assert!(retired(&net, 0, 1) && !retired(&net, 1, 0));
    net.link(0, 1);
    net.run(600);
    assert_eq!(net.reborn, [None, Some(Rebirth::Retired)]);
}

#[test]
fn a_member_whose_clock_stood_still_learns_that_it_was_retired() {
    let mut net = mesh(&["a", "b", "c"]);
    // Paused: its timers do not run, so it does not know that it was away.
    net.freeze(2);
    let frozen = net.nodes.pop().expect("the third");
    net.cut_half(0, 2);
    net.cut_half(1, 2);
    net.run(HORIZON_MS + 3_000);
    net.nodes.push(frozen);
    net.paused_ms[2] = HORIZON_MS + 3_000;
    assert!(retired(&net, 0, 2));
    net.link(0, 2);
    net.run(600);
    assert_eq!(net.reborn[2], Some(Rebirth::Retired));
}

#[test]
fn retired_lives_are_forgotten_by_an_op_after_two_horizons() {
    let mut net = mesh(&["a", "b", "c"]);
    third_leaves(&mut net);
    net.run(2 * HORIZON_MS - 2_000);
    assert!(retired(&net, 0, 2) && retired(&net, 1, 2));
    net.run(4_000);
    for nth in 0..2 {
        assert!(!retired(&net, nth, 2) && !knows(&net, nth, 2));
        assert_eq!(net.noted(nth, |note| matches!(note, Note::Forgot { lives: 1 })), 1);
    }
    assert!(net.is_equal(0, 1));
}

#[test]
fn a_name_that_restarts_over_and_over_does_not_use_up_lives() {
    let mut net = mesh(&["a", "b"]);
    for _ in 0..5 {
        let next = net.add(config("c"));
        net.link(0, next);
        net.link(1, next);
        net.run(1_500);
        net.freeze(next);
        net.cut(0, next);
        net.cut(1, next);
        net.run(500);
    }
    let last = net.add(config("c"));
    net.link(0, last);
    net.link(1, last);
    net.run(8_000);
    assert_eq!(net.nodes[0].replica().lives().len(), 3, "all its dead lives are retired");
    assert!(net.is_equal(0, last) && net.is_equal(1, last));
}

/// The larger side has long forgotten the life that comes back: it must not begin anew for being closed by it (P10).
#[test]
fn a_life_that_comes_back_after_it_was_forgotten_begins_anew_alone_p10() {
    let mut net = mesh(&["a", "b", "c"]);
    net.cut(0, 2);
    net.cut(1, 2);
    net.run(4 * HORIZON_MS);
    assert!(!retired(&net, 0, 2) && !knows(&net, 0, 2), "forgotten");
    net.link(0, 2);
    net.link(1, 2);
    net.run(1_200);
    assert_eq!(net.reborn, [None, None, Some(Rebirth::Retired)]);
    assert!(net.is_equal(0, 1));
}

/// What a forgotten life did is in no log any more: two meshes that were founded apart do not merge then.
#[test]
fn of_two_meshes_founded_apart_the_smaller_begins_anew_once_a_life_was_forgotten() {
    let mut net = mesh(&["a", "b", "c"]);
    third_leaves(&mut net);
    net.run(3 * HORIZON_MS);
    let alone = net.add(config("d"));
    net.run(4_000);
    assert_eq!(net.nodes[alone].phase(), Phase::Clean, "it founded a mesh of its own");
    net.link(0, alone);
    net.run(600);
    assert_eq!(net.reborn[alone], Some(Rebirth::Apart));
    assert_eq!(net.reborn[..2], [None, None]);
}

/// As long as nothing was forgotten they merge, and nothing is lost.
#[test]
fn two_meshes_founded_apart_merge_log_by_log() {
    let mut net = mesh(&["a", "b"]);
    let alone = net.add(config("d"));
    net.run(4_000);
    net.link(0, alone);
    net.link(1, alone);
    net.run(2_000);
    assert_eq!(net.reborn, [None; 3]);
    assert!(net.is_equal(0, alone) && net.is_equal(1, alone));
    assert!((0..3).all(|nth| net.nodes[nth].mesh() == net.nodes[0].mesh()));
}

/// Its own clock stood still, so it closed nobody and does not know that it was away, and the others forgot it.
#[test]
fn a_member_that_stood_still_until_it_was_forgotten_begins_anew() {
    let mut net = mesh(&["a", "b", "c"]);
    // No log reaches back to the op that retired it.
    for node in &mut net.nodes {
        node.set_knobs(Knobs { horizon_ms: HORIZON_MS, log_age_ms: 500, ..Knobs::default() });
    }
    net.freeze(2);
    let frozen = net.nodes.pop().expect("the third");
    net.cut_half(0, 2);
    net.cut_half(1, 2);
    net.run(4 * HORIZON_MS);
    net.nodes.push(frozen);
    net.paused_ms[2] = 4 * HORIZON_MS;
    assert!(!retired(&net, 0, 2) && !knows(&net, 0, 2), "forgotten");
    net.link(0, 2);
    net.run(600);
    assert_eq!(net.reborn, [None, None, Some(Rebirth::Retired)]);
    assert!(!knows(&net, 0, 2), "and does not come back");
}
