//! Many seeds on several threads, and what they came to.
//!
//! Not here: a single run (`world`).

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::invariants::Violation;
use crate::marks;
use crate::plan::Plan;
use crate::world::run;

/// What a batch of seeds came to.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Seeds run.
    pub seeds: u64,
    /// Seeds that broke something, with what.
    pub failures: BTreeMap<u64, Vec<Violation>>,
    /// How often each mark was left.
    pub marks: BTreeMap<&'static str, u64>,
    /// Core events: inputs given to nodes and outputs taken from them.
    pub events: u64,
    /// Ops published.
    pub ops: u64,
    /// The slowest convergence: virtual milliseconds, and the seed.
    pub slowest_ms: (u64, u64),
    /// Required marks that no run left (see [`marks::REQUIRED`]).
    pub marks_missing: Vec<&'static str>,
    /// The median of ops published in a run.
    pub ops_per_seed_median: u64,
}

/// Runs every seed of `seeds` on `jobs` threads; `each` hears of every seed as it ends.
pub fn swarm(seeds: Range<u64>, jobs: usize, each: impl Fn(u64, bool) + Sync) -> Report {
    let next = AtomicU64::new(seeds.start);
    let report = Mutex::new(Report::default());
    let ops = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let outcome = run(&Plan::from_seed(seed));
                    ops.lock().unwrap_or_else(PoisonError::into_inner).push(outcome.ops);
                    let failed = !outcome.violations.is_empty();
                    let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
                    report.seeds += 1;
                    report.events += outcome.events;
                    report.ops += outcome.ops;
                    report.slowest_ms = report.slowest_ms.max((outcome.converged_ms.unwrap_or(0), seed));
                    for (mark, count) in outcome.marks {
                        *report.marks.entry(mark).or_default() += count;
                    }
                    if failed {
                        report.failures.insert(seed, outcome.violations);
                    }
                    drop(report);
                    each(seed, failed);
                }
            });
        }
    });
    let mut report = report.into_inner().unwrap_or_else(PoisonError::into_inner);
    report.marks_missing = marks::REQUIRED.iter().filter(|mark| !report.marks.contains_key(*mark)).copied().collect();
    let mut ops = ops.into_inner().unwrap_or_else(PoisonError::into_inner);
    ops.sort_unstable();
    report.ops_per_seed_median = ops.get(ops.len() / 2).copied().unwrap_or(0);
    report
}
