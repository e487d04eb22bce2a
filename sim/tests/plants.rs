//! Every planted bug is found within its stated number of seeds, and the seeds that find them hold without it.
//!
//! Its own target, because it needs the core built with the feature `plants`: `cargo test -p covey-sim --features plants
//! --test plants`.

use std::collections::BTreeSet;

use covey_crdt::plant::Plant;
use covey_sim::hunt::{Hunt, holds, hunt_all, table};

#[test]
fn every_planted_bug_is_found_and_nothing_is_found_without_one() {
    let jobs = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    let hunts = hunt_all(Plant::ALL, jobs, |_| {});
    let missed: Vec<&Hunt> = hunts.iter().filter(|hunt| !hunt.found).collect();
    assert!(missed.is_empty(), "not found: {missed:?}\n{}", table(Plant::ALL, &hunts));
    let seeds: BTreeSet<u64> = hunts.iter().filter_map(|hunt| hunt.seed).collect();
    let broken: Vec<u64> = seeds.into_iter().filter(|seed| !holds(*seed)).collect();
    assert!(broken.is_empty(), "seeds that break without a plant as well: {broken:?}");
}
