//! The hunt for planted bugs: which seed is the first that shows each of them.
//!
//! Seeds are tried in order and the smallest that breaks counts, so the answer does not depend on how many threads look.
//! A seed that breaks without the plant as well does not count, panics included; a run that does not end is cut off.
//!
//! Not here: the plants themselves (`covey_crdt::plant`), a single run (`world`).

use std::cell::Cell;
use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, Once, PoisonError};

use covey_crdt::plant::Plant;
use serde::Serialize;

use crate::plan::Plan;
use crate::world::{Watch, World};

/// A run of more events than this does not end by itself; the largest that hold have a tenth.
pub const EVENTS_MAX: u64 = 5_000_000;

/// What looking for one plant came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Hunt {
    /// The plant's name.
    pub name: &'static str,
    /// Whether a seed broke something.
    pub found: bool,
    /// How many seeds were tried, in order, up to and with the first that broke something; all of them if none did.
    pub seeds_needed: u64,
    /// What it broke; `panic` for an assertion of the core's own, empty if nothing broke.
    pub invariant: String,
    /// The seed that broke it.
    pub seed: Option<u64>,
}

impl fmt::Display for Hunt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.seed {
            Some(seed) => {
                write!(f, "{}: {} after {} seeds (seed {seed})", self.name, self.invariant, self.seeds_needed)
            }
            None => write!(f, "{}: NOT FOUND in {} seeds", self.name, self.seeds_needed),
        }
    }
}

/// Looks for a plant on `jobs` threads.
#[must_use]
pub fn hunt(plant: Plant, seeds: Range<u64>, jobs: usize) -> Hunt {
    let next = AtomicU64::new(seeds.start);
    let first: Mutex<Option<(u64, String)>> = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let found = |known: &Option<(u64, String)>| known.as_ref().is_some_and(|(least, _)| *least < seed);
                    if seed >= seeds.end || found(&first.lock().unwrap_or_else(PoisonError::into_inner)) {
                        return;
                    }
                    let Some(invariant) = breaks(plant, seed) else { continue };
                    let mut first = first.lock().unwrap_or_else(PoisonError::into_inner);
                    if !found(&first) {
                        *first = Some((seed, invariant));
                    }
                }
            });
        }
    });
    let first = first.into_inner().unwrap_or_else(PoisonError::into_inner);
    Hunt {
        name: plant.name(),
        found: first.is_some(),
        seeds_needed: first.as_ref().map_or(seeds.end, |(seed, _)| seed + 1) - seeds.start,
        invariant: first.as_ref().map(|(_, invariant)| invariant.clone()).unwrap_or_default(),
        seed: first.map(|(seed, _)| seed),
    }
}

/// Looks for every plant within its own bound, several at a time; `each` hears of each as it is found or given up.
pub fn hunt_all(plants: &[Plant], jobs: usize, each: impl Fn(&Hunt) + Sync) -> Vec<Hunt> {
    let next = AtomicUsize::new(0);
    let hunts: Mutex<Vec<(usize, Hunt)>> = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let nth = next.fetch_add(1, Ordering::Relaxed);
                    let Some(plant) = plants.get(nth) else { return };
                    let hunt = hunt(*plant, 0..plant.within(), 1);
                    each(&hunt);
                    hunts.lock().unwrap_or_else(PoisonError::into_inner).push((nth, hunt));
                }
            });
        }
    });
    let mut hunts = hunts.into_inner().unwrap_or_else(PoisonError::into_inner);
    hunts.sort_by_key(|(nth, _)| *nth);
    hunts.into_iter().map(|(_, hunt)| hunt).collect()
}

/// What the plant breaks in this seed's run.
#[must_use]
pub fn breaks(plant: Plant, seed: u64) -> Option<String> {
    // What fails without the plant as well is no find.
    plant.with(|| ran(seed)).filter(|_| holds(seed))
}

/// Whether the seed's run breaks nothing without a plant.
#[must_use]
pub fn holds(seed: u64) -> bool {
    ran(seed).is_none()
}

const PANIC: &str = "panic";

fn ran(seed: u64) -> Option<String> {
    let plan = Plan::from_seed(seed);
    hush_panics();
    HUSHED.set(true);
    let broken = catch_unwind(AssertUnwindSafe(|| broken(plan)));
    HUSHED.set(false);
    broken.unwrap_or(Some(PANIC)).map(str::to_owned)
}

fn broken(plan: Plan) -> Option<&'static str> {
    let mut world = World::new(plan, Watch::default());
    while world.step() {
        if world.outcome().events >= EVENTS_MAX {
            return Some("I9");
        }
    }
    world.outcome().violations.first().map(|first| first.invariant)
}

thread_local! {
    static HUSHED: Cell<bool> = const { Cell::new(false) };
}

/// A planted bug's panic is a result, not a message: threads that hunt print none.
fn hush_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |why| {
            if !HUSHED.get() {
                usual(why);
            }
        }));
    });
}

/// Looks for the plant of that name, or for `all`, each within its own bound, and says so as it goes.
///
/// # Errors
/// When no plant has that name, listing those there are.
pub fn command(name: &str, jobs: usize, say: impl Fn(&str) + Sync) -> Result<Vec<Hunt>, String> {
    let one = Plant::named(name);
    let plants = match &one {
        Some(plant) => std::slice::from_ref(plant),
        None if name == "all" => Plant::ALL,
        None => {
            let names: Vec<_> = Plant::ALL.iter().map(|plant| plant.name()).collect();
            return Err(format!("no planted bug is called {name:?}; there are: all, {}", names.join(", ")));
        }
    };
    let hunts = hunt_all(plants, jobs, |hunt| say(&format!("{hunt}\n")));
    say(&format!("\n{}", table(plants, &hunts)));
    Ok(hunts)
}

/// The hunts as a table for people, in Markdown.
#[must_use]
pub fn table(plants: &[Plant], hunts: &[Hunt]) -> String {
    let mut text = "| planted bug | what is wrong | found by | seeds needed |\n|---|---|---|---:|\n".to_owned();
    for (plant, hunt) in plants.iter().zip(hunts) {
        let (by, needed) = if hunt.found {
            (hunt.invariant.as_str(), hunt.seeds_needed.to_string())
        } else {
            ("**not found**", format!("> {}", hunt.seeds_needed))
        };
        text += &format!("| `{}` | {} | {by} | {needed} |\n", plant.name(), plant.story());
    }
    text
}
