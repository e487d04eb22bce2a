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
