//! I3: placed coverage is prefix-closed at every step, and stamps never increase with depth.

use super::{View, Violation};
use crate::oracle::Oracle;

pub(super) fn check(view: &View, oracle: &Oracle) -> Vec<Violation> {
    let mut found = Vec::new();
    for (key, (_, blocks)) in &view.state.coverage {
        for (path, (stamp, depth)) in blocks {
            let above = oracle.parent(*path).and_then(|parent| blocks.get(&parent));
            let closed = *depth == 1 || above.is_some_and(|(parent, _)| parent >= stamp);
            if !closed {
                let what = format!("{}: {} covers {path:?} at depth {depth} but not above it", view.name, key.worker);
                found.push(Violation::new("I3", what));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariants::made;

    #[test]
    fn a_hole_and_a_stamp_that_rises_with_depth_are_found() {
        let made = made::lone();
        let sound = made.view("gw-0");
        assert_eq!(check(&sound, &made.oracle), []);
        let at = |view: &View, depth: u32| {
            let blocks = &view.state.coverage.values().next().expect("a holder").1;
            let newest = blocks.values().map(|(stamp, _)| *stamp).max().expect("blocks");
            let found = blocks.iter().find(|(_, (stamp, other))| *other == depth && *stamp < newest);
            (*found.expect("the older chain is deeper").0, newest)
        };
        let mut hole = sound.clone();
        let (second, newest) = at(&hole, 2);
        hole.state.coverage.values_mut().for_each(|(_, blocks)| _ = blocks.remove(&second));
        assert_eq!(check(&hole, &made.oracle).len(), 1);
        let mut rising = sound.clone();
        let (third, _) = at(&rising, 3);
        rising.state.coverage.values_mut().for_each(|(_, blocks)| blocks.get_mut(&third).expect("there").0 = newest);
        assert_eq!(check(&rising, &made.oracle).len(), 1, "deeper and yet newer");
    }
}
