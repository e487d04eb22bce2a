//! Hazards of logs: P12, rulings R3 and R10, held ops.

use covey_crdt::codec::{decode_chains, encode_ops};
use covey_crdt::op::Op;
use serde_bytes::ByteBuf;

use super::*;
use crate::note::Drop;
use crate::vector::Head;
use crate::wire::Ops;

#[test]
fn a_probe_that_was_under_way_while_the_engine_changed_is_not_believed_p12() {
    let mut net = Net::mesh(&["a", "b"]);
    net.probe(0, "old");
    net.run(50);
    let before = net.incarnation(1);
    net.probe(0, "new");
    net.place(0, &[1, 2]);
    net.run(50);
    let late = Local::Probed { worker: worker(), started_at: before, token: token("old"), capacity_tokens: None };
    net.input(1, Input::Local(late));
    net.run(50);
    assert_eq!(net.incarnation(0).token, token("new"));
    assert_eq!(net.noted(1, |note| *note == Note::Dropped { why: Drop::Incarnation }), 1);
    assert_eq!(net.nodes[0].replica().holders().map(|(_, _, placed)| placed.blocks()).sum::<u32>(), 2);
}

fn forged(net: &Net, of: usize, first: u64, before: u64, ops: &[Op]) -> Bytes {
    let message = Ops {
        life: net.life(of).into(),
        first,
        before,
        chains: ByteBuf::from(covey_crdt::codec::encode_chains(&Vec::new())),
        ops: ByteBuf::from(encode_ops(ops)),
    };
    Message::Ops(message).encode()
}

#[test]
fn ops_of_another_log_by_the_same_name_are_refused_and_named_r3() {
    let mut net = Net::mesh(&["a", "b", "c"]);
    net.probe(0, "t");
    net.run(50);
    let head = net.nodes[1].vector().head(net.life(0));
    for (first, before) in [(head.seq + 1, head.hash ^ 1), (head.seq, head.hash)] {
        net.notes[1].clear();
        let bytes = forged(&net, 0, first, before, &[Op::Left]);
        net.input(1, Input::Received { from: net.life(2), bytes });
        let fork = Note::Fork { life: net.life(0), peer: net.life(2) };
        assert!(net.notes[1].contains(&fork), "from {first}: {:?}", net.notes[1]);
        assert_eq!(net.nodes[1].vector().head(net.life(0)), head);
        assert!(!net.nodes[1].replica().lives()[&net.life(0)].left);
    }
}

#[test]
fn a_life_whose_identity_is_used_twice_ends_r3() {
    let mut net = Net::mesh(&["a", "b"]);
    let head = net.nodes[0].vector().head(net.life(0));
    let bytes = forged(&net, 0, head.seq + 1, head.hash, &[Op::Left]);
    net.input(0, Input::Received { from: net.life(1), bytes });
    assert_eq!(net.reborn[0], Some(Rebirth::Forked), "a peer hands out more of the log than was written");

    let mut net = Net::mesh(&["a", "b"]);
    let (life, head) = (net.life(0), net.nodes[0].vector().head(net.life(0)));
    let rows = [(life, Head { hash: head.hash ^ 1, ..head })];
    assert!(net.nodes[0].is_forked(&rows), "other ops under the same numbers");
    assert!(!net.nodes[0].is_forked(&[(life, head)]));
    assert!(!net.nodes[0].is_forked(&[(life, Head::default())]), "a peer that knows nothing yet proves nothing");
    net.probe(0, "t");
    assert!(net.nodes[0].is_forked(&rows), "the fork lies in the past");
    assert!(!net.nodes[0].is_forked(&[(life, head)]));
}

