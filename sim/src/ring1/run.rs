//! `covey-sim run`: one plan, what it came to, and if it broke something everything that helps to see why.
//!
//! Not here: the text of a failure (`failure`).

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::failure;
use super::plan_args::PlanArgs;
use super::plants;
use super::say;
use super::units::moment_us;
use crate::film::film;
use crate::plan::Plan;
use crate::trace::{Jsonl, Perfetto, Tee, node_name, plan_hash};
use crate::world::{self, Outcome, Watch, World};

/// What `covey-sim run` takes.
#[derive(Args, Debug)]
pub struct RunArgs {
    #[command(flatten)]
    plan: PlanArgs,
    /// Write every event as a line of JSON (time, number, node, kind, cause, digest)
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Write a trace that ui.perfetto.dev opens: a process a node, arrows for frames, counters for lag
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,
    /// Write a film of the run for the dashboard, a frame a line: `covey-sim serve --recording FILE` plays it
    #[arg(long, value_name = "FILE")]
    frames: Option<PathBuf>,
    #[command(flatten)]
    film: FilmArgs,
    /// Stop at this virtual time, for example 41.2s [default: run until all replicas are clean and equal]
    #[arg(long, value_name = "TIME", value_parser = moment_us)]
    until: Option<u64>,
}

/// How a run is filmed.
#[derive(Args, Clone, Debug)]
pub struct FilmArgs {
    /// Virtual time from one frame to the next, for example 100ms; at least 10ms
    #[arg(long, value_name = "TIME", default_value = "250ms", value_parser = moment_us)]
    every: u64,
    /// Film what this gateway knows, for example gw-2 [default: what an observer sees who knows everything]
    #[arg(long = "as", value_name = "NAME")]
    viewer: Option<String>,
}

impl FilmArgs {
    /// Milliseconds between frames, and the viewer's number.
    ///
    /// # Errors
    /// When there is no such gateway in the plan, or frames are too many.
    pub fn check(&self, plan: &Plan) -> Result<(u64, Option<usize>), String> {
        let every_ms = self.every / 1_000;
        if every_ms < 10 {
            return Err("--every is below 10ms: frames that close show nothing more".to_owned());
        }
        let Some(name) = &self.viewer else { return Ok((every_ms, None)) };
        let found = (0..plan.nodes).find(|node| node_name(*node) == *name);
        let last = node_name(plan.nodes - 1);
        found.map(|node| (every_ms, Some(node))).ok_or(format!("--as {name}: the plan has gw-0 to {last}"))
    }
}

/// Runs one plan and prints it, and what it came to.
///
/// # Errors
/// When the plan cannot be read or carried out, or a trace cannot be written, naming the place.
pub fn run(args: &RunArgs) -> Result<ExitCode, String> {
    plants::with(args.plan.plant.as_deref(), || planted(args))?
}

fn planted(args: &RunArgs) -> Result<ExitCode, String> {
    let mut plan = args.plan.plan()?;
    let outcome = if let Some(path) = &args.frames {
        filmed(args, &plan, path)?
    } else if args.trace.is_some() || args.perfetto.is_some() {
        traced(args, &plan)?
    } else {
        let whole = plan.end_us;
        plan.end_us = [whole, args.until].into_iter().flatten().min();
        let outcome = world::run(&plan);
        plan.end_us = whole;
        outcome
    };
    say(&summary(&plan, &outcome));
    if outcome.violations.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    say(&failure::text(&plan, &args.plan.again(), args.until));
    Ok(ExitCode::FAILURE)
}

/// Runs the plan and writes its film.
fn filmed(args: &RunArgs, plan: &Plan, path: &Path) -> Result<Outcome, String> {
    if args.trace.is_some() || args.perfetto.is_some() {
        return Err("--frames and a trace in one run: run it twice, it is the same run".to_owned());
    }
    let (every_ms, viewer) = args.film.check(plan)?;
    let mut out = BufWriter::new(create(path)?);
    let mut broken = None;
    let outcome = film(plan, every_ms, viewer, args.until, |frame| {
        let wrote = serde_json::to_writer(&mut out, &frame).map_err(std::io::Error::from);
        broken = wrote.and_then(|()| out.write_all(b"\n")).err();
        broken.is_none()
    });
    match broken.or(out.flush().err()) {
        Some(why) => Err(format!("{} could not be written to its end: {why}; is the disk full?", path.display())),
        None => Ok(outcome),
    }
}

/// Runs the plan with the traces that were asked for. A panic ends it like anywhere else, with the traces as far as they got.
fn traced(args: &RunArgs, plan: &Plan) -> Result<Outcome, String> {
    let mut tracers = Tee::default();
    if let Some(path) = &args.trace {
        tracers.0.push(Box::new(Jsonl::new(create(path)?, plan)));
    }
    if let Some(path) = &args.perfetto {
        tracers.0.push(Box::new(Perfetto::new(create(path)?, plan)));
    }
    let watch = Watch { tracer: Some(Box::new(tracers)), until_us: args.until, ..Watch::default() };
    let mut world = World::new(plan.clone(), watch);
    world.run_out();
    let (outcome, tracer) = world.finish();
    if let Some(mut tracer) = tracer {
        tracer.finish().map_err(|why| format!("a trace could not be written to its end: {why}; is the disk full?"))?;
    }
    Ok(outcome)
}

fn create(path: &Path) -> Result<File, String> {
    File::create(path).map_err(|why| format!("{} cannot be written: {why}", path.display()))
}

fn summary(plan: &Plan, outcome: &Outcome) -> String {
    let json = serde_json::to_string_pretty(plan).expect("a plan of plain fields always encodes");
    let mut text = format!("{json}\n\nplan {}, trace {:016x}: ", plan_hash(plan), outcome.trace);
    text += &format!("{} events, {} core events, {} ops, ", outcome.events, outcome.core_events, outcome.ops);
    text += &format!("{} frames of {} bytes in all\n", outcome.frames, outcome.bytes);
    for (mark, count) in &outcome.marks {
        text += &format!("  {mark:<22} {count}\n");
    }
    match outcome.converged_ms {
        Some(ms) => text + &format!("held: all replicas clean and equal {ms} virtual ms after the last fault\n"),
        None if outcome.violations.is_empty() => {
            text + &format!("held until {:.6} s, where it was stopped\n", outcome.ended_us as f64 / 1e6)
        }
        None => text,
    }
}
