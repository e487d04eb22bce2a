//! `covey-sim legs`: the chaos legs and what they came to, for people and as JSON.
//!
//! Not here: the legs (`legs`).

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;

use super::say;
use crate::legs::{Figures, LEGS, Leg, SMALL, run};

/// What `covey-sim legs` takes.
#[derive(Args, Debug)]
pub struct LegsArgs {
    /// Run only these legs, comma-separated [default: all at full size]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<String>,
    /// Run all at a twentieth of the load
    #[arg(long, conflicts_with = "only")]
    small: bool,
    /// Write what they came to as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs the legs and prints what they came to. Exit code 1 when something diverged, was lost or broke.
///
/// # Errors
/// When a leg does not exist or the JSON cannot be written.
pub fn legs(args: &LegsArgs) -> Result<ExitCode, String> {
    let legs = chosen(args)?;
    if let Some(file) = &args.json {
        std::fs::write(file, "").map_err(|why| format!("{} cannot be written: {why}", file.display()))?;
    }
    let mut all = Vec::new();
    for leg in legs {
        let started = Instant::now();
        let figures = run(leg);
        say(&text(leg, &figures, started.elapsed().as_secs_f64()));
        all.push(figures);
    }
    if let Some(file) = &args.json {
        let json = serde_json::to_string_pretty(&all).expect("plain fields encode");
        std::fs::write(file, json + "\n").map_err(|why| format!("{} cannot be written: {why}", file.display()))?;
    }
    Ok(if all.iter().all(Figures::is_sound) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn chosen(args: &LegsArgs) -> Result<Vec<&'static Leg>, String> {
    if args.only.is_empty() {
        return Ok(if args.small { SMALL } else { LEGS }.iter().collect());
    }
    let find = |name: &String| {
        let names = || LEGS.iter().chain(SMALL).map(|leg| leg.name).collect::<Vec<_>>().join(", ");
        let found = LEGS.iter().chain(SMALL).find(|leg| leg.name == name);
        found.ok_or_else(|| format!("--only names {name:?}, which is no leg: choose among {}", names()))
    };
    args.only.iter().map(find).collect()
}

fn text(leg: &Leg, figures: &Figures, took_s: f64) -> String {
    let mut text = format!("{}: {} ({:.0} virtual s, {took_s:.1} s)\n", leg.name, leg.what, figures.seconds);
    let heal = figures.heal_ms.map_or_else(|| "did not heal".to_owned(), |ms| format!("healed in {ms} ms"));
    let _ = writeln!(
        text,
        "  {} ops; {} diverged holders, {} lost updates; {heal} with {} messages, {} bytes",
        figures.ops, figures.diverged_holders, figures.lost_updates, figures.converge_messages, figures.converge_bytes,
    );
    let repair = &figures.repair;
    let each = figures.bytes_per_segment().map_or_else(|| "none needed".to_owned(), |each| format!("{each:.1} each"));
    let _ = writeln!(
        text,
        "  repair: {} sessions and {} bootstraps, {} bytes for {} differing segments ({each}); {} bytes of content",
        repair.sessions, repair.bootstraps, repair.slice_bytes, repair.differing_segments, repair.content_bytes,
    );
    for broken in &figures.violations {
        let _ = writeln!(text, "  VIOLATION {broken}");
    }
    text
}
