//! Many seeds, in shards that the test runner spreads over cores. A seed that fails prints its script; to run one alone,
//! with the driver's log in virtual time:
//! `COVEY_RING2_SEED=17 cargo test -p covey-mesh --features net --lib ring2::swarm::one_seed -- --nocapture`.
//!
//! Not here: single hazards (`hazards`).

use std::sync::OnceLock;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Instant;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

use super::play::{Played, play};
use super::script::Script;
use super::{now, run};

/// Seeds in all, and in how many shards.
const SEEDS: u64 = 200;
const SHARDS: u64 = 4;

fn played(seed: u64) -> Played {
    let script = Script::of(seed);
    eprintln!("{script:?}");
    run(play(&script))
}

fn shard(number: u64) {
    let mut all = Played::default();
    let mut longest = Duration::ZERO;
    for seed in (0..SEEDS).filter(|seed| seed % SHARDS == number) {
        let one = played(seed);
        eprintln!("{one:?}");
        longest = longest.max(one.converged);
        all.datagrams += one.datagrams;
        all.stalled += one.stalled;
        all.reborn += one.reborn;
        all.duplicate_links += one.duplicate_links;
        all.dials_timed_out += one.dials_timed_out;
        all.placed_bytes += one.placed_bytes;
        all.overflowed += one.overflowed;
        // One seed in fifty runs twice: chance that is not the seed's would show as another trace.
        if seed % 50 == number {
            assert_eq!(played(seed).trace, one.trace, "seed {seed} does not repeat");
        }
    }
    eprintln!("longest {longest:?}, in all {all:?}");
    let met = [all.stalled, all.duplicate_links, all.dials_timed_out];
    assert!(!met.contains(&0), "a shard met too little: {all:?}");
}

#[test]
fn first_quarter() {
    shard(0);
}

#[test]
fn second_quarter() {
    shard(1);
}

#[test]
fn third_quarter() {
    shard(2);
}

#[test]
fn last_quarter() {
    shard(3);
}

/// Runs the seed (or `from..to`) that the environment names; nothing otherwise.
#[test]
fn one_seed() {
    let Ok(text) = std::env::var("COVEY_RING2_SEED") else { return };
    let number = |text: &str| text.parse::<u64>().expect("a seed is a number");
    let seeds = match text.split_once("..") {
        Some((from, to)) => number(from)..number(to),
        None => number(&text)..number(&text) + 1,
    };
    log_in_virtual_time();
    for seed in seeds {
        let one = played(seed);
        eprintln!("seed {seed}: {one:?}");
    }
}

/// Time since the first line.
#[derive(Default)]
struct Virtual(OnceLock<Instant>);

impl FormatTime for Virtual {
    fn format_time(&self, line: &mut Writer<'_>) -> std::fmt::Result {
        if Handle::try_current().is_err() {
            return Ok(());
        }
        write!(line, "{:?}", now() - *self.0.get_or_init(now))
    }
}

fn log_in_virtual_time() {
    let log = tracing_subscriber::fmt().with_timer(Virtual::default()).with_ansi(false).with_test_writer();
    let _ = log.with_max_level(tracing::Level::DEBUG).try_init();
}