#[test]
fn a_fork_whose_branches_have_different_lengths_does_not_keep_the_mesh_apart() {
    let mut net = Net::mesh(&["a", "b", "c"]);
    net.probe(0, "t");
    net.run(50);
    // A snapshot of `a` is continued in two ways: `b` hears one of them, `c` the other.
    let snapshot = net.nodes[0].clone();
    net.cut(0, 2);
    net.cut(1, 2);
    net.place(0, &[1]);
    net.run(50);
    net.cut(0, 1);
    net.nodes[0] = snapshot;
    let (b, c) = (net.life(1), net.life(2));
    net.input(0, Input::Link(Link::Down(b)));
    net.input(0, Input::Link(Link::Down(c)));
    net.link(0, 2);
    net.place(0, &[2]);
    net.place(0, &[3]);
    net.run(300);
    net.freeze(0);
    net.cut(0, 2);
    assert!(net.seq(1, 0) < net.seq(2, 0));
    net.link(1, 2);
    net.run(10_000);
    assert!(net.is_equal(1, 2), "vectors: {:?} {:?}", net.seq(1, 0), net.seq(2, 0));
    assert!(net.noted(1, |note| matches!(note, Note::Fork { .. })) > 0);
}

fn hashes_sent(net: &Net) -> usize {
    let chains = |message: &Message| {
        let ops = if let Message::Ops(ops) = message { Some(&ops.chains) } else { None };
        let content = if let Message::Content(content) = message { Some(&content.chains) } else { None };
        ops.or(content).map_or_else(Vec::new, |chains| decode_chains(chains).expect("chains"))
    };
    net.sent.iter().flat_map(|(_, _, message)| chains(message)).map(|piece| piece.hashes.len()).sum()
}

#[test]
fn content_goes_over_a_connection_once_and_again_over_a_new_one_r10() {
    let mut net = Net::mesh(&["a", "b"]);
    net.probe(0, "t");
    let chain: Vec<u64> = (0..160).collect();
    net.place(0, &chain[..100]);
    net.run(50);
    assert_eq!(hashes_sent(&net), 100);
    net.sent.clear();
    net.place(0, &chain);
    net.place(0, &chain);
    net.run(50);
    assert_eq!(hashes_sent(&net), 60, "only what is new");
    net.cut(0, 1);
    net.link(0, 1);
    net.run(300);
    net.sent.clear();
    net.place(0, &chain);
    net.run(50);
    assert_eq!(hashes_sent(&net), 160, "nothing is known of the new connection's peer");
    assert!(net.is_equal(0, 1));
}

#[test]
fn content_lost_on_the_way_is_asked_for_at_once_without_a_session_r10() {
    let mut net = Net::mesh(&["a", "b"]);
    net.probe(0, "t");
    net.run(50);
    // The op comes without its chain, as when the frame ahead of it was lost.
    net.swallow(|_, _, message| matches!(message, Message::Ops(_)));
    net.place(0, &[1, 2, 3]);
    net.run(5);
    net.swallow(|_, _, _| false);
    let head = net.nodes[1].vector().head(net.life(0));
    let log = net.nodes[0].retained(net.life(0), head.seq + 1).expect("retained");
    let ops: Vec<Op> = log.map(|(_, op)| op.clone()).collect();
    let bytes = forged(&net, 0, head.seq + 1, head.hash, &ops);
    net.input(1, Input::Received { from: net.life(0), bytes });
    assert_eq!(net.noted(1, |note| *note == Note::Wanted), 1);
    net.run(10);
    assert!(net.is_equal(0, 1));
    assert_eq!(
        net.noted(1, |note| matches!(note, Note::RepairStarted { why: crate::note::RepairWhy::Unresolved, .. })),
        0
    );
}

#[test]
fn a_run_whose_number_is_used_again_is_sent_again_r10() {
    let mut net = Net::mesh(&["a", "b"]);
    net.nodes[0].set_knobs(crate::limits::Knobs { log_bytes: 1, ..crate::limits::Knobs::default() });
    net.probe(0, "t");
    net.place(0, &[1, 2, 3]);
    net.run(50);
    let runs = net.nodes[0].replica().chains().runs();
    net.input(0, Input::Local(Local::Reset { worker: worker() }));
    net.run(300);
    assert_eq!((runs, net.nodes[0].replica().chains().runs()), (1, 0), "nothing refers to the chain any more");
    net.sent.clear();
    net.place(0, &[7, 8, 9]);
    net.run(50);
    assert_eq!(net.nodes[0].replica().chains().runs(), 1);
    assert_eq!(hashes_sent(&net), 3);
    assert_eq!(net.noted(1, |note| *note == Note::Wanted), 0, "nobody had to ask");
    assert!(net.is_equal(0, 1));
}
