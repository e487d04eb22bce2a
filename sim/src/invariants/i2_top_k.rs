//! I2: a clean replica's placed coverage is exactly the top-K of all touches its vector counts that lie above the floor,
//! within the incarnations those ops name. Judged by the oracle's list of all ops, not by the lattice.

use covey_crdt::id::WorkerId;

use super::{View, Violation};
use crate::oracle::Oracle;

pub(super) fn check(view: &View, oracle: &Oracle) -> Vec<Violation> {
    if !view.clean {
        return Vec::new();
    }
    let feeds = view.state.feeds.iter().map(|(worker, feed)| (worker.clone(), feed.key.incarnation.clone())).collect();
    let (incarnations, coverage) = oracle.expect(&oracle.counts(view.life, &view.vector, &view.state), &feeds);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariants::made::{self, worker};

    #[test]
    fn coverage_that_is_not_the_top_k_of_the_touches_is_found() {
        let made = made::lone();
        let sound = made.view("gw-0");
        assert_eq!(check(&sound, &made.oracle), []);
        let with = |change: &dyn Fn(&mut View)| {
            let mut view = sound.clone();
            change(&mut view);
            check(&view, &made.oracle).len()
        };
        let blocks = |view: &mut View, act: &dyn Fn(&mut covey_crdt::replica::Blocks)| {
            view.state.coverage.values_mut().for_each(|(_, blocks)| act(blocks));
        };
        assert_eq!(with(&|view| blocks(view, &|blocks| _ = blocks.pop_first())), 1, "a block was dropped that fits");
        assert_eq!(with(&|view| blocks(view, &|blocks| blocks.clear())), 1, "a holder was forgotten");
        assert_eq!(with(&|view| drop(view.state.records.remove(&worker(1)))), 1, "a record was forgotten");
        let without_last = |view: &mut View| view.vector.values_mut().for_each(|seq| *seq -= 1);
        assert_eq!(with(&without_last), 1, "an op has an effect that the vector does not count");
        let dirty = |view: &mut View| {
            without_last(view);
            view.clean = false;
        };
        assert_eq!(with(&dirty), 0);
    }

    #[test]
    fn a_holder_that_keeps_more_than_fits_is_found() {
        let mut made = made::lone();
        let before = made.view("gw-0");
        // Room for 4 blocks of 64 tokens: of 9 blocks the least recent 5 go.
        made.probe(0, "boot", 256);
        let after = made.view("gw-0");
        assert_eq!(check(&after, &made.oracle), []);
        assert_eq!(after.state.coverage.values().map(|(_, blocks)| blocks.len()).sum::<usize>(), 4);
        let uncut = View { state: before.state, ..after };
        assert!(!check(&uncut, &made.oracle).is_empty());
    }
}
