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
