//! `covey-sim eval`: reads or makes up the workload, plays it through every arm and seed, and prints what they came to.
//!
//! Not here: one run (`play`). Exit codes: 0, and 1 when a suite's mark
//! was missed.

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use covey_gateway_plugin::policy::Tuning;
use indicatif::ProgressBar;
use serde_json::Value;

use super::args::EvalArgs;
use super::arms::{Arm, Setting};
use super::figures::Figures;
use super::fleet::FleetConfig;
use super::generate::{Shape, sessions};
use super::play::play;
use super::read::read;
use super::report::{ArmRuns, Comparison};
use super::suite::Suite;
use super::sweep::Sweep;
use super::trace::Trace;

/// Workers that Mooncake's conversations were recorded of.
const MOONCAKE_WORKERS: u32 = 8;
/// Made up where no trace is given: sessions a second for each worker, and seconds.
const SESSIONS_PER_WORKER_S: f64 = 1.2;
const SESSIONS_S: f64 = 60.0;

/// Compares arms on one workload; `trace_of` gives it for a seed. Runs of several seeds at the same time.
pub(super) fn compare(
    name: &str,
    arms: &[Arm],
    config: FleetConfig,
    gateways: usize,
    seeds: &[u64],
    tuning: Tuning,
    trace_of: &(dyn Fn(u64) -> Trace + Sync),
) -> Comparison {
    let jobs: Vec<(Arm, u64)> = arms.iter().flat_map(|arm| seeds.iter().map(|seed| (*arm, *seed))).collect();
    let figures = in_parallel(jobs.len(), |nth| {
        let (arm, seed) = jobs[nth];
        play(arm, &trace_of(seed), config, &Setting { seed, gateways, tuning, ..Setting::default() })
    });
    let mut figures = figures.into_iter();
    let runs = |arm: &Arm, figures: &mut dyn Iterator<Item = Figures>| ArmRuns {
        arm: *arm,
        name: arm.name(),
        runs: figures.take(seeds.len()).collect(),
    };
    Comparison {
        trace: name.to_owned(),
        workers: config.workers as u32,
        gateways: gateways as u32,
        arms: arms.iter().map(|arm| runs(arm, &mut figures)).collect(),
    }
}

/// Does so many jobs on as many threads as there are cores, and shows how far it is; gives what they came to, in their order.
pub(super) fn in_parallel(jobs: usize, job: impl Fn(usize) -> Figures + Sync) -> Vec<Figures> {
    let bar = ProgressBar::new(jobs as u64).with_prefix("played");
    bar.tick();
    let (next, done) = (AtomicUsize::new(0), Mutex::new(vec![None; jobs]));
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(jobs);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let nth = next.fetch_add(1, Ordering::Relaxed);
                    if nth >= jobs {
                        break;
                    }
                    let figures = job(nth);
                    done.lock().unwrap_or_else(PoisonError::into_inner)[nth] = Some(figures);
                    bar.inc(1);
                }
            });
        }
    });
    bar.finish_and_clear();
    done.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().flatten().collect()
}

/// Does what was asked for and prints a table.
///
/// # Errors
/// When the trace cannot be read, in words for a terminal.
pub fn run(args: &EvalArgs) -> Result<ExitCode, String> {
    if args.suite.is_some() {
        let (text, json, missed) =
            Suite { is_quick: args.quick, seed: args.seed, shapes: args.shapes.clone(), rates: args.rates.clone() }
                .run();
        say(&text)?;
        write_json(args, &json)?;
        return Ok(if missed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let workload = Workload::new(args)?;
    let comparison = match &args.sweep {
        None => workload.compare(args, &args.arms, Tuning::default()),
        Some(sweep) => swept(sweep, args, &workload),
    };
    say(&comparison.table())?;
    write_json(args, &comparison.json())?;
    Ok(ExitCode::SUCCESS)
}

/// One number of the policy at each of its values, beside exact knowledge.
fn swept(sweep: &Sweep, args: &EvalArgs, workload: &Workload) -> Comparison {
    let mut comparison = workload.compare(args, &[Arm::ExactP2c], Tuning::default());
    for &value in &sweep.values {
        let arms = workload.compare(args, &[sweep.knob.arm()], sweep.knob.tuned(value)).arms;
        comparison.arms.extend(arms.into_iter().map(|runs| ArmRuns { name: sweep.name(value), ..runs }));
    }
    comparison
}

/// What is played: a trace, or sessions made up for each seed.
enum Workload {
    Trace(Trace),
    Sessions { per_s: f64, seconds: f64 },
}

impl Workload {
    fn new(args: &EvalArgs) -> Result<Self, String> {
        let Some(path) = &args.trace else {
            let seconds = args.seconds.map_or(SESSIONS_S, f64::from);
            return Ok(Self::Sessions { per_s: SESSIONS_PER_WORKER_S * f64::from(args.workers), seconds });
        };
        let (trace, skipped) = read(path, args.block_tokens)?;
        if skipped > 0 {
            say(&format!("{skipped} requests without a block were left out\n"))?;
        }
        Ok(Self::Trace(prepared(trace, args)))
    }

    fn compare(&self, args: &EvalArgs, arms: &[Arm], tuning: Tuning) -> Comparison {
        let block_tokens = if args.trace.is_some() { args.block_tokens } else { 64 };
        let config = FleetConfig {
            workers: args.workers as usize,
            cache_tokens: args.cache_tokens,
            prefill_tokens_per_s: args.prefill_tokens_per_s,
            block_tokens,
        };
        let seeds: Vec<u64> = (args.seed..args.seed + u64::from(args.seeds)).collect();
        let name = match self {
            Self::Trace(trace) => &trace.name,
            Self::Sessions { .. } => "agentic (made up)",
        };
        compare(name, arms, config, args.gateways as usize, &seeds, tuning, &|seed| match self {
            Self::Trace(trace) => {
                let mut trace = trace.clone();
                trace.spread_ticks(seed);
                trace
            }
            Self::Sessions { per_s, seconds } => sessions(&Shape::AGENTIC, *per_s, *seconds, block_tokens, seed),
        })
    }
}

fn write_json(args: &EvalArgs, json: &Value) -> Result<(), String> {
    let Some(file) = &args.json else { return Ok(()) };
    std::fs::write(file, format!("{json:#}\n")).map_err(|why| format!("{} cannot be written: {why}", file.display()))
}

/// The trace as it is played: cut, and copied for the workers there are.
fn prepared(mut trace: Trace, args: &EvalArgs) -> Trace {
    if let Some(seconds) = args.seconds {
        trace.asks.retain(|ask| ask.at_us < u64::from(seconds) * 1_000_000);
    }
    let is_mooncake = trace.name.starts_with("mooncake");
    let natural = if is_mooncake { args.workers / MOONCAKE_WORKERS } else { 1 };
    let copies = args.copies.unwrap_or(natural).max(1) as usize;
    if copies > 1 {
        let first = trace.asks.first().and_then(|ask| ask.blocks.first()).copied();
        trace = trace.copied(copies, &first.into_iter().collect::<Vec<_>>());
    }
    trace
}

fn say(text: &str) -> Result<(), String> {
    std::io::stdout().write_all(text.as_bytes()).map_err(|why| format!("report cannot be written: {why}"))
}
