//! The command line of ring 1: one seed, or many.
//!
//! Not here: carrying plans out (`world`, `swarm`). Exit codes: 0 everything held, 1 an invariant was broken.

use std::io::{self, Write as _};
use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use crate::plan::Plan;
use crate::swarm::swarm;
use crate::world::run;

/// What `covey-sim run` takes.
#[derive(Args, Debug)]
pub struct RunArgs {
    /// The seed the plan is drawn from
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Run this plan (JSON, as `run` prints it) in place of a seed's
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,
}

/// What `covey-sim swarm` takes.
#[derive(Args, Debug)]
pub struct SwarmArgs {
    /// Which seeds, `FROM..TO` (TO not included)
    #[arg(long, default_value = "0..300", value_parser = seeds)]
    pub seeds: Range<u64>,
    /// Threads
    #[arg(long, default_value_t = 2)]
    pub jobs: usize,
    /// Look for this planted bug, or `all`, instead (in a build with the feature `plants`: `make plants`)
    #[arg(long, value_name = "NAME")]
    pub plant: Option<String>,
    /// Write what the hunt for planted bugs came to into this file, as JSON
    #[arg(long, value_name = "FILE", requires = "plant")]
    pub json: Option<PathBuf>,
}

fn seeds(text: &str) -> Result<Range<u64>, String> {
    let (from, to) = text.split_once("..").ok_or("write FROM..TO, for example 0..300")?;
    let number = |text: &str| text.parse::<u64>().map_err(|why| format!("{text:?} is no number: {why}"));
    let (from, to) = (number(from)?, number(to)?);
    if from < to { Ok(from..to) } else { Err(format!("{from}..{to} holds no seed: FROM must be below TO")) }
}

/// Runs one plan and prints it, and what it came to.
///
/// # Errors
/// When the plan cannot be read or carried out, naming the place.
pub fn one(args: &RunArgs) -> Result<ExitCode, String> {
    let plan = match &args.plan {
        None => Plan::from_seed(args.seed),
        Some(file) => {
            let text = std::fs::read_to_string(file)
                .map_err(|why| format!("plan {} cannot be read: {why}", file.display()))?;
            serde_json::from_str(&text).map_err(|why| format!("plan {} does not parse: {why}", file.display()))?
        }
    };
    plan.check().map_err(|why| why.to_string())?;
    let outcome = run(&plan);
    let plan = serde_json::to_string_pretty(&plan).expect("a plan of plain fields always encodes");
    let mut text = format!("{plan}\n\ntrace {:016x}: {} events, {} ops, ", outcome.trace, outcome.events, outcome.ops);
    text += &format!("{} frames of {} bytes in all\n", outcome.frames, outcome.bytes);
    for (mark, count) in &outcome.marks {
        text += &format!("  {mark:<22} {count}\n");
    }
    for violation in &outcome.violations {
        text += &format!("VIOLATION {}: {}\n", violation.invariant, violation.what);
    }
    if let Some(ms) = outcome.converged_ms {
        text += &format!("held: all replicas clean and equal {ms} virtual ms after the last fault\n");
    }
    say(&text);
    Ok(if outcome.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Looks for planted bugs and prints a table of them.
#[cfg(feature = "plants")]
fn plants(name: &str, args: &SwarmArgs) -> Result<ExitCode, String> {
    let hunts = crate::hunt::command(name, args.jobs, say)?;
    if let Some(file) = &args.json {
        let text = serde_json::json!({ "plants": hunts }).to_string();
        std::fs::write(file, text).map_err(|why| format!("{} cannot be written: {why}", file.display()))?;
    }
    Ok(if hunts.iter().all(|hunt| hunt.found) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(not(feature = "plants"))]
fn plants(name: &str, _: &SwarmArgs) -> Result<ExitCode, String> {
    Err(format!("{name} cannot be looked for: this build has no planted bugs in it; run `make plants`"))
}

/// Runs many seeds and prints what they came to.
///
/// # Errors
/// When planted bugs are to be looked for and cannot be.
pub fn many(args: &SwarmArgs) -> Result<ExitCode, String> {
    if let Some(name) = &args.plant {
        return plants(name, args);
    }
    let total = args.seeds.end - args.seeds.start;
    let bar = ProgressBar::new(total);
    bar.set_style(ProgressStyle::with_template("{bar:30} {pos}/{len} seeds {msg} {eta}").expect("a good template"));
    let failed = AtomicU64::new(0);
    let started = Instant::now();
    let report = swarm(args.seeds.clone(), args.jobs, |_, broke| {
        if broke {
            bar.set_message(format!("{} failed", failed.fetch_add(1, Ordering::Relaxed) + 1));
        }
        bar.inc(1);
    });
    bar.finish_and_clear();
    let seconds = started.elapsed().as_secs_f64();
    let mut text = format!(
        "{} seeds, {} failed; {} ops, {} events ({:.0} a second); slowest to converge: {} virtual ms (seed {})\n",
        report.seeds,
        report.failures.len(),
        report.ops,
        report.events,
        report.events as f64 / seconds,
        report.slowest_ms.0,
        report.slowest_ms.1,
    );
    for (mark, count) in &report.marks {
        text += &format!("  {mark:<22} {count}\n");
    }
    for (seed, violations) in &report.failures {
        let first = violations.first().map(|first| format!("{}: {}", first.invariant, first.what));
        text += &format!("VIOLATION {}\n  repeat it with: covey-sim run --seed {seed}\n", first.unwrap_or_default());
    }
    say(&text);
    Ok(if report.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints; a reader that hung up is no reason to fail.
fn say(text: &str) {
    let _ = io::stdout().write_all(text.as_bytes());
}
