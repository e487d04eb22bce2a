//! I2: a clean replica's placed coverage is exactly the top-K of all touches its vector counts that lie above the floor,
//! within the incarnations those ops name. Judged by the oracle's list of all ops, not by the lattice.

use covey_crdt::id::WorkerId;

use super::{View, Violation};
use crate::oracle::Oracle;

pub(super) fn check(view: &View, oracle: &Oracle) -> Vec<Violation> {
    if !view.clean {
        return Vec::new();
    }
    let (incarnations, coverage) = oracle.expect(&view.vector);
    let mut found = Vec::new();
    for (worker, incarnation) in &incarnations {
        let held = view.state.records.get(worker).map(|record| &record.incarnation);
        if held != Some(incarnation) {
            let what = format!("{}: {worker} is {held:?}, the ops seen say {incarnation:?}", view.name);
            found.push(Violation::new("I2", what));
        }
    }
    let judged = |worker: &WorkerId| !oracle.is_tainted(worker);
    let held = view.state.coverage.iter().filter(|(key, (_, blocks))| !blocks.is_empty() && judged(&key.worker));
    for (key, (_, blocks)) in held {
        if coverage.get(key) != Some(blocks) {
            let expected = coverage.get(key).map_or(0, std::collections::BTreeMap::len);
            let what =
                format!("{}: {} covers {} blocks, not the {expected} expected", view.name, key.worker, blocks.len());
            found.push(Violation::new("I2", what));
        }
    }
    for key in coverage.keys() {
        if view.state.coverage.get(key).is_none_or(|(_, blocks)| blocks.is_empty()) {
            found.push(Violation::new("I2", format!("{}: {} lost all its coverage", view.name, key.worker)));
        }
    }
    found
}
