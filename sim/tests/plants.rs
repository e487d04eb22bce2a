//! Every planted bug is found within its stated number of seeds, and the seeds that find them hold without it.
//!
//! Its own target, because it needs the core built with the feature `plants`: `cargo test -p covey-sim --features plants
//! --test plants`.

use std::collections::BTreeSet;

use covey_crdt::plant::Plant;
use covey_sim::eval::{Arm, Figures, FleetConfig, Setting, Shape, play, sessions};
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

/// Sessions that all begin alike, at a rate that keeps workers busy: what two gateways do not know of one another shows.
fn hot(plant: Option<Plant>) -> Figures {
    let config = FleetConfig { workers: 12, cache_tokens: 120_000, prefill_tokens_per_s: 10_000, block_tokens: 64 };
    let run = || {
        let trace = sessions(&Shape::HOT, 95.0, 20.0, 64, 1);
        play(Arm::Covey, &trace, config, &Setting { seed: 1, gateways: 8, ..Setting::default() })
    };
    plant.map_or_else(run, |plant| plant.with(run))
}

/// The herd, and the block that everybody has: gateways that know one another's load spread what comes.
#[test]
fn a_mesh_without_load_registers_herds_and_one_with_them_does_not() {
    let (sound, planted) = (hot(None), hot(Some(Plant::LoadsDropped)));
    assert!(sound.max_over_mean_work < 1.4, "{sound:?}");
    assert!(planted.ttft_mean_s > 1.1 * sound.ttft_mean_s, "{} and {}", planted.ttft_mean_s, sound.ttft_mean_s);
}
