//! I5: nothing retired by a floor or a removed incarnation is covered, whatever came late or twice.

use covey_crdt::stamp::Rank;

use super::{View, Violation};

pub(super) fn check(view: &View) -> Vec<Violation> {
    let mut found = Vec::new();
    for (key, (floor, blocks)) in &view.state.coverage {
        let below = blocks.values().filter(|(stamp, depth)| Rank { stamp: *stamp, depth: *depth } <= *floor).count();
        if below > 0 {
            let what = format!("{}: {below} blocks of {} lie at or below its floor", view.name, key.worker);
            found.push(Violation::new("I5", what));
        }
        let removed = view.state.records.get(&key.worker).is_none_or(|record| record.incarnation.is_removed());
        if removed && !blocks.is_empty() {
            found.push(Violation::new("I5", format!("{}: removed {} covers blocks", view.name, key.worker)));
        }
    }
    found
}
