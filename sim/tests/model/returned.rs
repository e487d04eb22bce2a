//! I5 against what really happened: whatever came late or twice, no replica, clean or dirty, covers a block that a floor it
//! has applied retired, or that only a request to an earlier incarnation of the worker placed.
//!
//! The simulator's own check asks each replica for its floor; this one knows the floor ops, so a floor that was forgotten
//! does not hide what it should have kept out.

use covey_crdt::change::HolderKey;
use covey_crdt::id::Incarnation;
use covey_crdt::op::Op;
use covey_crdt::stamp::{Floor, Rank, Stamp};
use covey_sim::invariants::{View, Violation};
use covey_sim::oracle::Oracle;

pub(crate) fn check(view: &View, oracle: &Oracle) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut wrong = |key: &HolderKey, what: &str| {
        found.push(Violation { invariant: "I5", what: format!("{}: {what} is covered for {}", view.name, key.worker) });
    };
    for (key, (_, blocks)) in &view.state.coverage {
        let Some(record) = view.state.records.get(&key.worker) else { continue };
        let floor = floor(view, oracle, key, &record.incarnation);
        for (stamp, depth) in blocks.values() {
            if (Rank { stamp: *stamp, depth: *depth }) <= floor {
                wrong(key, "a block at or below a floor that was applied");
            }
            if !is_of(oracle, key, &record.incarnation, *stamp) {
                wrong(key, "a block of an older incarnation");
            }
        }
    }
    found
}

/// The highest floor that anybody set for the holder, as far as the replica has counted.
fn floor(view: &View, oracle: &Oracle, key: &HolderKey, incarnation: &Incarnation) -> Floor {
    let raises =
        oracle.counted(&view.vector).filter_map(|op| if let Op::Floor(raise) = op { Some(raise) } else { None });
    let own = raises.filter(|raise| {
        raise.worker == key.worker && raise.keyspace == key.keyspace && raise.incarnation == *incarnation
    });
    own.map(|raise| raise.floor).max().unwrap_or(Floor::LOWEST)
}

/// Whether the touch with this stamp was made under this incarnation.
fn is_of(oracle: &Oracle, key: &HolderKey, incarnation: &Incarnation, stamp: Stamp) -> bool {
    let mut touches = oracle.ops().filter_map(|op| if let Op::Touch(touch) = op { Some(touch) } else { None });
    touches.any(|touch| touch.stamp == stamp && touch.worker == key.worker && touch.incarnation == *incarnation)
}
