//! Seeds through the real core, the simulator's own determinism, and what a batch does about a seed that breaks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use covey_sim::plan::Plan;
use covey_sim::swarm::{Batch, run_traced, swarm, swarm_by};
use covey_sim::world::run;

#[test]
fn five_hundred_seeds_hold_the_invariants_and_take_every_rare_path() {
    let report = swarm(0..500, 2, |_, _| {});
    assert!(report.failures.is_empty(), "{} seeds failed: {:?}", report.failures.len(), report.failures);
    assert_eq!((report.seeds, report.twice), (500, 10), "2 % are run twice and compared");
    assert!(report.marks_missing().is_empty(), "never seen: {:?}; seen: {:?}", report.marks_missing(), report.marks);
    assert!(report.events_per_second_per_core() > 0.0 && report.ops_per_seed_median() > 0);
}

#[test]
fn a_seed_repeats_to_the_bit() {
    for seed in [3, 17, 40] {
        let plan = Plan::from_seed(seed);
        let (one, other) = (run(&plan), run(&plan));
        assert_eq!((one.trace, one.events, one.bytes), (other.trace, other.events, other.bytes), "seed {seed}");
    }
}

/// Leaving one class out must not shift the others: shrinking needs that. The plan's other fields stay, and so do the
/// draws of what is left.
#[test]
fn a_plan_without_one_class_is_still_the_same_plan_otherwise() {
    let seed = (0..).find(|seed| Plan::from_seed(*seed).network.stale.is_some()).unwrap();
    let mut plan = Plan::from_seed(seed);
    plan.network.stale = None;
    let text = serde_json::to_string(&plan).unwrap();
    let again: Plan = serde_json::from_str(&text).unwrap();
    assert_eq!(again.check(), Ok(()));
    assert_eq!(again.events, Plan::from_seed(seed).events);
    assert!(run(&again).violations.is_empty());
}

fn batch(seeds: std::ops::Range<u64>) -> Batch {
    Batch { seeds, jobs: 2, until: None, twice_every: 2 }
}

#[test]
fn a_seed_that_panics_is_a_failure_and_the_others_go_on() {
    let report = swarm_by(
        &batch(0..6),
        &|plan, tracer| {
            assert!(plan.seed != 3, "seed {} went wrong", plan.seed);
            run_traced(plan, tracer)
        },
        |_, _| {},
    );
    assert_eq!(report.seeds, 6);
    let failed: Vec<_> = report.failures.iter().map(|(seed, what)| (*seed, what[0].invariant)).collect();
    assert_eq!(failed, [(3, "panic")]);
    assert!(report.failures[&3][0].what.contains("seed 3 went wrong"));
}

#[test]
fn a_run_that_does_not_repeat_is_caught_and_its_first_differing_event_named() {
    let runs = AtomicU64::new(0);
    let report = swarm_by(
        &batch(0..4),
        &|plan, tracer| {
            let mut plan = plan.clone();
            if plan.seed == 2 {
                // What an unseeded source of chance would do: every run a little different.
                plan.network.delay_ms = 5 + runs.fetch_add(1, Ordering::Relaxed);
            }
            run_traced(&plan, tracer)
        },
        |_, _| {},
    );
    let failed: Vec<_> = report.failures.iter().map(|(seed, what)| (*seed, what[0].invariant)).collect();
    assert_eq!(failed, [(2, "determinism")]);
    let what = &report.failures[&2][0].what;
    assert!(what.contains("they part at") && what.contains("gw-"), "{what}");
}

#[test]
fn a_batch_that_runs_out_of_time_says_how_far_it_got() {
    let started = Instant::now();
    let batch = Batch { until: Some(started + Duration::from_millis(300)), ..batch(0..100_000) };
    let report = swarm_by(&batch, &run_traced, |_, _| {});
    assert!((1..100_000).contains(&report.seeds), "{}", report.seeds);
    assert_eq!(report.ops.len() as u64, report.seeds);
}
