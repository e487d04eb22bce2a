//! Hazards of joining: rule (e), ruling R7, the bound on lives.

use covey_crdt::limits::LIVES_MAX;
use covey_crdt::lives::LifeRecord;

use super::*;
use crate::limits::ALONE_MS;
use crate::note::Refusal;

#[test]
fn a_newcomer_stamps_nothing_before_it_has_joined_rule_e() {
    let mut net = Net::new(&["a"]);
    net.run(100);
    net.probe(0, "t");
    net.place(0, &[1]);
    net.run(1_000);
    assert_eq!(net.seq(0, 0), 1, "its name and nothing else");
    net.run(ALONE_MS);
    assert_eq!(net.nodes[0].phase(), Phase::Clean);
    assert_eq!(net.seq(0, 0), 2, "what waited was done in order: the placement named an incarnation nobody had");
}

#[test]
fn of_joiners_only_the_smallest_life_founds_and_none_donates_r7() {
    let mut net = Net::new(&["a", "b", "c"]);
    for (one, other) in [(0, 1), (0, 2), (1, 2)] {
        net.link(one, other);
    }
    net.run(900);
    assert!(net.nodes.iter().all(|node| node.phase() == Phase::Joining));
    net.run(1_500);
    let founded: Vec<_> = (0..3).map(|nth| net.noted(nth, |note| *note == Note::Founded)).collect();
    assert_eq!(founded, [1, 0, 0]);
    assert!(net.is_equal(0, 1) && net.is_equal(1, 2));
}

#[test]
fn a_joiner_asked_for_its_state_refuses_r7() {
    let mut net = Net::new(&["a", "b"]);
    net.link(0, 1);
    net.run(300);
    let ask = crate::wire::SliceAsk {
        session: 7,
        nth: 0,
        cursor: serde_bytes::ByteBuf::from(covey_crdt::codec::encode_cursor(&covey_crdt::slice::Cursor::Start)),
        window: serde_bytes::ByteBuf::new(),
        holders: serde_bytes::ByteBuf::new(),
        whole: false,
    };
    net.sent.clear();
    let bytes = Message::SliceAsk(ask).encode();
    net.input(1, Input::Received { from: net.life(0), bytes });
    let refused = net.sent.iter().any(|(from, _, message)| *from == 1 && matches!(message, Message::SliceRefused(_)));
    let donated = net.sent.iter().any(|(_, _, message)| matches!(message, Message::SliceReply(_)));
    assert!(refused && !donated);
}

#[test]
fn the_joiner_after_the_last_life_is_refused_by_name() {
    let mut net = Net::new(&["a"]);
    net.run(3_200);
    for nth in 0..LIVES_MAX as u128 - 2 {
        let record = LifeRecord { name: GatewayName::new(&format!("old-{nth}")).expect("a name"), left: false };
        let _ = net.nodes[0].replica.merge_life(LifeId(1_000 + nth), &record);
    }
    let last = net.add(config("last"));
    net.link(0, last);
    net.run(1_000);
    assert!(net.is_equal(0, last), "there was room for one more");
    let late = net.add(config("late"));
    net.link(0, late);
    net.run(1_000);
    let full = |note: &Note| matches!(note, Note::Refused { name, why: Refusal::LivesFull { lives: LIVES_MAX }, .. } if name.as_str() == "late");
    assert!(net.noted(0, full) > 0);
    assert!(net.noted(late, |note| matches!(note, Note::RefusedBy { .. })) > 0);
    net.run(10_000);
    assert_eq!(net.nodes[late].phase(), Phase::Joining, "it founds no second mesh beside the full one");
}
