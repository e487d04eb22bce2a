//! I1: equal clean vectors ⇒ equal state and digest. (That a digest equals one computed anew is
//! checked by the world at every node.)

use std::collections::BTreeMap;

use super::{View, Violation};
use crate::oracle::Oracle;

pub(super) fn check(views: &[View], oracle: &Oracle) -> Vec<Violation> {
    // Once a life's log has forked, equal vectors may count different ops until both branches are everywhere.
    if oracle.forks() {
        return Vec::new();
    }
    let mut found = Vec::new();
    let clean: Vec<&View> = views.iter().filter(|view| view.clean).collect();
    for (nth, one) in clean.iter().enumerate() {
        for other in &clean[nth + 1..] {
            if one.digest == other.digest && one.state != other.state {
                let what = format!("{} and {} have one digest and different states", one.name, other.name);
                found.push(Violation::new("I1", what));
            }
            if one.vector != other.vector || !same_feeds(one, other) {
                continue;
            }
            if one.digest != other.digest {
                let what = format!("{} and {} have equal clean vectors and different digests", one.name, other.name);
                found.push(Violation::new("I1", what));
            }
            if one.state != other.state {
                let what = format!("{} and {} have equal clean vectors and different states", one.name, other.name);
                found.push(Violation::new("I1", what));
            }
        }
    }
    found
}

/// Whether both are equally far in every worker's events.
fn same_feeds(one: &View, other: &View) -> bool {
    let keys = |view: &View| view.state.feeds.iter().map(|(worker, feed)| (worker.clone(), feed.key.clone())).collect();
    let (one, other): (BTreeMap<_, _>, BTreeMap<_, _>) = (keys(one), keys(other));
    one == other
}

#[cfg(test)]
mod tests {
    use covey_crdt::digest::Digest;

    use super::*;
    use crate::invariants::made;

    #[test]
    fn two_clean_replicas_that_differ_at_equal_vectors_are_found() {
        let (one, other) = (made::lone().view("gw-0"), made::lone().view("gw-1"));
        let check = |views: &[View]| check(views, &Oracle::default());
        assert_eq!(check(&[one.clone(), other.clone()]), []);
        let digest = View { digest: Digest(1), ..other.clone() };
        assert_eq!(check(&[one.clone(), digest]).len(), 1);
        let mut state = other.clone();
        state.state.coverage.clear();
        assert_eq!(check(&[one.clone(), state.clone()]).len(), 2, "by the vectors, and by the digest that hides it");
        let dirty = View { clean: false, ..state.clone() };
        assert_eq!(check(&[one.clone(), dirty]), [], "a dirty one does not claim anything");
        state.vector.values_mut().for_each(|seq| *seq += 1);
        assert_eq!(check(&[one.clone(), state.clone()]).len(), 1, "one digest stands for one state, whatever was seen");
        state.digest = Digest(1);
        assert_eq!(check(&[one, state]), [], "who has seen more may hold something else");
    }
}
