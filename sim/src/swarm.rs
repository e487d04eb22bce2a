//! Many seeds on several threads, and what they came to. One that panics, or that does not repeat, is a failure of that
//! seed; the others go on.
//!
//! Not here: a single run (`world`), printing (`ring1`).

use std::any::Any;
use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

use crate::invariants::Violation;
use crate::marks;
use crate::plan::Plan;
use crate::trace::{Collector, Difference, Tracer, first_difference};
use crate::world::{Outcome, Watch, World};

/// Every how many seeds one is run twice: 2 %.
pub const TWICE_EVERY: u64 = 50;
/// Slow seeds that are named.
const SLOWEST: usize = 5;

/// How many seeds to run, and how.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Which.
    pub seeds: Range<u64>,
    /// Threads, at least 1.
    pub jobs: usize,
    /// No seed is begun after this.
    pub until: Option<Instant>,
    /// Every how many seeds one is run twice and compared; 0 for none.
    pub twice_every: u64,
}

/// What a batch of seeds came to.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Seeds run.
    pub seeds: u64,
    /// Seeds run twice.
    pub twice: u64,
    /// Seeds that broke something, with what.
    pub failures: BTreeMap<u64, Vec<Violation>>,
    /// How often each mark was left.
    pub marks: BTreeMap<&'static str, u64>,
    /// Core events, inputs given to nodes and outputs taken from them; second runs included.
    pub events: u64,
    /// Ops published, by seed.
    pub ops: BTreeMap<u64, u64>,
    /// The slowest convergences: virtual milliseconds, and the seed; slowest first.
    pub slowest_ms: Vec<(u64, u64)>,
    /// Processor time of the threads, in seconds.
    pub cpu_s: f64,
}

impl Report {
    /// Events a second of processor time.
    #[must_use]
    pub fn events_per_second_per_core(&self) -> f64 {
        if self.cpu_s > 0.0 { self.events as f64 / self.cpu_s } else { 0.0 }
    }

    /// Half of the seeds published at least this many ops.
    #[must_use]
    pub fn ops_per_seed_median(&self) -> u64 {
        let mut ops: Vec<u64> = self.ops.values().copied().collect();
        ops.sort_unstable();
        ops.get(ops.len() / 2).copied().unwrap_or(0)
    }

    /// Marks that a batch has to leave and this one did not.
    #[must_use]
    pub fn marks_missing(&self) -> Vec<&'static str> {
        marks::REQUIRED.iter().copied().filter(|mark| !self.marks.contains_key(mark)).collect()
    }

    fn take(&mut self, seed: u64, outcome: Outcome) {
        self.seeds += 1;
        self.ops.insert(seed, outcome.ops);
        if let Some(ms) = outcome.converged_ms {
            let place = self.slowest_ms.partition_point(|slow| *slow >= (ms, seed));
            self.slowest_ms.insert(place, (ms, seed));
            self.slowest_ms.truncate(SLOWEST);
        }
        for (mark, count) in outcome.marks {
            *self.marks.entry(mark).or_default() += count;
        }
        if !outcome.violations.is_empty() {
            self.failures.insert(seed, outcome.violations);
        }
    }
}

/// Runs every seed of `seeds` on `jobs` threads; `each` hears of every seed as it ends.
pub fn swarm(seeds: Range<u64>, jobs: usize, each: impl Fn(u64, bool) + Sync) -> Report {
    let batch = Batch { seeds, jobs, until: None, twice_every: TWICE_EVERY };
    swarm_by(&batch, &run_traced, each)
}

/// As [`swarm`], with every choice open: `run` carries a plan out, and says what happens to a tracer if it is given one.
pub fn swarm_by(
    batch: &Batch,
    run: &(impl Fn(&Plan, Option<Box<dyn Tracer>>) -> Outcome + Sync),
    each: impl Fn(u64, bool) + Sync,
) -> Report {
    let next = AtomicU64::new(batch.seeds.start);
    let report = Mutex::new(Report::default());
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= batch.seeds.end || batch.until.is_some_and(|until| Instant::now() >= until) {
                return;
            }
            let before_s = thread_cpu_s();
            let plan = Plan::from_seed(seed);
            let mut outcome = guarded(&plan, None, run);
            let mut events = outcome.core_events;
            let twice = batch.twice_every > 0 && seed.is_multiple_of(batch.twice_every);
            if twice {
                let again = guarded(&plan, None, run);
                events += again.core_events;
                outcome.violations.extend(differs(&plan, &outcome, &again, run));
            }
            let failed = !outcome.violations.is_empty();
            let cpu_s = thread_cpu_s() - before_s;
            let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
            report.twice += u64::from(twice);
            report.events += events;
            report.cpu_s += cpu_s;
            report.take(seed, outcome);
            drop(report);
            each(seed, failed);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..batch.jobs.max(1) {
            scope.spawn(work);
        }
    });
    report.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Carries a plan out, watched by `tracer` if there is one.
#[must_use]
pub fn run_traced(plan: &Plan, tracer: Option<Box<dyn Tracer>>) -> Outcome {
    let mut world = World::new(plan.clone(), Watch { tracer, ..Watch::default() });
    world.run_out();
    world.finish().0
}

fn guarded(
    plan: &Plan,
    tracer: Option<Box<dyn Tracer>>,
    run: &impl Fn(&Plan, Option<Box<dyn Tracer>>) -> Outcome,
) -> Outcome {
    catch_unwind(AssertUnwindSafe(|| run(plan, tracer))).unwrap_or_else(|panic| Outcome {
        violations: vec![Violation::new("panic", said(panic.as_ref()).to_owned())],
        ..Outcome::default()
    })
}

/// What a panic said.
#[must_use]
pub fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic without words")
}

/// Two runs of one plan must be the same; if they are not, both are repeated with traces to find where they part.
fn differs(
    plan: &Plan,
    one: &Outcome,
    other: &Outcome,
    run: &impl Fn(&Plan, Option<Box<dyn Tracer>>) -> Outcome,
) -> Option<Violation> {
    let sum = |outcome: &Outcome| (outcome.trace, outcome.events, outcome.bytes, outcome.ended_us);
    if sum(one) == sum(other) && one.violations == other.violations {
        return None;
    }
    let kept = [(); 2].map(|()| {
        let collector = Collector::default();
        guarded(plan, Some(Box::new(collector.clone())), run);
        collector.take()
    });
    let parts = match first_difference(&kept[0], &kept[1]) {
        Some(Difference::Event(pair)) => format!("they part at\n  {}\n  {}", pair.0, pair.1),
        Some(Difference::Length(seq)) => format!("one of them ends after event {seq}"),
        None => "repeated with traces, they were the same".to_owned(),
    };
    let what = format!("two runs came to {:016x} and {:016x}; {parts}", one.trace, other.trace);
    Some(Violation::new("determinism", what))
}

/// Processor time this thread has used, in seconds.
fn thread_cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
