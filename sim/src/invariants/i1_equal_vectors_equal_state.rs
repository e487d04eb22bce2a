//! I1: equal clean vectors ⇒ equal state and digest. The digest must equal one computed anew, too.

use super::{View, Violation};

pub(super) fn check(views: &[View]) -> Vec<Violation> {
    let mut found = Vec::new();
    for view in views.iter().filter(|view| !view.consistent) {
        let what = format!("{}: an incremental digest or count differs from one computed anew", view.name);
        found.push(Violation::new("I1", what));
    }
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
