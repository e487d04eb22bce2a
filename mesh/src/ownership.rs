//! Who owns a worker: rendezvous hashing over gateways' names. The first owner publishes its idle expiry and its feed, the
//! second stands by.
//!
//! Not here: which gateways count (`node::owners`). Two owners in disagreeing views do no harm: what they publish are floor
//! raises, and ops that are the same whoever publishes them.

use covey_crdt::id::{GatewayName, LifeId, WorkerId};
use xxhash_rust::xxh3::xxh3_64;

/// The first owner of `worker` among `names`.
pub(crate) fn owner<'a>(worker: &WorkerId, names: impl Iterator<Item = &'a GatewayName>) -> Option<&'a GatewayName> {
    names.max_by_key(|name| (xxh3_64(format!("{worker}\0{name}").as_bytes()), (*name).clone()))
}

/// The first and the second owner of `worker`'s feed.
pub(crate) fn first_two(worker: &WorkerId, fit: &[(GatewayName, LifeId)]) -> (Option<LifeId>, Option<LifeId>) {
    let mut ranked: Vec<_> =
        fit.iter().map(|(name, life)| (xxh3_64(format!("{worker}\0{name}").as_bytes()), name, *life)).collect();
    ranked.sort_unstable_by(|one, other| other.cmp(one));
    // A name that two lives go by is one gateway.
    ranked.dedup_by_key(|(_, name, _)| *name);
    (ranked.first().map(|(_, _, life)| *life), ranked.get(1).map(|(_, _, life)| *life))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losing_a_gateway_moves_only_its_own_workers() {
        let names: Vec<_> = ["a", "b", "c"].iter().map(|name| GatewayName::new(name).expect("a name")).collect();
        let mut owned = [0; 3];
        for nth in 0..300 {
            let worker = WorkerId::new(&format!("w{nth}"), 0).expect("a name");
            let first = owner(&worker, names.iter()).expect("somebody");
            owned[names.iter().position(|name| name == first).expect("one of them")] += 1;
            let without = owner(&worker, names.iter().filter(|name| *name != &names[0])).expect("somebody");
            assert!(first == &names[0] || without == first);
        }
        assert!(owned.iter().all(|count| *count > 60), "{owned:?}");
    }
}
