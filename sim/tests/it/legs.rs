//! The chaos legs at a twentieth of their load, against committed figures: nothing diverges, nothing is lost, and not a
//! frame more is sent than was. `COVEY_REGENERATE=1 cargo test -p covey-sim --test it legs` writes the figures anew.

use std::path::Path;

use covey_sim::legs::{Figures, SMALL, run};

/// Replicas agree within this after the last fault, in milliseconds, at links of 50 ms.
const HEAL_MS_MAX: u64 = 2_000;

#[test]
fn legs_end_equal_and_cost_what_they_did() {
    let all: Vec<Figures> = std::thread::scope(|scope| {
        let (one, other) = SMALL.split_at(SMALL.len() / 2);
        let half = scope.spawn(|| one.iter().map(run).collect::<Vec<_>>());
        let other: Vec<_> = other.iter().map(run).collect();
        half.join().unwrap().into_iter().chain(other).collect()
    });
    for figures in &all {
        assert!(figures.is_sound(), "{figures:#?}");
        assert!(
            figures.heal_ms.is_some_and(|ms| ms <= HEAL_MS_MAX),
            "{}: healed in {:?} ms",
            figures.name,
            figures.heal_ms
        );
    }
    let repaired = all.iter().find(|figures| figures.repair.sessions > 0).expect("a leg outlasts the logs");
    assert!(repaired.bytes_per_segment().is_some_and(|bytes| bytes <= 100.0), "{repaired:#?}");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/legs.json");
    let now = serde_json::to_string_pretty(&all).unwrap() + "\n";
    if std::env::var_os("COVEY_REGENERATE").is_some() {
        std::fs::write(&file, &now).unwrap();
    }
    let committed = std::fs::read_to_string(&file).unwrap();
    assert!(
        committed == now,
        "the legs cost something else than committed in {}; now they cost\n{now}",
        file.display()
    );
}
