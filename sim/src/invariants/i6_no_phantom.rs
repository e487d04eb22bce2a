//! I6: every placed block comes from a request that the worker accepted, in that incarnation.

use super::{View, Violation};
use crate::oracle::Oracle;

pub(super) fn check(view: &View, oracle: &Oracle) -> Vec<Violation> {
    let mut found = Vec::new();
    for (key, (_, blocks)) in &view.state.coverage {
        let Some(record) = view.state.records.get(&key.worker) else {
            found.push(Violation::new("I6", format!("{}: coverage of unknown {}", view.name, key.worker)));
            continue;
        };
        let phantom =
            blocks.keys().find(|path| !oracle.was_accepted(&key.worker, &record.incarnation, **path)).copied();
        if let Some(path) = phantom {
            let what = format!("{}: {} never accepted {path:?} in {:?}", view.name, key.worker, record.incarnation);
            found.push(Violation::new("I6", what));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariants::made::{self, chain, worker};

    #[test]
    fn a_block_that_no_request_put_there_is_found() {
        let made = made::lone();
        let sound = made.view("gw-0");
        assert_eq!(check(&sound, &made.oracle), []);
        assert_eq!(check(&sound, &Oracle::default()).len(), 1, "nothing was ever accepted");
        let mut other = Oracle::default();
        let incarnation = sound.state.records[&worker(0)].incarnation.clone();
        other.accept(&worker(0), &incarnation, &chain(0, 6));
        assert_eq!(check(&sound, &other).len(), 1, "the second chain was not");
        other.accept(&worker(0), &incarnation.next(incarnation.token.clone()), &chain(1, 3));
        assert_eq!(check(&sound, &other).len(), 1, "or only in another life of the cache");
        let mut unknown = sound;
        unknown.state.records.clear();
        assert_eq!(check(&unknown, &made.oracle).len(), 1);
    }
}
