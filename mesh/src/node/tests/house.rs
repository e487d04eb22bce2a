//! Hazards of housekeeping: placements that never expire, or are expired by everybody at once.

use covey_crdt::op::Op;

use super::*;
use crate::limits::EXPIRY_MS;

#[test]
fn an_idle_placement_is_expired_once_by_the_workers_owner_alone() {
    let mut net = Net::new(&[]);
    for name in ["a", "b", "c"] {
        net.add(NodeConfig { placement_idle_ms: 2_000, ..config(name) });
    }
    for (one, other) in [(0, 1), (0, 2), (1, 2)] {
        net.link(one, other);
    }
    net.run(3_000);
    net.probe(0, "t");
    net.run(50);
    net.place(1, &[1, 2]);
    net.run(1_500);
    let blocks =
        |net: &Net, nth: usize| net.nodes[nth].replica().holders().map(|(_, _, placed)| placed.blocks()).sum::<u32>();
    assert!((0..3).all(|nth| blocks(&net, nth) == 2), "not yet idle");
    net.run(EXPIRY_MS + 2_000);
    assert!((0..3).all(|nth| blocks(&net, nth) == 0));
    let raises: usize = (0..3)
        .map(|nth| {
            let own = net.nodes[nth].retained(net.life(nth), 1).expect("retained");
            own.filter(|(_, op)| matches!(op, Op::Floor(_))).count()
        })
        .sum();
    assert_eq!(raises, 1);
    assert!(net.is_equal(0, 1) && net.is_equal(1, 2));
}
