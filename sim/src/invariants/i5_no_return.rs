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

#[cfg(test)]
mod tests {
    use covey_crdt::id::Token;
    use covey_crdt::stamp::Rank;

    use super::*;
    use crate::invariants::made::{self, worker};

    #[test]
    fn what_a_floor_or_a_removal_retired_and_is_there_is_found() {
        let made = made::lone();
        let sound = made.view("gw-0");
        assert_eq!(check(&sound), []);
        let mut below = sound.clone();
        for (floor, blocks) in below.state.coverage.values_mut() {
            let oldest = blocks.values().map(|(stamp, _)| *stamp).min().expect("blocks");
            *floor = Rank::whole(oldest);
        }
        let found = check(&below);
        assert!(found.len() == 1 && found[0].what.contains("6 blocks"), "the older chain: {found:?}");
        let mut removed = sound.clone();
        removed.state.records.get_mut(&worker(0)).expect("recorded").incarnation.token = Token::removed();
        assert_eq!(check(&removed).len(), 1);
        let mut unknown = sound;
        unknown.state.records.clear();
        assert_eq!(check(&unknown).len(), 1);
    }
}
