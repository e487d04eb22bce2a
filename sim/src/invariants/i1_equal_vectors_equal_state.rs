//! I1: equal clean vectors ⇒ equal state and digest. (That a digest equals one computed anew is
//! checked by the world at every node.)

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
            if one.vector != other.vector {
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
