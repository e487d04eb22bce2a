//! Seeds through the real core, and the simulator's own determinism.

use covey_sim::plan::Plan;
use covey_sim::swarm::swarm;
use covey_sim::world::run;

#[test]
fn three_hundred_seeds_hold_the_invariants_and_take_the_rare_paths() {
    let report = swarm(0..300, 2, |_, _| {});
    assert!(report.failures.is_empty(), "{} seeds failed: {:?}", report.failures.len(), report.failures);
    let rare = [
        "clean",
        "dirty",
        "founded",
        "pulled",
        "wanted",
        "duplicate",
        "repair-bootstrap",
        "repair-aborted",
        "dropped-clock",
        "dropped-incarnation",
        "reborn-clock",
        "clock",
    ];
    let missing: Vec<_> = rare.iter().filter(|mark| !report.marks.contains_key(*mark)).collect();
    assert!(missing.is_empty(), "never seen: {missing:?}; seen: {:?}", report.marks);
}

#[test]
fn a_seed_repeats_to_the_bit() {
    for seed in [3, 17, 40] {
        let plan = Plan::from_seed(seed);
        let (one, other) = (run(&plan), run(&plan));
        assert_eq!((one.trace, one.events, one.bytes), (other.trace, other.events, other.bytes), "seed {seed}");
    }
}
