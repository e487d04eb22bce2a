//! `covey-sim swarm`: many seeds, and what they came to, for people and as JSON.
//!
//! Not here: running them (`swarm`).

use std::fmt::Write as _;
use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::plants::{self, PlantFound};
use super::say;
use super::units::{duration, seeds};
use crate::swarm::{Batch, Report, TWICE_EVERY, run_traced, swarm_by};

/// A batch this large has to leave every required mark.
const MARKS_FROM_SEEDS: u64 = 300;

/// What `covey-sim swarm` takes.
#[derive(Args, Debug)]
pub struct SwarmArgs {
    /// Which seeds, `FROM..TO` (TO not included) [default: 0..300; with --plant none but those that the hunt needs]
    #[arg(long, value_parser = seeds)]
    seeds: Option<Range<u64>>,
    /// Threads, 1 to 256
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: u16,
    /// Begin no seed after this real time, for example 60s [default: run all of them]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    time: Option<Duration>,
    /// Write what came out as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Plant a known bug (or `all`, one after the other) and count the seeds until it is found; needs a build with
    /// `--features plants`
    #[arg(long, value_name = "NAME")]
    plant: Option<String>,
}

#[derive(Serialize)]
struct Json<'a> {
    seeds: u64,
    failures: Vec<FailureJson<'a>>,
    events_per_second_per_core: u64,
    ops_per_seed_median: u64,
    marks_missing: Vec<&'a str>,
    plants: &'a [PlantFound],
}

#[derive(Serialize)]
struct FailureJson<'a> {
    seed: u64,
    invariant: &'a str,
}

/// Runs many seeds and prints what they came to.
///
/// # Errors
/// When the JSON cannot be written, or a plant is asked for that this binary does not have.
pub fn swarm(args: &SwarmArgs) -> Result<ExitCode, String> {
    if let Some(file) = &args.json {
        // Found out before minutes are spent.
        std::fs::write(file, "").map_err(|why| format!("{} cannot be written: {why}", file.display()))?;
    }
    let plants = match &args.plant {
        Some(name) => plants::hunt(name, usize::from(args.jobs))?,
        None => Vec::new(),
    };
    let seeds = args.seeds.clone().unwrap_or(if args.plant.is_some() { 0..0 } else { 0..300 });
    let asked = seeds.end - seeds.start;
    let report = with_bar(args, seeds);
    let is_cut_short = report.seeds < asked;
    let missing = if asked > 0 { report.marks_missing() } else { Vec::new() };
    if asked > 0 {
        say(&text(&report, asked, &missing));
    }
    if let Some(file) = &args.json {
        let json = serde_json::to_string_pretty(&json(&report, &missing, &plants)).expect("plain fields encode");
        std::fs::write(file, json + "\n").map_err(|why| format!("{} cannot be written: {why}", file.display()))?;
    }
    let lacks_marks = !missing.is_empty() && report.seeds >= MARKS_FROM_SEEDS && !is_cut_short;
    let held = report.failures.is_empty() && !lacks_marks && plants.iter().all(|plant| plant.found);
    Ok(if held { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn with_bar(args: &SwarmArgs, seeds: Range<u64>) -> Report {
    let bar = ProgressBar::new(seeds.end - seeds.start);
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} seeds, {per_sec}, {eta} to go {msg}");
    bar.set_style(style.expect("a good template"));
    let failed = AtomicU64::new(0);
    let batch = Batch {
        seeds,
        jobs: usize::from(args.jobs),
        until: args.time.map(|time| Instant::now() + time),
        twice_every: TWICE_EVERY,
    };
    let report = swarm_by(&batch, &run_traced, |_, broke| {
        if broke {
            bar.set_message(format!("{} failed", failed.fetch_add(1, Ordering::Relaxed) + 1));
        }
        bar.inc(1);
    });
    bar.finish_and_clear();
    report
}

fn text(report: &Report, asked: u64, missing: &[&str]) -> String {
    let mut text = String::new();
    let failed = report.failures.len();
    let _ = writeln!(text, "{} seeds, {failed} failed; {} run twice", report.seeds, report.twice);
    if report.seeds < asked {
        let _ = writeln!(text, "stopped by --time: {} of {asked} seeds were run", report.seeds);
    }
    let ops: u64 = report.ops.values().sum();
    let rate = report.events_per_second_per_core();
    let _ = writeln!(text, "{} events, {rate:.0} a second of processor time", report.events);
    let _ = writeln!(text, "{ops} ops, {} in the median seed", report.ops_per_seed_median());
    let slowest = report.slowest_ms.iter().map(|(ms, seed)| format!("{ms} (seed {seed})")).collect::<Vec<_>>();
    let _ = writeln!(text, "slowest to converge, virtual ms: {}", slowest.join(", "));
    for (mark, count) in &report.marks {
        let _ = writeln!(text, "  {mark:<22} {count}");
    }
    if !missing.is_empty() {
        let _ = writeln!(text, "marks that no seed left: {}", missing.join(", "));
    }
    for (seed, violations) in &report.failures {
        let first = violations.first().map(|first| format!("{}: {}", first.invariant, first.what));
        let _ = writeln!(text, "VIOLATION {}", first.unwrap_or_default());
        let _ = writeln!(text, "  repeat it with: covey-sim run --seed {seed}");
    }
    text
}

fn json<'a>(report: &'a Report, missing: &[&'a str], plants: &'a [PlantFound]) -> Json<'a> {
    let failure = |(seed, violations): (&u64, &'a Vec<crate::invariants::Violation>)| FailureJson {
        seed: *seed,
        invariant: violations.first().map_or("", |first| first.invariant),
    };
    Json {
        seeds: report.seeds,
        failures: report.failures.iter().map(failure).collect(),
        events_per_second_per_core: report.events_per_second_per_core() as u64,
        ops_per_seed_median: report.ops_per_seed_median(),
        marks_missing: missing.to_vec(),
        plants,
    }
}
