//! I1 to I5 and the lattice laws, over generated histories, orders, repeats and ways of delivery.

use std::fmt::Debug;

use covey_crdt::lattice::{Lattice, Merged};
use covey_crdt::replica::Replica;
use covey_crdt::worker::WorkerRecord;
use proptest::prelude::*;

use crate::generate::{self, CUT_3, CUT_16, History, LONG, TIGHT};
use crate::reference::{Entry, expected};
use crate::run::{Schedule, Subject, check_growth, check_state, parents, schedule};

/// Plays the history and checks every step against every law.
fn observe(history: &History, schedule: &Schedule) -> Replica {
    let parents = parents(&history.entries);
    let mut subject = Subject::new(&history.entries);
    let mut seen: Vec<Entry> = Vec::new();
    let mut before = subject.replica.expand();
    for (entry, way) in schedule.deliveries(&history.entries) {
        let digest = subject.replica.digest();
        let merged = subject.deliver(entry, way);
        seen.push(entry.clone());
        let after = subject.replica.expand();
        assert!(subject.replica.is_consistent(), "incremental digests and counts");
        check_state(&after, &parents);
        check_growth(&before, &after);
        assert_eq!(merged == Merged::Grew, after != before, "Grew iff something changed: {entry:?}");
        assert_eq!(subject.replica.digest() != digest, after != before, "digests tell states apart: {entry:?}");
        assert_eq!(after, expected(&seen), "I2: the state is what the set of ops says");
        subject.reflect();
        before = after;
    }
    subject.release_all();
    subject.reflect();
    subject.replica
}

fn any_order_gives_the_same_bits(history: &History, one: &Schedule, other: &Schedule) {
    let (one, other) = (observe(history, one), observe(history, other));
    assert_eq!(one.expand(), other.expand(), "I1");
    assert_eq!(one.digest(), other.digest(), "I1");
    assert_eq!(one.expand(), expected(&history.entries), "I2");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]
    /// Hazard 15: however often and whenever a replica cuts, what it keeps is what every other one keeps.
    #[test]
    fn any_order_gives_the_same_bits_in_tight_caches(
        history in generate::history(TIGHT), one in schedule(), other in schedule(),
    ) {
        any_order_gives_the_same_bits(&history, &one, &other);
    }

    #[test]
    fn any_order_gives_the_same_bits_with_hashes_cut_to_16_bits(
        history in generate::history(CUT_16), one in schedule(), other in schedule(),
    ) {
        any_order_gives_the_same_bits(&history, &one, &other);
    }

    #[test]
    fn any_order_gives_the_same_bits_with_hashes_cut_to_3_bits(
        history in generate::history(CUT_3), one in schedule(), other in schedule(),
    ) {
        any_order_gives_the_same_bits(&history, &one, &other);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]
    #[test]
    fn any_order_gives_the_same_bits_with_long_chains(
        history in generate::history(LONG), one in schedule(), other in schedule(),
    ) {
        any_order_gives_the_same_bits(&history, &one, &other);
    }
}

/// The laws every replicated value obeys.
pub(crate) fn lattice_laws<L: Lattice + Debug>(a: &L, b: &L, c: &L) {
    let join = |one: &L, other: &L| {
        let mut joined = one.clone();
        let merged = joined.merge(other);
        assert_eq!(merged == Merged::Unchanged, joined == *one, "Unchanged iff unchanged: {one:?} ⊔ {other:?}");
        joined
    };
    assert_eq!(join(a, a), *a, "idempotent");
    assert_eq!(join(a, b), join(b, a), "commutative");
    assert_eq!(join(&join(a, b), c), join(a, &join(b, c)), "associative");
    assert_eq!(join(&join(a, b), b), join(a, b), "absorbing");
}

fn record() -> impl Strategy<Value = WorkerRecord> {
    let capacity = prop::option::of(prop_oneof![0u64..4, Just(u64::MAX)]);
    (0usize..7, capacity, prop::option::of((0u64..3, 0u16..2, 0usize..2))).prop_map(
        |(incarnation, capacity_tokens, meta)| WorkerRecord {
            incarnation: generate::incarnation(incarnation),
            capacity_tokens,
            // One stamp is one update, so its meta is a function of it.
            meta: meta.map(|(ms, counter, life)| {
                generate::meta(generate::stamp(ms, counter, life), (ms as u16 + counter) % 4)
            }),
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn worker_records_are_a_lattice(a in record(), b in record(), c in record()) {
        lattice_laws(&a, &b, &c);
    }

    #[test]
    fn record_digests_tell_records_apart(a in record(), b in record()) {
        let worker = generate::worker(0);
        prop_assert_eq!(a.digest(&worker) == b.digest(&worker), a == b);
    }
}
